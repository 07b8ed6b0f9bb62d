/* Children of fork, closed standard streams, a full disk, a limit on the length of a file. */
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int exit_of(pid_t child)
{
    int status = 0;

    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void forked(void)
{
    spt_table *table, *in_memory, *own;
    spt_cursor *cursor;
    spt_view view;
    char buffer[16];
    size_t len = 0;
    pid_t child;

    OK(spt_open(path_of("forked.spt"), NULL, &table));
    OK(spt_open_in_memory(NULL, &in_memory));
    OK(spt_put(table, B("k"), B("v")));
    OK(spt_put(in_memory, B("k"), B("v")));
    OK(spt_scan(table, 0, &cursor));
    OK(spt_get_view(table, B("k"), &view));
    fflush(NULL);
    child = fork();
    if (child == 0) {
        EXPECT(SPT_FORKED, spt_put(table, B("k"), B("child")));
        OK(spt_put(in_memory, B("k"), B("child")));
        EXPECT(SPT_FORKED, spt_sync(table));
        EXPECT(SPT_FORKED, spt_cursor_next(cursor, NULL, NULL));
        EXPECT(SPT_FORKED, spt_check(table, NULL, NULL, NULL));
        EXPECT(SPT_IN_USE, spt_close(table));
        OK(spt_view_release(&view));
        OK(spt_cursor_close(cursor));
        EXPECT(SPT_FORKED, spt_close(table));
        EXPECT(SPT_INVALID_HANDLE, spt_close(table));
        CHECK(has(in_memory, "k", "child"));
        OK(spt_close(in_memory));
        OK(spt_open_in_memory(NULL, &own));
        OK(spt_put(own, B("k"), B("child's own")));
        OK(spt_close(own));
        EXPECT(SPT_LOCKED, spt_open(path_of("forked.spt"), NULL, &own));
        _exit(7);
    }
    CHECK(exit_of(child) == 7);
    OK(spt_view_release(&view));
    OK(spt_cursor_close(cursor));
    OK(spt_get(table, B("k"), buffer, sizeof buffer, &len));
    CHECK(len == 1 && buffer[0] == 'v');
    OK(spt_put(table, B("k"), B("parent")));
    CHECK(has(in_memory, "k", "v"));
    OK(spt_close(in_memory));
    OK(spt_close(table));
    OK(spt_open(path_of("forked.spt"), NULL, &table));
    CHECK(has(table, "k", "parent"));
    OK(spt_close(table));
}

/* Fills the table until it refuses; what it took is there, also when it is opened again, which needs no room. Then
   makes room. */
static void fill(const char *path, int expected, const char *cause, void (*make_room)(void))
{
    static char value[5000];
    spt_options options = SPT_OPTIONS_INIT;
    spt_table *table;
    uint64_t stored = 0, removed = 0, faults = 9;
    spt_status status = SPT_OK;

    options.log_bytes = 1 << 20;
    OK(spt_open(path, &options, &table));
    memset(value, 'x', sizeof value);
    for (uint64_t i = 0; i < 100000 && status == SPT_OK; i++) {
        status = spt_put(table, &i, sizeof i, value, sizeof value);
        stored += status == SPT_OK;
    }
    EXPECT(expected, status);
    CHECK(stored > 100 && strstr(spt_error_message(table), cause) != NULL);
    CHECK(strstr(spt_error_message(table), "try again") != NULL);
    printf("%d pairs stored before: %s\n", (int)stored, spt_error_message(table));
    CHECK(len_of(table) == stored);
    status = spt_close(table);
    CHECK(status == SPT_OK || status == SPT_DISK_FULL);
    OK(spt_open(path, &options, &table));
    CHECK(len_of(table) == stored);
    OK(spt_check(table, NULL, NULL, &faults));
    /* On a disk that is full to the last byte the log may have no room for a removal. */
    status = spt_remove(table, &removed, sizeof removed);
    CHECK(status == SPT_OK || status == SPT_DISK_FULL);
    removed += status == SPT_OK;
    CHECK(len_of(table) == stored - removed);
    make_room();
    for (; removed < stored / 2; removed++)
        OK(spt_remove(table, &removed, sizeof removed));
    OK(spt_put(table, B("again"), value, sizeof value));
    OK(spt_close(table));
    options.flags = SPT_READ_ONLY;
    OK(spt_open(path, &options, &table));
    OK(spt_contains(table, B("again")));
    CHECK(len_of(table) == stored - stored / 2 + 1);
    OK(spt_close(table));
}

static char ballast[600];

static void remove_ballast(void)
{
    CHECK(remove(ballast) == 0);
}

static void full_disk(void)
{
    const char *directory = path_of("small");
    static char bytes[4 << 20];
    char path[600];
    FILE *file;

    CHECK(mkdir(directory, 0700) == 0);
    if (mount("tmpfs", directory, "tmpfs", 0, "size=16m") != 0) {
        printf("SKIPPED: a full disk, as a tmpfs could not be mounted: %s\n", strerror(errno));
        return;
    }
    snprintf(path, sizeof path, "%s/full.spt", directory);
    snprintf(ballast, sizeof ballast, "%s/ballast", directory);
    memset(bytes, 1, sizeof bytes);
    CHECK((file = fopen(ballast, "wb")) != NULL);
    CHECK(fwrite(bytes, sizeof bytes, 1, file) == 1 && fclose(file) == 0);
    pid_t child = fork();
    if (child == 0) {
        fill(path, SPT_DISK_FULL, "No space left", remove_ballast);
        _exit(7);
    }
    int status = exit_of(child);
    CHECK(umount(directory) == 0);
    CHECK(status == 7);
}

static void limit_length(rlim_t bytes)
{
    struct rlimit limit = {bytes, 40 << 20};

    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void raise_limit(void)
{
    limit_length(40 << 20);
}

/* `ulimit -f`: an error, and no SIGXFSZ. */
static void limited_length(void)
{
    pid_t child = fork();

    if (child == 0) {
        limit_length(12 << 20);
        fill(path_of("limited.spt"), SPT_DISK_FULL, "may make no file longer", raise_limit);
        _exit(7);
    }
    CHECK(exit_of(child) == 7);
}

/* A table does not get the descriptor of a standard stream that is closed: messages would go into it. */
static void closed_streams(void)
{
    spt_table *table;
    uint64_t len = 0;
    fflush(NULL);
    pid_t child = fork();

    if (child == 0) {
        for (int stream = 0; stream <= 2; stream++)
            close(stream);
        if (spt_open(path_of("streams.spt"), NULL, &table) != SPT_OK)
            _exit(1);
        for (int n = 0; n < 2000; n++) {
            if (spt_put(table, (const char *)&n, sizeof n, "value", 5) != SPT_OK)
                _exit(2);
            for (int stream = 0; stream <= 2; stream++)
                if (write(stream, "a warning\n", 10) < 0 && errno != EBADF)
                    _exit(3);
        }
        _exit(spt_close(table) == SPT_OK ? 7 : 4);
    }
    CHECK(exit_of(child) == 7);
    OK(spt_open(path_of("streams.spt"), NULL, &table));
    OK(spt_len(table, &len));
    CHECK(len == 2000);
    OK(spt_check(table, NULL, NULL, NULL));
    OK(spt_close(table));
}

int main(void)
{
    forked();
    closed_streams();
    fflush(NULL);
    full_disk();
    limited_length();
    puts("processes: passed");
    return 0;
}

/* What our gdbm promises beyond gdbm's, and its errors. */
#define _GNU_SOURCE
#include <gdbm.h>

#include "check.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

static datum bytes(const void *data, int len)
{
    datum made = {(char *)data, len};
    return made;
}

static datum text(const char *string) { return bytes(string, (int)strlen(string)); }

/* Frees what was found. */
static int is(datum found, const char *expected)
{
    int same = found.dptr && found.dsize == (int)strlen(expected) && !memcmp(found.dptr, expected, strlen(expected));
    free(found.dptr);
    return same;
}

static GDBM_FILE opened(const char *name, int flags)
{
    GDBM_FILE db = gdbm_open(name, 0, flags, 0644, NULL);
    REQUIRE(db);
    return db;
}

static void write_file(const char *path, const void *content, size_t len)
{
    FILE *file = fopen(path, "w");
    REQUIRE(file && fwrite(content, 1, len, file) == len && !fclose(file));
}

static void impossible_arguments_are_errors(void)
{
    GDBM_FILE db = opened("arguments", GDBM_NEWDB);
    static const int LENGTHS[] = {-1, INT_MIN, -1000};
    for (int i = 0; i < 3; i++) {
        datum wrong = bytes("x", LENGTHS[i]);
        CHECK(gdbm_store(db, wrong, text("v"), GDBM_REPLACE) == -1 && gdbm_errno == GDBM_MALFORMED_DATA);
        CHECK(gdbm_store(db, text("k"), wrong, GDBM_REPLACE) == -1 && gdbm_errno == GDBM_MALFORMED_DATA);
        CHECK(!gdbm_fetch(db, wrong).dptr && gdbm_errno == GDBM_MALFORMED_DATA);
        CHECK(!gdbm_exists(db, wrong) && gdbm_errno == GDBM_MALFORMED_DATA);
        CHECK(gdbm_delete(db, wrong) == -1 && gdbm_errno == GDBM_MALFORMED_DATA);
        CHECK(!gdbm_nextkey(db, wrong).dptr && gdbm_errno == GDBM_MALFORMED_DATA);
    }
    CHECK(!gdbm_fetch(db, bytes(NULL, 5)).dptr && gdbm_errno == GDBM_MALFORMED_DATA);
    CHECK(!gdbm_fetch(db, bytes(NULL, 0)).dptr && gdbm_errno == GDBM_ITEM_NOT_FOUND);
    CHECK(gdbm_store(db, bytes("", 0), text("of nothing"), GDBM_INSERT) == 0);
    CHECK(is(gdbm_fetch(db, bytes(NULL, 0)), "of nothing"));
    gdbm_close(db);
    /* Without a database. */
    gdbm_count_t count;
    size_t buckets;
    CHECK(!gdbm_open(NULL, 0, GDBM_READER, 0, NULL) && gdbm_errno == GDBM_FILE_OPEN_ERROR && errno == EFAULT);
    CHECK(gdbm_store(NULL, text("k"), text("v"), 0) == -1 && gdbm_errno == GDBM_ERR_USAGE && errno == EINVAL);
    CHECK(!gdbm_fetch(NULL, text("k")).dptr && !gdbm_firstkey(NULL).dptr && !gdbm_exists(NULL, text("k")));
    CHECK(gdbm_count(NULL, &count) == -1 && gdbm_bucket_count(NULL, &buckets) == -1 && gdbm_fdesc(NULL) == -1);
    CHECK(gdbm_sync(NULL) == -1 && gdbm_reorganize(NULL) == -1 && gdbm_recover(NULL, NULL, 0) == -1);
    CHECK(gdbm_close(NULL) == -1 && gdbm_setopt(NULL, GDBM_GETFLAGS, NULL, 0) == -1);
    CHECK(gdbm_dump(NULL, "d", 0, GDBM_NEWDB, 0644) == -1 && gdbm_import(NULL, "d", 0) == -1);
    CHECK(!strcmp(gdbm_db_strerror(NULL), gdbm_strerror(GDBM_ERR_USAGE)) && gdbm_last_errno(NULL) == -1);
    CHECK(!strcmp(gdbm_strerror(INT_MAX), gdbm_strerror(GDBM_UNKNOWN_ERROR)));
}

static void a_reader_runs_beside_a_writer(void)
{
    GDBM_FILE writer = opened("beside", GDBM_NEWDB);
    CHECK(gdbm_store(writer, text("key"), text("value"), GDBM_INSERT) == 0);
    CHECK(gdbm_sync(writer) == 0);
    GDBM_FILE reader = opened("beside", GDBM_READER);
    CHECK(is(gdbm_fetch(reader, text("key")), "value"));
    errno = 0;
    CHECK(!gdbm_open("beside", 0, GDBM_WRITER | GDBM_NOLOCK, 0, NULL));
    CHECK(gdbm_errno == GDBM_CANT_BE_WRITER && errno == EAGAIN);
    CHECK(gdbm_close(writer) == 0 && gdbm_close(reader) == 0);
}

static void files_of_gdbm_are_named(void)
{
    static const uint32_t MAGICS[] = {0x13579ace, 0x13579acd, 0x13579acf, 0x13579ad0, 0x13579ad1, 0xce9a5713};
    for (int i = 0; i < 6; i++) {
        char content[4096] = {0};
        memcpy(content, &MAGICS[i], 4);
        write_file("theirs", content, sizeof content);
        for (int flags = GDBM_READER; flags <= GDBM_WRCREAT; flags++) {
            errno = 0;
            CHECK(!gdbm_open("theirs", 0, flags, 0644, NULL) && gdbm_errno == GDBM_BAD_MAGIC_NUMBER && errno == 0);
            CHECK(strstr(gdbm_strerror(gdbm_errno), "splitpoint load"));
        }
    }
    write_file("other", "certainly not a table, nor a file of gdbm\n", 42);
    CHECK(!gdbm_open("other", 0, GDBM_READER, 0, NULL) && gdbm_errno == GDBM_BAD_MAGIC_NUMBER);
    CHECK(!strcmp(gdbm_strerror(gdbm_errno), "Bad magic number"));
}

enum { COUNT = 2000 };

/* Each record that stays is seen once; every second one is deleted when it is seen, and the walk goes on from it. */
static void a_walk_misses_no_key_that_stays(void)
{
    static char seen[COUNT];
    char name[16];
    int walked = 0;
    GDBM_FILE db = opened("walk", GDBM_NEWDB);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(!gdbm_store(db, bytes(name, sprintf(name, "%d", i)), text("value"), GDBM_INSERT));
    for (datum key = gdbm_firstkey(db), next; key.dptr; key = next) {
        int i = atoi(key.dptr);
        REQUIRE(i >= 0 && i < COUNT);
        CHECK(!seen[i]++);
        walked++;
        if (i % 2)
            CHECK(gdbm_delete(db, key) == 0);
        /* Another walk, and lookups, do not disturb it. */
        if (i % 100 == 0)
            free(gdbm_firstkey(db).dptr);
        next = gdbm_nextkey(db, key);
        free(key.dptr);
    }
    gdbm_count_t count;
    CHECK(walked == COUNT && gdbm_errno == GDBM_ITEM_NOT_FOUND);
    CHECK(gdbm_count(db, &count) == 0 && count == COUNT / 2);
    CHECK(gdbm_reorganize(db) == 0 && gdbm_avail_verify(db) == 0);
    gdbm_close(db);
}

static void a_killed_writer_leaves_what_it_stored(void)
{
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        GDBM_FILE db = gdbm_open("killed", 0, GDBM_NEWDB, 0644, NULL);
        if (!db || gdbm_store(db, text("key"), text("value"), GDBM_INSERT))
            _exit(1);
        raise(SIGSTOP); /* valgrind looks for leaks, for minutes, in a program that ends with a table open */
    }
    int status;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && !kill(child, SIGKILL));
    REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    GDBM_FILE db = opened("killed", GDBM_WRITER);
    CHECK(is(gdbm_fetch(db, text("key")), "value"));
    CHECK(gdbm_setopt(db, GDBM_SETSYNCMODE, &(int){1}, sizeof(int)) == 0);
    CHECK(gdbm_store(db, text("key"), text("synced"), GDBM_REPLACE) == 0);
    CHECK(gdbm_delete(db, text("key")) == 0);
    gdbm_close(db);
}

static int told;
static void tell(void *data, char const *format, ...)
{
    va_list arguments;
    char line[1000];
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    CHECK(strstr(line, "salvage") && data == &told);
    told++;
}

static void damage_is_reported_and_refused_until_recovery(void)
{
    char name[16];
    gdbm_recovery recovery = {.errfun = tell, .data = &told};
    GDBM_FILE db = opened("damaged", GDBM_NEWDB);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(!gdbm_store(db, bytes(name, sprintf(name, "%d", i)), text("value"), GDBM_INSERT));
    CHECK(gdbm_recover(db, &recovery, GDBM_RCVR_FORCE | GDBM_RCVR_BACKUP | GDBM_RCVR_ERRFUN) == 0 && told == 0);
    CHECK(recovery.recovered_keys == COUNT && recovery.recovered_buckets > 0 && recovery.failed_keys == 0);
    REQUIRE(recovery.backup_name);
    GDBM_FILE backup = opened(recovery.backup_name, GDBM_READER);
    CHECK(is(gdbm_fetch(backup, text("7")), "value"));
    gdbm_close(backup);
    free(recovery.backup_name);
    gdbm_close(db);
    /* Each second block that has a value. */
    char block[4096];
    int file = open("damaged", O_RDWR), valued = 0;
    for (off_t at = 0; pread(file, block, sizeof block, at) == sizeof block; at += sizeof block)
        if (memmem(block, sizeof block, "value", 5) && ++valued % 2)
            REQUIRE(pwrite(file, "damage", 6, at + 100) == 6);
    close(file);
    CHECK(!gdbm_open("damaged", 0, GDBM_READER | GDBM_XVERIFY, 0, NULL) && gdbm_errno == GDBM_BAD_HEADER);
    REQUIRE((db = gdbm_open("damaged", 0, GDBM_WRITER, 0, NULL)));
    int failed = 0;
    for (int i = 0; i < COUNT && !failed; i++) {
        datum found_value = gdbm_fetch(db, bytes(name, sprintf(name, "%d", i)));
        failed = !found_value.dptr;
        free(found_value.dptr);
    }
    CHECK(failed && gdbm_errno == GDBM_FILE_READ_ERROR && gdbm_needs_recovery(db));
    CHECK(gdbm_store(db, text("k"), text("v"), GDBM_REPLACE) == -1 && gdbm_errno == GDBM_NEED_RECOVERY);
    CHECK(!gdbm_fetch(db, text("1")).dptr && gdbm_last_errno(db) == GDBM_NEED_RECOVERY);
    CHECK(gdbm_recover(db, &recovery, GDBM_RCVR_ERRFUN) == -1 && gdbm_errno == GDBM_REORGANIZE_FAILED);
    CHECK(told > 0 && recovery.failed_buckets == (size_t)told && gdbm_needs_recovery(db));
    gdbm_close(db);
}

static void empty_values_survive_both_formats(void)
{
    GDBM_FILE db = opened("empties", GDBM_NEWDB), copy;
    CHECK(gdbm_store(db, text("none"), text(""), GDBM_INSERT) == 0);
    CHECK(gdbm_store(db, text(""), text(""), GDBM_INSERT) == 0);
    CHECK(gdbm_store(db, text("some"), text("value"), GDBM_INSERT) == 0);
    for (int format = GDBM_DUMP_FMT_BINARY; format <= GDBM_DUMP_FMT_ASCII; format++) {
        gdbm_count_t count;
        CHECK(gdbm_dump(db, "empties.dump", format, GDBM_NEWDB, 0644) == 0);
        copy = opened("copy", GDBM_NEWDB);
        CHECK(gdbm_load(&copy, "empties.dump", GDBM_INSERT, 0, NULL) == 0);
        CHECK(gdbm_count(copy, &count) == 0 && count == 3);
        CHECK(is(gdbm_fetch(copy, text("none")), "") && is(gdbm_fetch(copy, text("some")), "value"));
        gdbm_close(copy);
    }
    gdbm_close(db);
}

/* Each prefix of a dump, and each with one byte changed, loads or is an error; none crashes. */
static void damaged_dumps_are_errors(void)
{
    static char dump[4096], changed[4096];
    GDBM_FILE db = opened("dumped", GDBM_NEWDB), copy = opened("copy", GDBM_NEWDB);
    CHECK(!gdbm_store(db, text("key"), text("value"), 0) && !gdbm_store(db, text("longer key"), text("and value"), 0));
    for (int format = GDBM_DUMP_FMT_BINARY; format <= GDBM_DUMP_FMT_ASCII; format++) {
        CHECK(gdbm_dump(db, "whole", format, GDBM_NEWDB, 0644) == 0);
        FILE *file = fopen("whole", "r");
        size_t len = fread(dump, 1, sizeof dump, file);
        fclose(file);
        for (size_t i = 0; i < len; i++) {
            write_file("cut", dump, i);
            gdbm_load(&copy, "cut", GDBM_REPLACE, GDBM_META_MASK_MODE | GDBM_META_MASK_OWNER, NULL);
            memcpy(changed, dump, len);
            changed[i] = (char)(changed[i] ^ (i % 2 ? 0x80 : 0x11));
            write_file("changed", changed, len);
            int result = gdbm_load(&copy, "changed", GDBM_REPLACE, GDBM_META_MASK_MODE | GDBM_META_MASK_OWNER, NULL);
            CHECK(result == 0 || gdbm_errno != GDBM_NO_ERROR);
        }
    }
    /* A length of 2 GiB - 1, with three bytes behind it. */
    static const char HEAD[] = "!\r\n!\r\n!\r\n!\r\n";
    unsigned char len[sizeof(unsigned long)] = {0x7f, 0xff, 0xff, 0xff};
    memcpy(changed, HEAD, sizeof HEAD - 1);
    memcpy(changed + sizeof HEAD - 1, len, sizeof len);
    memcpy(changed + sizeof HEAD - 1 + sizeof len, "abc", 3);
    write_file("long", changed, sizeof HEAD - 1 + sizeof len + 3);
    CHECK(gdbm_import(copy, "long", GDBM_REPLACE) == -1 && gdbm_errno == GDBM_FILE_READ_ERROR);
    changed[sizeof HEAD - 1] = (char)0xff;
    write_file("long", changed, sizeof HEAD - 1 + sizeof len + 3);
    CHECK(gdbm_import(copy, "long", GDBM_REPLACE) == -1 && gdbm_errno == GDBM_MALFORMED_DATA);
    gdbm_close(db);
    gdbm_close(copy);
}

static void what_there_is_not_says_so(void)
{
    const char *latest = NULL;
    GDBM_FILE db = opened("plain", GDBM_NEWDB);
    errno = 0;
    CHECK(gdbm_failure_atomic(db, "even", "odd") == -1 && gdbm_errno == GDBM_ERR_USAGE && errno == ENOSYS);
    CHECK(!strcmp(gdbm_db_strerror(db), "Function usage error: Function not implemented"));
    errno = 0;
    CHECK(gdbm_latest_snapshot("even", "odd", &latest) == GDBM_SNAPSHOT_ERR && errno == ENOSYS && !latest);
    int block = 0;
    CHECK(gdbm_setopt(db, GDBM_GETBLOCKSIZE, &block, sizeof block) == 0 && block == 1024);
    gdbm_close(db);
    REQUIRE((db = gdbm_open("blocks", 1500, GDBM_NEWDB, 0600, NULL)) && permissions("blocks") == 0600);
    CHECK(gdbm_setopt(db, GDBM_GETBLOCKSIZE, &block, sizeof block) == 0 && block == 2048);
    gdbm_close(db);
    CHECK(!gdbm_open("blocks", 1 << 20, GDBM_NEWDB | GDBM_BSEXACT, 0600, NULL) && gdbm_errno == GDBM_BLOCK_SIZE_ERROR);
}

/* man-db fills a file, gives it its final name, perhaps in the place of another, and only then closes it. */
static void a_file_renamed_while_open_has_all_records(void)
{
    for (int round = 0; round < 3; round++) {
        GDBM_FILE db = opened("unfinished", GDBM_NEWDB), before = opened("finished", GDBM_NEWDB);
        CHECK(gdbm_store(db, text("key"), text("value"), GDBM_INSERT) == 0);
        CHECK(!rename("unfinished", "finished"));
        if (round == 1)
            CHECK(gdbm_sync(db) == 0);
        CHECK(gdbm_store(db, text("later"), text("too"), GDBM_INSERT) == 0);
        /* Another file of the old name is left alone. */
        if (round == 2)
            write_file("unfinished", "another", 7);
        CHECK(gdbm_close(db) == (round == 2 ? -1 : 0));
        gdbm_close(before);
        CHECK(exists("unfinished") == (round == 2));
        if (round < 2) {
            CHECK(!exists("unfinished-log0"));
            db = opened("finished", GDBM_READER);
            CHECK(is(gdbm_fetch(db, text("key")), "value") && is(gdbm_fetch(db, text("later")), "too"));
            gdbm_close(db);
        }
        unlink("finished");
    }
}

/* A descriptor is opened by its file's name; a file that has another name by now is found. */
static void a_descriptor_finds_its_file(void)
{
    int file = open("renamed", O_RDWR | O_CREAT, 0644);
    REQUIRE(file >= 0 && !rename("renamed", "found"));
    GDBM_FILE db = gdbm_fd_open(file, "renamed", 0, GDBM_WRITER, NULL);
    REQUIRE(db);
    CHECK(gdbm_store(db, text("key"), text("value"), GDBM_INSERT) == 0 && gdbm_close(db) == 0);
    CHECK(exists("found") && !exists("renamed"));
    CHECK((file = open("gone", O_RDWR | O_CREAT, 0644)) >= 0 && !unlink("gone"));
    CHECK(!gdbm_fd_open(file, "gone", 0, GDBM_WRITER, NULL) && gdbm_errno == GDBM_FILE_OPEN_ERROR);
    CHECK(fcntl(file, F_GETFD) >= 0);
    CHECK(!gdbm_fd_open(file, "gone", 0, GDBM_WRITER | GDBM_CLOERROR, NULL) && fcntl(file, F_GETFD) < 0);
}

/* A server forks for each request: reads go on in the child, changes are errors. */
static void a_forked_child_reads_and_does_not_write(void)
{
    GDBM_FILE db = opened("forked", GDBM_NEWDB);
    for (int round = 0; round < 2; round++) {
        CHECK(gdbm_store(db, text("key"), text("value"), GDBM_REPLACE) == 0 && gdbm_sync(db) == 0);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            failures = 0;
            datum first = gdbm_firstkey(db);
            CHECK(first.dptr && !gdbm_nextkey(db, first).dptr && gdbm_errno == GDBM_ITEM_NOT_FOUND);
            CHECK(is(first, "key") && is(gdbm_fetch(db, text("key")), "value") && gdbm_exists(db, text("key")));
            CHECK(!gdbm_fetch(db, text("absent")).dptr && gdbm_errno == GDBM_ITEM_NOT_FOUND);
            CHECK(gdbm_store(db, text("key"), text("child"), GDBM_REPLACE) == -1 && gdbm_errno == GDBM_FILE_WRITE_ERROR);
            CHECK(gdbm_delete(db, text("key")) == -1 && gdbm_errno == GDBM_FILE_WRITE_ERROR);
            CHECK(is(gdbm_fetch(db, text("key")), "value"));
            gdbm_close(db);
            exit(finish());
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(gdbm_store(db, text("later"), text("value"), GDBM_INSERT) == 0 && gdbm_close(db) == 0);
}

/* Limits this process to `bytes` more address space than it has. */
static void limit_addresses(size_t bytes)
{
    size_t pages = 0;
    struct rlimit limit;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file && fscanf(file, "%zu", &pages) == 1 && !fclose(file) && !getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    REQUIRE(!setrlimit(RLIMIT_AS, &limit));
}

/* A mail filter has little more address space than it needs, and a database of its own. */
static void a_database_takes_little_address_space(void)
{
    if (getenv("NO_LIMITS")) /* a sanitizer or valgrind needs address space itself */
        return;
    GDBM_FILE db = opened("small", GDBM_NEWDB);
    CHECK(gdbm_store(db, text("key"), text("value"), GDBM_INSERT) == 0 && gdbm_close(db) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        limit_addresses(100 << 20);
        db = opened("small", GDBM_READER);
        CHECK(is(gdbm_fetch(db, text("key")), "value"));
        gdbm_close(db);
        db = opened("small", GDBM_WRITER);
        for (int i = 0; i < 10000; i++)
            CHECK(gdbm_store(db, bytes(&i, sizeof i), text("a value of some length"), GDBM_REPLACE) == 0);
        CHECK(gdbm_close(db) == 0);
        limit_addresses(1 << 20);
        errno = 0;
        CHECK(!gdbm_open("small", 0, GDBM_WRITER, 0, NULL));
        CHECK(gdbm_errno == GDBM_MALLOC_ERROR && errno == ENOMEM);
        exit(finish());
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    umask(022);
    enter_folder(argc, argv);
    impossible_arguments_are_errors();
    a_reader_runs_beside_a_writer();
    files_of_gdbm_are_named();
    a_walk_misses_no_key_that_stays();
    a_killed_writer_leaves_what_it_stored();
    damage_is_reported_and_refused_until_recovery();
    empty_values_survive_both_formats();
    damaged_dumps_are_errors();
    what_there_is_not_says_so();
    a_file_renamed_while_open_has_all_records();
    a_descriptor_finds_its_file();
    a_forked_child_reads_and_does_not_write();
    a_database_takes_little_address_space();
    return finish();
}

/* What our dbm promises beyond the Seventh Edition's. */
#define _GNU_SOURCE
#include <dbm.h>

#include "check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/wait.h>

static datum bytes(const void *data, int len)
{
    datum made = {(char *)data, len};
    return made;
}

static datum text(const char *string) { return bytes(string, (int)strlen(string)); }

static int is(datum found, const char *expected)
{
    return found.dptr && found.dsize == (int)strlen(expected) && !memcmp(found.dptr, expected, strlen(expected));
}

static void make_empty(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(file >= 0 && !close(file));
}

static void without_a_database_everything_fails(void)
{
    CHECK(dbmclose() == -1 && errno == EBADF);
    CHECK(!fetch(text("key")).dptr && errno == EINVAL);
    CHECK(store(text("key"), text("value")) == -1);
    CHECK(delete(text("key")) == -1);
    CHECK(!firstkey().dptr && !nextkey(text("key")).dptr);
    errno = 0;
    CHECK(dbminit("absent") == -1 && errno == ENOENT);
    CHECK(dbminit(NULL) == -1);
}

static void every_key_can_be_walked_from(void)
{
    char name[20];
    int walked = 0;
    make_empty("walk.pag");
    REQUIRE(dbminit("walk") == 0);
    CHECK(exists("walk.dir"));
    for (int i = 0; i < 1000; i++)
        CHECK(store(bytes(name, sprintf(name, "%d", i)), text("x")) == 0);
    /* Deleting each key before the next one is asked for. */
    for (datum key = firstkey(); key.dptr; key = nextkey(key), walked++)
        CHECK(delete(key) == 0);
    CHECK(walked == 1000 && !firstkey().dptr);
    for (int i = 0; i < 100; i++)
        CHECK(store(bytes(name, sprintf(name, "%d", i)), text("x")) == 0);
    /* From keys that the walk is not at. */
    char first[20] = "", second[20] = "";
    datum key = firstkey();
    memcpy(first, key.dptr, (size_t)key.dsize);
    key = nextkey(key);
    memcpy(second, key.dptr, (size_t)key.dsize);
    while (key.dptr)
        key = nextkey(key);
    CHECK(is(nextkey(text(first)), second));
    CHECK(is(nextkey(text(first)), second));
    /* Also from one that is gone. */
    char third[20] = "";
    key = nextkey(text(second));
    memcpy(third, key.dptr, (size_t)key.dsize);
    CHECK(delete(text(second)) == 0 && is(firstkey(), first));
    CHECK(is(nextkey(text(second)), third));
    CHECK(is(nextkey(text(first)), third));
    CHECK(!nextkey(bytes("x", -1)).dptr);
    CHECK(dbmclose() == 0);
}

/* Two programs that only fetch do not keep each other out, nor one that stores. */
static void the_first_store_opens_for_writing(void)
{
    make_empty("shared.pag");
    make_empty("shared.dir");
    REQUIRE(dbminit("shared") == 0);
    CHECK(store(text("key"), text("value")) == 0);
    CHECK(dbmclose() == 0);
    REQUIRE(dbminit("shared") == 0 && is(fetch(text("key")), "value"));
    int tell[2], go[2];
    char byte;
    REQUIRE(!pipe(tell) && !pipe(go));
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        failures = 0;
        CHECK(dbminit("shared") == 0 && is(fetch(text("key")), "value"));
        CHECK(store(text("key"), text("of the child")) == 0);
        CHECK(write(tell[1], "x", 1) == 1);
        CHECK(read(go[0], &byte, 1) == 1);
        CHECK(dbmclose() == 0);
        exit(finish());
    }
    REQUIRE(read(tell[0], &byte, 1) == 1);
    CHECK(is(fetch(text("key")), "value"));
    errno = 0;
    CHECK(store(text("key"), text("of the parent")) == -1 && errno == EAGAIN);
    REQUIRE(write(go[1], "x", 1) == 1);
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    usleep(20000);
    CHECK(is(fetch(text("key")), "of the child"));
    CHECK(store(text("key"), text("of the parent")) == 0 && is(fetch(text("key")), "of the parent"));
    CHECK(dbmclose() == 0);
}

static void a_file_that_may_not_be_written_is_read(void)
{
    CHECK(!chmod("shared.pag", 0444));
    REQUIRE(dbminit("shared") == 0);
    CHECK(is(fetch(text("key")), "of the parent"));
    if (geteuid() != 0) {
        errno = 0;
        CHECK(store(text("key"), text("no")) == -1 && errno == EACCES);
    }
    CHECK(dbmclose() == 0);
}

static void a_forked_child_reads_and_does_not_write(void)
{
    REQUIRE(dbminit("shared") == 0 && store(text("forked"), text("before")) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        failures = 0;
        CHECK(is(fetch(text("forked")), "before"));
        datum key = firstkey();
        CHECK(key.dptr != NULL && nextkey(key).dptr != NULL);
        errno = 0;
        CHECK(store(text("forked"), text("of the child")) < 0 && errno == EAGAIN);
        errno = 0;
        CHECK(delete(text("forked")) < 0 && errno == EAGAIN);
        CHECK(dbmclose() == 0);
        exit(finish());
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(store(text("forked"), text("after")) == 0 && is(fetch(text("forked")), "after"));
    CHECK(dbmclose() == 0);
}

int main(int argc, char **argv)
{
    enter_folder(argc, argv);
    without_a_database_everything_fails();
    every_key_can_be_walked_from();
    the_first_store_opens_for_writing();
    a_forked_child_reads_and_does_not_write();
    a_file_that_may_not_be_written_is_read();
    return finish();
}

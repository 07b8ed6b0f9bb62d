/* What our ndbm promises beyond POSIX, and its errors. */
#define _GNU_SOURCE
#include <ndbm.h>

#include "check.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
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

static void two_files_with_the_mode_that_was_asked_for(void)
{
    umask(022);
    DBM *db = dbm_open("modes", O_RDWR | O_CREAT, 0666);
    REQUIRE(db);
    CHECK(permissions("modes.pag") == 0644 && permissions("modes.dir") == 0644);
    dbm_close(db);
    CHECK(!unlink("modes.pag") && !unlink("modes.dir"));
    REQUIRE((db = dbm_open("modes", O_RDWR | O_CREAT, 0620)));
    CHECK(permissions("modes.pag") == 0600 && permissions("modes.dir") == 0600);
    CHECK(dbm_store(db, text("secret"), text("value"), DBM_INSERT) == 0);
    /* The log has the records too. */
    CHECK(permissions("modes.pag-log0") == 0600);
    struct stat directory, pages, found;
    REQUIRE(!stat("modes.dir", &directory) && !stat("modes.pag", &pages));
    CHECK(!fstat(dbm_dirfno(db), &found) && found.st_ino == directory.st_ino);
    CHECK(!fstat(dbm_pagfno(db), &found) && found.st_ino == pages.st_ino);
    CHECK(dbm_dirfno(db) != dbm_pagfno(db));
    CHECK(fcntl(dbm_dirfno(db), F_GETFD) & FD_CLOEXEC);
    CHECK(!dbm_rdonly(db));
    dbm_close(db);
    CHECK(!exists("modes.pag-log0"));
    /* Both names may be moved together, and removed. */
    CHECK(!rename("modes.pag", "moved.pag") && !rename("modes.dir", "moved.dir"));
    REQUIRE((db = dbm_open("moved", O_RDWR, 0)));
    CHECK(is(dbm_fetch(db, text("secret")), "value"));
    dbm_close(db);
    CHECK(!chmod("moved.pag", 0400) && !unlink("moved.pag") && !unlink("moved.dir"));
}

/* Programs lock x.dir, or a part of either file. The table's own lock on x.pag, which is flock's, is out of their
 * reach: a program that unlocks what it has locked must not give it up. */
static void descriptors_can_be_locked(void)
{
    DBM *db = dbm_open("locked", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(!flock(dbm_dirfno(db), LOCK_EX | LOCK_NB) && !flock(dbm_dirfno(db), LOCK_UN));
    CHECK(!fcntl(dbm_dirfno(db), F_SETLK, &whole));
    CHECK(!fcntl(dbm_pagfno(db), F_SETLK, &whole));
    CHECK(flock(dbm_pagfno(db), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    CHECK(!flock(dbm_pagfno(db), LOCK_UN));
    errno = 0;
    CHECK(!dbm_open("locked", O_RDWR, 0) && errno == EAGAIN);
    /* Checkpoints are made all the same. The open and its close have released the lock of x.pag. */
    CHECK(!fcntl(dbm_pagfno(db), F_SETLK, &whole));
    CHECK(dbm_store(db, text("key"), text("value"), DBM_INSERT) == 0);
    dbm_close(db);
    CHECK(!exists("locked.pag-log0"));
    REQUIRE((db = dbm_open("locked", O_RDWR, 0)));
    CHECK(is(dbm_fetch(db, text("key")), "value"));
    dbm_close(db);
}

static void flags_are_those_of_open(void)
{
    errno = 0;
    CHECK(!dbm_open("flags", O_RDWR, 0644) && errno == ENOENT);
    CHECK(!dbm_open(NULL, O_RDWR, 0644) && errno == EINVAL);
    DBM *db = dbm_open("flags", O_WRONLY | O_CREAT | O_EXCL, 0644); /* POSIX: as O_RDWR */
    REQUIRE(db);
    CHECK(dbm_store(db, text("key"), text("value"), DBM_INSERT) == 0 && is(dbm_fetch(db, text("key")), "value"));
    dbm_close(db);
    errno = 0;
    CHECK(!dbm_open("flags", O_RDWR | O_CREAT | O_EXCL, 0644) && errno == EEXIST);
    CHECK(!mkdir("folder.pag", 0755));
    errno = 0;
    CHECK(!dbm_open("folder", O_RDWR, 0644) && errno == EISDIR);
    errno = 0;
    CHECK(!dbm_open("folder", O_RDONLY, 0644) && errno == EISDIR);
    CHECK(!symlink("flags.pag", "link.pag"));
    errno = 0;
    CHECK(!dbm_open("link", O_RDWR | O_NOFOLLOW, 0644) && errno == ELOOP);
    /* O_TRUNC keeps the file, and its mode. */
    struct stat before, after;
    REQUIRE(!chmod("flags.pag", 0600) && !stat("flags.pag", &before));
    REQUIRE((db = dbm_open("flags", O_RDWR | O_CREAT | O_TRUNC, 0644)));
    CHECK(!stat("flags.pag", &after) && before.st_ino == after.st_ino && (after.st_mode & 0777) == 0600);
    CHECK(!dbm_fetch(db, text("key")).dptr && !dbm_error(db));
    /* Not while someone has it open for writing. */
    CHECK(dbm_store(db, text("key"), text("value"), DBM_INSERT) == 0);
    errno = 0;
    CHECK(!dbm_open("flags", O_RDWR | O_TRUNC, 0) && errno == EAGAIN);
    CHECK(!stat("flags.pag", &after) && after.st_size > 0 && is(dbm_fetch(db, text("key")), "value"));
    dbm_close(db);
}

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    REQUIRE(file && fputs(content, file) >= 0 && !fclose(file));
}

static void what_is_no_database_is_refused(void)
{
    write_file("foreign.pag", "certainly not a table, but longer than twelve bytes\n");
    errno = 0;
    CHECK(!dbm_open("foreign", O_RDWR, 0) && errno == EINVAL);
    errno = 0;
    CHECK(!dbm_open("foreign", O_RDONLY, 0) && errno == EINVAL);
    CHECK(!exists("foreign.dir"));
    /* Unless it is to be emptied. */
    DBM *db = dbm_open("foreign", O_RDWR | O_TRUNC, 0);
    REQUIRE(db);
    CHECK(dbm_store(db, text("key"), text("value"), DBM_INSERT) == 0);
    dbm_close(db);
    /* Damaged: both headers. */
    int file = open("foreign.pag", O_RDWR);
    REQUIRE(file >= 0 && pwrite(file, "damage", 6, 100) == 6 && pwrite(file, "damage", 6, 4196) == 6 && !close(file));
    errno = 0;
    CHECK(!dbm_open("foreign", O_RDONLY, 0) && errno == EIO);
    REQUIRE((db = dbm_open("foreign", O_RDWR | O_TRUNC, 0)));
    CHECK(!dbm_firstkey(db).dptr && !dbm_error(db));
    dbm_close(db);
}

/* As creat makes them, and as an ndbm leaves them to which nothing was stored. */
static void empty_files_are_an_empty_database(void)
{
    write_file("empty.pag", "");
    write_file("empty.dir", "");
    DBM *reader = dbm_open("empty", O_RDONLY, 0);
    REQUIRE(reader);
    CHECK(dbm_rdonly(reader) && !dbm_fetch(reader, text("key")).dptr);
    CHECK(!dbm_firstkey(reader).dptr && !dbm_nextkey(reader).dptr);
    CHECK(!dbm_error(reader));
    DBM *writer = dbm_open("empty", O_RDWR, 0);
    REQUIRE(writer);
    CHECK(dbm_store(writer, text("key"), text("value"), DBM_INSERT) == 0);
    dbm_close(writer);
    CHECK(is(dbm_fetch(reader, text("key")), "value"));
    dbm_close(reader);
}

static void one_writer_and_readers_that_follow_it(void)
{
    DBM *writer = dbm_open("shared", O_RDWR | O_CREAT, 0644);
    REQUIRE(writer);
    errno = 0;
    CHECK(!dbm_open("shared", O_RDWR, 0) && errno == EAGAIN);
    CHECK(dbm_store(writer, text("1"), text("one"), DBM_INSERT) == 0);
    DBM *reader = dbm_open("shared", O_RDONLY, 0);
    REQUIRE(reader);
    dbm_close(writer); /* a checkpoint */
    for (int round = 0; round < 5; round++) {
        char name[20];
        REQUIRE((writer = dbm_open("shared", O_RDWR, 0)));
        sprintf(name, "round %d", round);
        CHECK(dbm_store(writer, text(name), text(name), DBM_INSERT) == 0);
        dbm_close(writer);
        usleep(30000);
        CHECK(is(dbm_fetch(reader, text("1")), "one"));
        CHECK(is(dbm_fetch(reader, text(name)), name));
        CHECK(!dbm_error(reader));
    }
    dbm_close(reader);
}

/* A writer that stays open makes a checkpoint of what is a second old, when it is called. */
static void readers_see_what_an_open_writer_has_stored(void)
{
    DBM *writer = dbm_open("published", O_RDWR | O_CREAT, 0644);
    REQUIRE(writer);
    DBM *reader = dbm_open("published", O_RDONLY, 0);
    REQUIRE(reader);
    CHECK(dbm_store(writer, text("key"), text("value"), DBM_INSERT) == 0);
    CHECK(!dbm_fetch(reader, text("key")).dptr);
    usleep(1200000);
    CHECK(is(dbm_fetch(writer, text("key")), "value"));
    usleep(30000);
    CHECK(is(dbm_fetch(reader, text("key")), "value"));
    dbm_close(reader);
    dbm_close(writer);
}

/* Every key that is there all the time is given once, though the table under the walk is another one in between. */
static void a_walk_goes_on_in_the_next_checkpoint(void)
{
    enum { STAYING = 3000 };
    static char given[STAYING];
    char name[30];
    memset(given, 0, sizeof given);
    DBM *writer = dbm_open("walk", O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(writer);
    for (int i = 0; i < STAYING; i++)
        CHECK(dbm_store(writer, bytes(name, sprintf(name, "stays %d", i)), text("x"), DBM_INSERT) == 0);
    dbm_close(writer);
    DBM *reader = dbm_open("walk", O_RDONLY, 0);
    REQUIRE(reader);
    int count = 0, number;
    for (datum key = dbm_firstkey(reader); key.dptr; key = dbm_nextkey(reader)) {
        if (sscanf(key.dptr, "stays %d", &number) == 1 && number >= 0 && number < STAYING)
            given[number]++;
        if (count++ % 300 == 0) {
            REQUIRE((writer = dbm_open("walk", O_RDWR, 0)));
            for (int i = 0; i < 500; i++)
                CHECK(!dbm_store(writer, bytes(name, sprintf(name, "more %d %d", count, i)), text("y"), DBM_INSERT));
            dbm_close(writer);
            usleep(20000);
        }
    }
    CHECK(!dbm_error(reader));
    for (int i = 0; i < STAYING; i++)
        CHECK(given[i] == 1);
    dbm_close(reader);
}

static void deleting_while_walking_is_exact(void)
{
    enum { COUNT = 5000 };
    static char given[COUNT];
    char name[20];
    int number, walked = 0;
    memset(given, 0, sizeof given);
    DBM *db = dbm_open("delete", O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(db);
    for (int i = 0; i < COUNT; i++)
        CHECK(dbm_store(db, bytes(name, sprintf(name, "%d", i)), text("x"), DBM_INSERT) == 0);
    /* Deletes what it gets, and another one: neither may come later, and none of the rest may be missed. */
    for (datum key = dbm_firstkey(db); key.dptr; key = dbm_nextkey(db), walked++) {
        number = atoi(key.dptr);
        CHECK(number >= 0 && number < COUNT && !given[number]);
        given[number] = 1;
        CHECK(dbm_delete(db, key) == 0);
        int other = (number + 17) % COUNT;
        if (dbm_delete(db, bytes(name, sprintf(name, "%d", other))) == 0) {
            CHECK(!given[other]);
            given[other] = 1;
        }
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(given[i]);
    CHECK(walked >= COUNT / 2 && walked < COUNT);
    CHECK(!dbm_firstkey(db).dptr && !dbm_error(db));
    /* Nothing is left of it on the disk either. */
    dbm_close(db);
    struct stat found;
    CHECK(!stat("delete.pag", &found) && found.st_size < 100000);
}

static void storing_while_walking_ends(void)
{
    char name[40];
    int walked = 0;
    DBM *db = dbm_open("grow", O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(db);
    for (int i = 0; i < 500; i++)
        CHECK(dbm_store(db, bytes(name, sprintf(name, "%d", i)), text("x"), DBM_INSERT) == 0);
    for (datum key = dbm_firstkey(db); key.dptr && walked < 100000; key = dbm_nextkey(db), walked++)
        if (key.dsize < 20) { /* doubles the key */
            int len = sprintf(name, "%.*s%.*s", key.dsize, key.dptr, key.dsize, key.dptr);
            CHECK(dbm_store(db, bytes(name, len), key, DBM_REPLACE) == 0);
        }
    CHECK(walked >= 500 && walked < 100000);
    dbm_close(db);
}

static void records_have_no_limit(void)
{
    enum { LARGE = 20 << 20 };
    char *large = malloc(LARGE);
    REQUIRE(large);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 1000);
    DBM *db = dbm_open("large", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    CHECK(dbm_store(db, text("value"), bytes(large, LARGE), DBM_INSERT) == 0);
    CHECK(dbm_store(db, bytes(large, 100000), text("of a long key"), DBM_INSERT) == 0);
    CHECK(dbm_store(db, bytes("", 0), text("of the empty key"), DBM_INSERT) == 0);
    datum found = dbm_fetch(db, text("value"));
    CHECK(found.dptr && found.dsize == LARGE && !memcmp(found.dptr, large, LARGE));
    CHECK(is(dbm_fetch(db, bytes(large, 100000)), "of a long key"));
    CHECK(is(dbm_fetch(db, bytes(NULL, 0)), "of the empty key"));
    int keys = 0;
    for (datum key = dbm_firstkey(db); key.dptr; key = dbm_nextkey(db))
        keys++;
    CHECK(keys == 3);
    dbm_close(db);
    free(large);
}

static void what_was_returned_lives_until_the_next_call_of_its_kind(void)
{
    DBM *db = dbm_open("lives", O_RDWR | O_CREAT, 0644), *other = dbm_open("other", O_RDWR | O_CREAT, 0644);
    REQUIRE(db && other);
    CHECK(dbm_store(db, text("a"), text("b"), DBM_INSERT) == 0 && dbm_store(db, text("b"), text("c"), DBM_INSERT) == 0);
    /* A value as the next key, and as a value. */
    datum value = dbm_fetch(db, text("a"));
    CHECK(is(dbm_fetch(db, value), "c"));
    value = dbm_fetch(db, text("a"));
    CHECK(dbm_store(db, text("copy"), value, DBM_INSERT) == 0 && is(value, "b"));
    CHECK(is(dbm_fetch(db, text("copy")), "b"));
    /* Also where the next value is larger than the memory for it. */
    static char large[100000];
    CHECK(dbm_store(db, text("c"), bytes(large, sizeof large), DBM_INSERT) == 0);
    value = dbm_fetch(db, text("b"));
    CHECK(dbm_fetch(db, value).dsize == sizeof large);
    /* A key outlives a fetch, and both outlive calls with other databases. */
    value = dbm_fetch(db, text("a"));
    datum key = dbm_firstkey(db);
    CHECK(is(value, "b"));
    CHECK(dbm_store(other, text("a"), text("other"), DBM_INSERT) == 0 && is(dbm_fetch(other, text("a")), "other"));
    CHECK(is(value, "b") && key.dsize > 0);
    char name[10];
    snprintf(name, sizeof name, "%.*s", key.dsize, key.dptr);
    dbm_fetch(db, key);
    CHECK(is(key, name));
    /* A value outlives a walk beside which pairs are deleted. */
    CHECK(dbm_store(db, text("d"), text("e"), DBM_INSERT) == 0);
    value = dbm_fetch(db, text("a"));
    CHECK(dbm_firstkey(db).dptr && dbm_delete(db, text("d")) == 0);
    while (dbm_nextkey(db).dptr)
        CHECK(is(value, "b"));
    /* A value has a zero after its end, for programs that forget its length. */
    CHECK(strcmp(dbm_fetch(db, text("a")).dptr, "b") == 0);
    dbm_close(db);
    dbm_close(other);
}

static void errors_are_remembered_until_they_are_cleared(void)
{
    DBM *db = dbm_open("errors", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    CHECK(!dbm_error(db));
    CHECK(dbm_store(db, text("key"), text("1"), DBM_INSERT) == 0);
    CHECK(dbm_store(db, text("key"), text("2"), DBM_INSERT) == 1);
    errno = 0;
    CHECK(dbm_delete(db, text("absent")) < 0 && errno == ENOENT);
    CHECK(!dbm_error(db)); /* answers are no errors */
    errno = 0;
    CHECK(dbm_store(db, bytes("key", -1), text("1"), DBM_REPLACE) < 0 && errno == EINVAL && dbm_error(db));
    CHECK(dbm_clearerr(db) == 0 && !dbm_error(db));
    errno = 0;
    CHECK(dbm_store(db, text("key"), text("1"), 7) < 0 && errno == EINVAL && dbm_error(db));
    CHECK(dbm_clearerr(db) == 0 && !dbm_fetch(db, bytes(NULL, 5)).dptr && errno == EINVAL && dbm_error(db));
    CHECK(dbm_clearerr(db) == 0 && dbm_delete(db, bytes("key", INT_MIN)) < 0 && dbm_error(db));
    CHECK(is(dbm_fetch(db, text("key")), "1"));
    dbm_close(db);
    REQUIRE((db = dbm_open("errors", O_RDONLY, 0)));
    errno = 0;
    CHECK(dbm_store(db, text("key"), text("2"), DBM_REPLACE) < 0 && errno == EPERM && dbm_error(db));
    CHECK(dbm_clearerr(db) == 0 && dbm_delete(db, text("key")) < 0 && errno == EPERM && dbm_error(db));
    dbm_close(db);
    dbm_close(NULL);
    CHECK(!dbm_fetch(NULL, text("key")).dptr && !dbm_firstkey(NULL).dptr && !dbm_nextkey(NULL).dptr);
    CHECK(dbm_store(NULL, text("key"), text("1"), DBM_INSERT) < 0 && dbm_delete(NULL, text("key")) < 0);
    CHECK(dbm_error(NULL) && dbm_clearerr(NULL) && dbm_dirfno(NULL) < 0 && dbm_pagfno(NULL) < 0 && dbm_rdonly(NULL));
}

/* What a process had stored is there, however it ended; and after an exit without dbm_close, in x.pag alone. */
static void a_program_that_does_not_close_loses_nothing(void)
{
    for (int killed = 0; killed < 3; killed++) { /* the last time nobody opens it afterwards */
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            DBM *db = dbm_open("unclosed", O_RDWR | O_CREAT | O_TRUNC, 0644);
            char name[20];
            for (int i = 0; db && i < 1000; i++)
                if (dbm_store(db, bytes(name, sprintf(name, "%d", i)), text("x"), DBM_INSERT))
                    _exit(1);
            if (killed)
                raise(SIGSTOP); /* valgrind looks for leaks, for minutes, in a program that kills itself */
            exit(0);
        }
        int status = 0;
        if (killed)
            REQUIRE(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && !kill(child, SIGKILL));
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(exists("unclosed.pag-log0") == (killed > 0));
        if (!killed)
            CHECK(!rename("unclosed.pag", "exited.pag") && !rename("unclosed.dir", "exited.dir"));
        /* A reader first: it replays the log in memory. */
        for (int flags = O_RDONLY; killed < 2 && flags <= O_RDWR; flags += O_RDWR - O_RDONLY) {
            DBM *db = dbm_open(killed ? "unclosed" : "exited", flags, 0);
            REQUIRE(db);
            int count = 0;
            for (datum key = dbm_firstkey(db); key.dptr; key = dbm_nextkey(db))
                count++;
            CHECK(count == 1000);
            dbm_close(db);
        }
    }
}

/* The log of a process that was killed belongs to the records that O_TRUNC removes. */
static void truncation_removes_what_a_crash_has_left(void)
{
    CHECK(exists("unclosed.pag-log0"));
    DBM *db = dbm_open("unclosed", O_RDWR | O_TRUNC, 0);
    REQUIRE(db);
    CHECK(!dbm_firstkey(db).dptr && dbm_store(db, text("key"), text("value"), DBM_INSERT) == 0);
    dbm_close(db);
    CHECK(!exists("unclosed.pag-log0") && !exists("unclosed.pag-log1"));
}

/* The logs beside a name may be those of a table that had it. */
static void truncation_leaves_the_log_of_a_table_that_was_renamed(void)
{
    DBM *renamed = dbm_open("before", O_RDWR | O_CREAT, 0644);
    REQUIRE(renamed && dbm_store(renamed, text("key"), text("value"), DBM_INSERT) == 0);
    REQUIRE(!rename("before.pag", "after.pag") && !rename("before.dir", "after.dir"));
    DBM *db = dbm_open("before", O_RDWR | O_CREAT, 0644);
    REQUIRE(db && dbm_store(db, text("key"), text("other"), DBM_INSERT) == 0);
    dbm_close(db);
    errno = 0;
    CHECK(!dbm_open("before", O_RDWR | O_TRUNC, 0) && errno == EAGAIN && exists("before.pag-log0"));
    CHECK(!unlink("before.pag") && !unlink("before.dir"));
    dbm_close(renamed);
    REQUIRE((db = dbm_open("after", O_RDONLY, 0)));
    CHECK(is(dbm_fetch(db, text("key")), "value"));
    dbm_close(db);
}

static void a_walk_goes_on_in_a_forked_child(void)
{
    DBM *db = dbm_open("walked", O_RDWR | O_CREAT, 0644);
    REQUIRE(db && dbm_store(db, text("a"), text("1"), DBM_INSERT) == 0);
    CHECK(dbm_store(db, text("b"), text("2"), DBM_INSERT) == 0);
    datum key = dbm_firstkey(db);
    REQUIRE(key.dptr);
    char first = key.dptr[0];
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        failures = 0;
        CHECK(dbm_fetch(db, text("a")).dptr);
        key = dbm_nextkey(db);
        CHECK(key.dptr && key.dptr[0] != first && !dbm_nextkey(db).dptr);
        dbm_close(db);
        exit(finish());
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    dbm_close(db);
}

static void a_forked_child_reads_and_does_not_write(void)
{
    DBM *writer = dbm_open("forked", O_RDWR | O_CREAT, 0644);
    REQUIRE(writer && dbm_store(writer, text("key"), text("value"), DBM_INSERT) == 0);
    dbm_close(writer);
    DBM *reader = dbm_open("forked", O_RDONLY, 0);
    REQUIRE(reader && (writer = dbm_open("forked", O_RDWR, 0)));
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        failures = 0;
        CHECK(is(dbm_fetch(reader, text("key")), "value"));
        CHECK(is(dbm_firstkey(reader), "key") && !dbm_nextkey(reader).dptr);
        CHECK(is(dbm_fetch(writer, text("key")), "value"));
        CHECK(is(dbm_firstkey(writer), "key") && !dbm_nextkey(writer).dptr);
        errno = 0;
        CHECK(dbm_store(writer, text("key"), text("child"), DBM_REPLACE) < 0 && errno == EBADF);
        dbm_close(reader);
        dbm_close(writer);
        exit(finish());
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(is(dbm_fetch(reader, text("key")), "value"));
    CHECK(dbm_store(writer, text("key"), text("parent"), DBM_REPLACE) == 0);
    errno = 0;
    CHECK(!dbm_open("forked", O_RDWR, 0) && errno == EAGAIN); /* the child has not released the lock */
    dbm_close(writer);
    dbm_close(reader);
}

/* A relative name means the folder of the open, also for a reader that opens its table again. */
static void a_program_may_change_its_folder(void)
{
    DBM *writer = dbm_open("here", O_RDWR | O_CREAT, 0644);
    REQUIRE(writer);
    dbm_close(writer);
    DBM *reader = dbm_open("here", O_RDONLY, 0);
    REQUIRE(reader && (writer = dbm_open("here", O_RDWR, 0)));
    CHECK(!chdir("/"));
    CHECK(dbm_store(writer, text("key"), text("value"), DBM_INSERT) == 0);
    dbm_close(writer);
    usleep(30000);
    CHECK(is(dbm_fetch(reader, text("key")), "value"));
    dbm_close(reader);
}

static void the_environment_chooses_the_durability(void)
{
    setenv("SPLITPOINT_DURABILITY", "sometimes", 1);
    errno = 0;
    CHECK(!dbm_open("durable", O_RDWR | O_CREAT, 0644) && errno == EINVAL);
    const char *const words[] = {"none", "os", "sync"};
    for (int i = 0; i < 3; i++) {
        setenv("SPLITPOINT_DURABILITY", words[i], 1);
        DBM *db = dbm_open("durable", O_RDWR | O_CREAT, 0644);
        REQUIRE(db);
        CHECK(dbm_store(db, text(words[i]), text("x"), DBM_INSERT) == 0);
        /* Without durability nothing is logged. */
        CHECK(exists("durable.pag-log0") == (i > 0));
        dbm_close(db);
    }
    unsetenv("SPLITPOINT_DURABILITY");
}

int main(int argc, char **argv)
{
    enter_folder(argc, argv);
    two_files_with_the_mode_that_was_asked_for();
    descriptors_can_be_locked();
    flags_are_those_of_open();
    what_is_no_database_is_refused();
    empty_files_are_an_empty_database();
    one_writer_and_readers_that_follow_it();
    readers_see_what_an_open_writer_has_stored();
    a_walk_goes_on_in_the_next_checkpoint();
    deleting_while_walking_is_exact();
    storing_while_walking_ends();
    records_have_no_limit();
    what_was_returned_lives_until_the_next_call_of_its_kind();
    errors_are_remembered_until_they_are_cleared();
    a_program_that_does_not_close_loses_nothing();
    truncation_removes_what_a_crash_has_left();
    truncation_leaves_the_log_of_a_table_that_was_renamed();
    a_walk_goes_on_in_a_forked_child();
    a_forked_child_reads_and_does_not_write();
    the_environment_chooses_the_durability();
    a_program_may_change_its_folder();
    return finish();
}

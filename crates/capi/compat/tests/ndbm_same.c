/* What every ndbm must do: compiled against the system's libraries and against ours, with the same output.
 *
 * The facts are those of POSIX's dbm_open page. Each library has an order of its own, so keys are printed sorted. */
#define _GNU_SOURCE /* the system's headers */
#ifdef BERKELEY
#define DB_DBM_HSEARCH 1
#include <db.h>
#else
#include <ndbm.h>
#endif
#include "check.h"
#include <fcntl.h>

#define PAIRS 5000

static datum bytes(const char *text, size_t len)
{
    datum made = {(char *)text, (int)len};
    return made;
}

static datum text(const char *string) { return bytes(string, strlen(string)); }

static void show(const char *what, datum found)
{
    if (!found.dptr)
        printf("%s: none\n", what);
    else
        printf("%s: %d bytes \"%.*s\"\n", what, (int)found.dsize, (int)found.dsize, (char *)found.dptr);
}

/* 0, 1 and "negative" are all that is promised. */
static const char *status(int result)
{
    return result < 0 ? "negative" : result == 0 ? "0" : result == 1 ? "1" : "other";
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void show_keys(const char *what, DBM *db)
{
    static char *keys[PAIRS + 10];
    int count = 0;
    for (datum key = dbm_firstkey(db); key.dptr && count < PAIRS + 10; key = dbm_nextkey(db))
        keys[count++] = strndup(key.dptr, (size_t)key.dsize);
    qsort(keys, (size_t)count, sizeof *keys, by_text);
    printf("%s: %d keys", what, count);
    for (int i = 0; i < count; i++) {
        if (count < 20)
            printf(" %s", keys[i]);
        free(keys[i]);
    }
    printf(", error %d\n", !!dbm_error(db));
}

static void few_pairs(void)
{
    DBM *db = dbm_open("few", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    printf("rdonly %d, error %d\n", !!dbm_rdonly(db), !!dbm_error(db));
    show("fetch from an empty one", dbm_fetch(db, text("key")));
    show("firstkey of an empty one", dbm_firstkey(db));
    printf("delete absent: %s, error %d\n", status(dbm_delete(db, text("key"))), !!dbm_error(db));
    printf("insert: %s\n", status(dbm_store(db, text("key"), text("value"), DBM_INSERT)));
    printf("insert again: %s\n", status(dbm_store(db, text("key"), text("other"), DBM_INSERT)));
    show("unchanged", dbm_fetch(db, text("key")));
    dbm_clearerr(db); /* gdbm's has set it here */
    printf("replace: %s\n", status(dbm_store(db, text("key"), text("a longer value"), DBM_REPLACE)));
    show("replaced", dbm_fetch(db, text("key")));
    printf("replace an absent one: %s\n", status(dbm_store(db, text("new"), text("1"), DBM_REPLACE)));
    printf("empty value: %s\n", status(dbm_store(db, text("empty"), bytes("", 0), DBM_REPLACE)));
    show("empty value", dbm_fetch(db, text("empty")));
    printf("zeros: %s\n", status(dbm_store(db, bytes("a\0b", 3), bytes("x\0y", 3), DBM_INSERT)));
    datum zeros = dbm_fetch(db, bytes("a\0b", 3));
    printf("zeros %d\n", zeros.dptr && zeros.dsize == 3 && !memcmp(zeros.dptr, "x\0y", 3));
    show("part of a key", dbm_fetch(db, text("a")));
    printf("delete: %s\n", status(dbm_delete(db, bytes("a\0b", 3))));
    printf("delete again: %s\n", status(dbm_delete(db, bytes("a\0b", 3))));
    show_keys("walk", db);
    dbm_close(db);

    db = dbm_open("few", O_RDONLY, 0);
    REQUIRE(db);
    printf("rdonly %d\n", !!dbm_rdonly(db));
    show("fetch", dbm_fetch(db, text("key")));
    printf("store: %s\n", status(dbm_store(db, text("key"), text("no"), DBM_REPLACE)));
    dbm_clearerr(db);
    printf("error after clearerr %d\n", !!dbm_error(db));
    printf("delete: %s\n", status(dbm_delete(db, text("key"))));
    dbm_clearerr(db);
    show("still there", dbm_fetch(db, text("key")));
    show_keys("walk", db);
    dbm_close(db);
}

static void many_pairs(void)
{
    char key[20], value[40];
    DBM *db = dbm_open("many", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    int stored = 0, found = 0, deleted = 0, gone = 0;
    for (int i = 0; i < PAIRS; i++) {
        size_t key_len = (size_t)sprintf(key, "key %d", i), value_len = (size_t)sprintf(value, "value of %d", i * i);
        stored += dbm_store(db, bytes(key, key_len), bytes(value, value_len), DBM_INSERT) == 0;
    }
    dbm_close(db);
    db = dbm_open("many", O_RDWR, 0);
    REQUIRE(db);
    for (int i = 0; i < PAIRS; i++) {
        size_t key_len = (size_t)sprintf(key, "key %d", i), value_len = (size_t)sprintf(value, "value of %d", i * i);
        datum got = dbm_fetch(db, bytes(key, key_len));
        found += got.dptr && (size_t)got.dsize == value_len && !memcmp(got.dptr, value, value_len);
    }
    show_keys("walk", db);
    for (int i = 0; i < PAIRS; i += 2)
        deleted += dbm_delete(db, bytes(key, (size_t)sprintf(key, "key %d", i))) == 0;
    for (int i = 0; i < PAIRS; i++)
        gone += !dbm_fetch(db, bytes(key, (size_t)sprintf(key, "key %d", i))).dptr;
    show_keys("walk", db);
    dbm_close(db);
    printf("stored %d found %d deleted %d gone %d\n", stored, found, deleted, gone);
}

/* The usual way to walk: the key is used after the fetch. POSIX does not promise that, and Berkeley's ndbm breaks
 * it. */
#ifndef BERKELEY
static void keys_outlive_a_fetch(void)
{
    DBM *db = dbm_open("many", O_RDONLY, 0);
    REQUIRE(db);
    int right = 0;
    char expected[40];
    for (datum key = dbm_firstkey(db); key.dptr; key = dbm_nextkey(db)) {
        datum value = dbm_fetch(db, key);
        int number = 0;
        sscanf(key.dptr, "key %d", &number);
        sprintf(expected, "value of %d", number * number);
        size_t len = strlen(expected);
        right += value.dptr && (size_t)value.dsize == len && !memcmp(value.dptr, expected, len);
    }
    printf("pairs of a walk: %d\n", right);
    dbm_close(db);
}
#else
static void keys_outlive_a_fetch(void) { printf("pairs of a walk: %d\n", PAIRS / 2); }
#endif

static void several_at_once(void)
{
    DBM *db[8];
    char name[20];
    for (int i = 0; i < 8; i++) {
        sprintf(name, "several%d", i);
        db[i] = dbm_open(name, O_RDWR | O_CREAT, 0600);
        REQUIRE(db[i]);
        dbm_store(db[i], text("name"), text(name), DBM_INSERT);
    }
    /* Eight walks at once. */
    for (int i = 0; i < 8; i++)
        show("first", dbm_firstkey(db[i]));
    for (int i = 0; i < 8; i++)
        show("next", dbm_nextkey(db[i]));
    for (int i = 0; i < 8; i++) {
        show("fetch", dbm_fetch(db[i], text("name")));
        dbm_close(db[i]);
    }
}

static void flags(void)
{
    printf("absent, O_RDWR: %s, errno %d\n", dbm_open("absent", O_RDWR, 0644) ? "opened" : "refused", errno == ENOENT);
    printf("absent, O_RDONLY: %s, errno %d\n", dbm_open("absent", O_RDONLY, 0) ? "opened" : "refused", errno == ENOENT);
    printf("no folder: %s\n", dbm_open("no/folder", O_RDWR | O_CREAT, 0644) ? "opened" : "refused");
    DBM *db = dbm_open("flags", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    dbm_store(db, text("key"), text("value"), DBM_REPLACE);
    dbm_close(db);
    db = dbm_open("flags", O_RDWR | O_CREAT, 0644);
    REQUIRE(db);
    show("kept by O_CREAT", dbm_fetch(db, text("key")));
    dbm_close(db);
    db = dbm_open("flags", O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(db);
    show("emptied by O_TRUNC", dbm_fetch(db, text("key")));
    dbm_close(db);
}

int main(int argc, char **argv)
{
    enter_folder(argc, argv);
    umask(022);
    few_pairs();
    many_pairs();
    keys_outlive_a_fetch();
    several_at_once();
    flags();
    return finish();
}

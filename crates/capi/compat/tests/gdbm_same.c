/* What every gdbm must do: compiled against the system's library and against ours, with the same output.
 *
 * Each library has an order of its own, so keys are printed sorted. */
#define _GNU_SOURCE
#include <gdbm.h>

#include "check.h"
#include <fcntl.h>

#define PAIRS 3000

static datum bytes(const char *text, size_t len)
{
    datum made = {(char *)text, (int)len};
    return made;
}

static datum text(const char *string) { return bytes(string, strlen(string)); }

/* The result of a call, and the error that it left. */
static void said(const char *what, GDBM_FILE db, int result)
{
    printf("%s: %d, %d %s", what, result, gdbm_errno, gdbm_strerror(gdbm_errno));
    if (db)
        printf("; %d %s, needs recovery %d", gdbm_last_errno(db), gdbm_db_strerror(db), gdbm_needs_recovery(db));
    printf("\n");
    gdbm_clear_error(db);
    gdbm_errno = 0;
}

static void show(const char *what, GDBM_FILE db, datum found)
{
    if (found.dptr)
        printf("%s: %d bytes \"%.*s\"\n", what, found.dsize, found.dsize, found.dptr);
    else
        said(what, db, 0);
    free(found.dptr);
}

static GDBM_FILE opened(const char *name, int flags)
{
    GDBM_FILE db = gdbm_open(name, 0, flags, 0644, NULL);
    REQUIRE(db);
    return db;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void show_keys(const char *what, GDBM_FILE db)
{
    static char *keys[PAIRS + 10];
    int count = 0;
    gdbm_count_t counted = 0;
    datum key = gdbm_firstkey(db);
    while (key.dptr && count < PAIRS + 10) {
        keys[count++] = strndup(key.dptr, (size_t)key.dsize);
        datum next = gdbm_nextkey(db, key);
        free(key.dptr);
        key = next;
    }
    said("end of walk", db, 0);
    qsort(keys, (size_t)count, sizeof *keys, by_text);
    printf("%s: %d keys", what, count);
    for (int i = 0; i < count; i++) {
        if (count < 20)
            printf(" %s", keys[i]);
        free(keys[i]);
    }
    gdbm_count(db, &counted);
    printf(", counted %llu\n", counted);
}

static void few_pairs(void)
{
    GDBM_FILE db = opened("few", GDBM_WRCREAT);
    show("absent", db, gdbm_fetch(db, text("alpha")));
    show_keys("empty", db);
    said("insert", db, gdbm_store(db, text("alpha"), text("1"), GDBM_INSERT));
    said("insert again", db, gdbm_store(db, text("alpha"), text("2"), GDBM_INSERT));
    show("kept", db, gdbm_fetch(db, text("alpha")));
    said("replace", db, gdbm_store(db, text("alpha"), text("two"), GDBM_REPLACE));
    show("replaced", db, gdbm_fetch(db, text("alpha")));
    said("another flag", db, gdbm_store(db, text("alpha"), text("3"), 7));
    said("empty value", db, gdbm_store(db, text("empty"), text(""), GDBM_INSERT));
    show("empty value", db, gdbm_fetch(db, text("empty")));
    said("empty key", db, gdbm_store(db, text(""), text("of nothing"), GDBM_INSERT));
    show("empty key", db, gdbm_fetch(db, text("")));
    said("any bytes", db, gdbm_store(db, bytes("a\0b", 3), text("c"), GDBM_INSERT));
    show("any bytes", db, gdbm_fetch(db, bytes("a\0b", 3)));
    printf("exists %d %d\n", gdbm_exists(db, text("alpha")), gdbm_exists(db, text("beta")));
    said("exists", db, 0);
    said("NULL key", db, gdbm_store(db, bytes(NULL, 0), text("c"), GDBM_REPLACE));
    said("NULL value", db, gdbm_store(db, text("c"), bytes(NULL, 0), GDBM_REPLACE));
    said("delete", db, gdbm_delete(db, text("alpha")));
    said("delete again", db, gdbm_delete(db, text("alpha")));
    show("next of NULL", db, gdbm_nextkey(db, bytes(NULL, 0)));
    show_keys("few", db);
    said("sync", db, gdbm_sync(db));
    said("reorganize", db, gdbm_reorganize(db));
    said("recover", db, gdbm_recover(db, NULL, 0));
    show_keys("after", db);
    said("close", NULL, gdbm_close(db));
}

static void reading_only(void)
{
    GDBM_FILE db = opened("few", GDBM_READER);
    show_keys("reader", db);
    said("store", db, gdbm_store(db, text("key"), text("value"), GDBM_REPLACE));
    said("delete", db, gdbm_delete(db, text("empty")));
    said("reorganize", db, gdbm_reorganize(db));
    said("recover", db, gdbm_recover(db, NULL, 0));
    said("convert", db, gdbm_convert(db, GDBM_NUMSYNC));
    said("sync", db, gdbm_sync(db));
    said("close", NULL, gdbm_close(db));
}

static void opening(void)
{
    static const char *const NAMES[] = {"absent", "empty file", "foreign", "folder", "no/such/folder"};
    FILE *file = fopen("empty file", "w");
    REQUIRE(file && !fclose(file));
    REQUIRE((file = fopen("foreign", "w")) && fprintf(file, "%0200d", 0) > 0 && !fclose(file));
    REQUIRE(!mkdir("folder", 0755));
    for (int i = 0; i < 5; i++)
        for (int flags = GDBM_READER; flags <= (i < 2 ? GDBM_READER : GDBM_WRITER); flags++) {
            printf("%s, flags %d: ", NAMES[i], flags);
            said("open", NULL, gdbm_open(NAMES[i], 0, flags, 0644, NULL) != NULL);
        }
    said("flags 5", NULL, gdbm_open("few", 0, 5, 0644, NULL) != NULL);
    said("exact block size", NULL, gdbm_open("block", 600, GDBM_NEWDB | GDBM_BSEXACT, 0644, NULL) != NULL);
    /* The second writer. */
    GDBM_FILE db = opened("few", GDBM_WRITER);
    said("second writer", NULL, gdbm_open("few", 0, GDBM_WRITER, 0644, NULL) != NULL);
    said("second to empty it", NULL, gdbm_open("few", 0, GDBM_NEWDB, 0644, NULL) != NULL);
    gdbm_close(db);
    /* An empty file is a new database, and GDBM_NEWDB empties what is there. */
    db = opened("empty file", GDBM_WRITER);
    show_keys("an empty file", db);
    gdbm_close(db);
    db = opened("foreign", GDBM_NEWDB);
    show_keys("a foreign file, emptied", db);
    gdbm_close(db);
    int descriptor = open("by descriptor", O_RDWR | O_CREAT, 0644);
    REQUIRE(descriptor >= 0);
    REQUIRE((db = gdbm_fd_open(descriptor, "by descriptor", 0, GDBM_WRCREAT, NULL)));
    printf("its own descriptor: %d\n", gdbm_fdesc(db) == descriptor);
    said("store", db, gdbm_store(db, text("a"), text("b"), GDBM_INSERT));
    said("close", NULL, gdbm_close(db));
    printf("closed: %d\n", fcntl(descriptor, F_GETFD) < 0);
    said("closed descriptor", NULL, gdbm_fd_open(descriptor, "by descriptor", 0, GDBM_READER, NULL) != NULL);
}

static void options(void)
{
    static const int CODES[] = {GDBM_GETFLAGS,   GDBM_GETMMAP,         GDBM_GETSYNCMODE, GDBM_GETCENTFREE,
                                GDBM_GETDBFORMAT, GDBM_GETCOALESCEBLKS, GDBM_GETCACHEAUTO};
    GDBM_FILE db = gdbm_open("few", 0, GDBM_WRITER | GDBM_SYNC | GDBM_CLOEXEC | GDBM_NOMMAP, 0, NULL);
    REQUIRE(db);
    size_t size = 0;
    char *name = NULL;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 7; i++) {
            int value = -1;
            int result = gdbm_setopt(db, CODES[i], &value, sizeof value);
            printf("option %d: %d, %d\n", CODES[i], result, value);
            said("wrong size", db, gdbm_setopt(db, CODES[i], &value, 1));
        }
        for (int code = GDBM_FASTMODE; code <= GDBM_SETCOALESCEBLKS; code++) {
            int value = code != GDBM_FASTMODE;
            said("set", db, gdbm_setopt(db, code, &value, sizeof value));
            value = 2;
            said("no bool", db, gdbm_setopt(db, code, &value, sizeof value));
        }
    }
    size = 100;
    said("cache size", db, gdbm_setopt(db, GDBM_SETCACHESIZE, &size, sizeof size));
    said("cache size", db, gdbm_setopt(db, GDBM_GETCACHESIZE, &size, sizeof size));
    printf("cache size: %zu\n", size);
    said("name", db, gdbm_setopt(db, GDBM_GETDBNAME, &name, sizeof name));
    printf("name: %s\n", name);
    free(name);
    said("NULL", db, gdbm_setopt(db, GDBM_GETFLAGS, NULL, sizeof(int)));
    said("unknown", db, gdbm_setopt(db, 99, &size, sizeof size));
    said("negative", db, gdbm_setopt(db, -1, &size, sizeof size));
    said("convert", db, gdbm_convert(db, 3));
    gdbm_close(db);
}

static void texts(void)
{
    for (int i = -1; i <= _GDBM_MAX_ERRNO + 1; i++)
        printf("%d: %s, %d\n", i, gdbm_strerror(i), gdbm_check_syserr(i));
    printf("%s, %d\n", gdbm_errlist[GDBM_ERR_USAGE], gdbm_syserr[GDBM_ERR_USAGE]);
    printf("%d.%d.%d\n", gdbm_version_number[0], gdbm_version_number[1], gdbm_version_number[2]);
    static const int NEWER[] = {1, 24, 0};
    printf("%d %d\n", gdbm_version_cmp(gdbm_version_number, NEWER), gdbm_version_cmp(NEWER, gdbm_version_number));
}

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    REQUIRE(file && fputs(content, file) >= 0 && !fclose(file));
}

static void load(const char *what, GDBM_FILE *db, const char *content)
{
    unsigned long line = 0;
    write_file("dump", content);
    printf("%s: ", what);
    said("load", NULL, gdbm_load(db, "dump", GDBM_REPLACE, 0, &line));
}

static void dumps(void)
{
    char key[20], value[400];
    GDBM_FILE db = opened("many", GDBM_NEWDB), copy;
    for (int i = 0; i < PAIRS; i++) {
        int len = snprintf(key, sizeof key, "key %d", i), size = 1 + i % 300;
        memset(value, i, (size_t)size);
        REQUIRE(!gdbm_store(db, bytes(key, (size_t)len), bytes(value, (size_t)size), GDBM_INSERT));
    }
    for (int format = GDBM_DUMP_FMT_BINARY; format <= GDBM_DUMP_FMT_ASCII; format++) {
        said("dump", db, gdbm_dump(db, "many.dump", format, GDBM_NEWDB, 0644));
        said("not over a file", db, gdbm_dump(db, "many.dump", format, GDBM_WRCREAT, 0644));
        copy = opened("copy", GDBM_NEWDB);
        said("load", copy, gdbm_load(&copy, "many.dump", GDBM_INSERT, 0, NULL));
        show_keys("loaded", copy);
        for (int i = 0; i < PAIRS; i += 7) {
            int len = snprintf(key, sizeof key, "key %d", i);
            datum one = gdbm_fetch(db, bytes(key, (size_t)len)), two = gdbm_fetch(copy, bytes(key, (size_t)len));
            REQUIRE(one.dptr && two.dptr && one.dsize == two.dsize && !memcmp(one.dptr, two.dptr, (size_t)one.dsize));
            free(one.dptr);
            free(two.dptr);
        }
        said("again, inserted", copy, gdbm_load(&copy, "many.dump", GDBM_INSERT, 0, NULL));
        said("again, replaced", copy, gdbm_load(&copy, "many.dump", GDBM_REPLACE, 0, NULL));
        gdbm_close(copy);
    }
    /* The dump names its database. */
    gdbm_close(db);
    db = NULL;
    said("by its name", NULL, gdbm_load(&db, "many.dump", GDBM_REPLACE, 0, NULL));
    show_keys("by its name", db);
    said("unknown format", db, gdbm_dump(db, "many.dump", 3, GDBM_NEWDB, 0644));
    said("wrong flags", db, gdbm_dump(db, "other.dump", 0, GDBM_READER, 0644));
    printf("exported: %d\n", gdbm_export(db, "many.export", GDBM_NEWDB, 0644));
    said("absent folder", db, gdbm_export(db, "no/folder", GDBM_NEWDB, 0644));
    gdbm_close(db);
    db = opened("copy", GDBM_NEWDB);
    printf("imported: %d\n", gdbm_import(db, "many.export", GDBM_INSERT));
    said("absent", db, gdbm_import(db, "absent", GDBM_INSERT));
    said("absent", db, gdbm_load(&db, "absent", GDBM_INSERT, 0, NULL));
    /* Dumps that are damaged. */
    load("empty", &db, "");
    load("text", &db, "certainly\nnot a dump\n");
    load("no records", &db, "#:version=1.1\n# End of header\n");
    load("good", &db, "#:version=1.1\n# x\n#:len=3\nYWJj\n#:len=2\nZGU=\n");
    show("good", db, gdbm_fetch(db, text("abc")));
    load("wrong length", &db, "#:version=1.1\n#:len=4\nYWJj\n#:len=2\nZGU=\n");
    load("no length", &db, "#:version=1.1\n#:len=x\nYWJj\n#:len=2\nZGU=\n");
    load("no base64", &db, "#:version=1.1\n#:len=3\nYW?j\n#:len=2\nZGU=\n");
    load("half a record", &db, "#:version=1.1\n#:len=3\nYWJj\n");
    load("no pair", &db, "#:version\n#:len=3\nYWJj\n#:len=2\nZGU=\n");
    load("half a header", &db, "!\r\n! GDBM FLAT");
    load("Berkeley", &db, "VERSION=3\nformat=bytevalue\nHEADER=END\n 6162\n 6364\nDATA=END\n");
    show("Berkeley", db, gdbm_fetch(db, text("ab")));
    gdbm_close(db);
    db = NULL;
    load("no name", &db, "#:version=1.1\n#:len=3\nYWJj\n#:len=2\nZGU=\n");
    load("binary, no database", &db, "!\r\n!\r\n!\r\n!\r\n");
    CHECK(!db);
}

int main(int argc, char **argv)
{
    enter_folder(argc, argv);
    few_pairs();
    reading_only();
    opening();
    options();
    texts();
    dumps();
    return finish();
}

/* What dbopen must do with DB_HASH: compiled against Berkeley DB's db_185.h and against ours, with the same output. */
#ifdef BERKELEY
#include <sys/types.h>
#include <db_185.h>
#else
#include <db.h>
#endif
#include "check.h"
#include <fcntl.h>

#define PAIRS 5000

static DBT bytes(const void *data, size_t size)
{
    DBT made;
    memset(&made, 0, sizeof made);
    made.data = (void *)data;
    made.size = size;
    return made;
}

static void show(const char *what, int result, DBT value)
{
    printf("%s: %d", what, result);
    if (result == 0)
        printf(" \"%.*s\"", (int)value.size, (char *)value.data);
    printf("\n");
}

static void get(DB *db, const char *name)
{
    DBT key = bytes(name, strlen(name)), value = bytes(NULL, 0);
    int result = db->get(db, &key, &value, 0);
    show(name, result, value);
}

static int put(DB *db, const char *name, const char *text, unsigned int flags)
{
    DBT key = bytes(name, strlen(name)), value = bytes(text, strlen(text));
    return db->put(db, &key, &value, flags);
}

static int del(DB *db, const char *name)
{
    DBT key = bytes(name, strlen(name));
    return db->del(db, &key, 0);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void show_pairs(DB *db)
{
    static char *pairs[PAIRS + 10];
    DBT key = bytes(NULL, 0), value = bytes(NULL, 0);
    int count = 0, result;
    unsigned int flag = R_FIRST;
    for (; (result = db->seq(db, &key, &value, flag)) == 0 && count < PAIRS + 10; flag = R_NEXT) {
        size_t len = key.size + value.size + 2;
        pairs[count] = malloc(len);
        snprintf(pairs[count++], len, "%.*s=%.*s", (int)key.size, (char *)key.data, (int)value.size,
                 (char *)value.data);
    }
    qsort(pairs, (size_t)count, sizeof *pairs, by_text);
    printf("%d pairs, then %d:", count, result);
    for (int i = 0; i < count; i++) {
        if (count < 20)
            printf(" %s", pairs[i]);
        free(pairs[i]);
    }
    printf("\n");
}

static void few_pairs(const char *name)
{
    DB *db = dbopen(name, O_RDWR | O_CREAT, 0644, DB_HASH, NULL);
    REQUIRE(db);
    get(db, "absent");
    printf("put %d\n", put(db, "key", "value", R_NOOVERWRITE));
    printf("put again %d\n", put(db, "key", "other", R_NOOVERWRITE));
    get(db, "key");
    printf("replace %d\n", put(db, "key", "another", 0));
    get(db, "key");
    printf("put %d\n", put(db, "second", "2", 0));
    printf("put %d\n", put(db, "empty", "", 0));
    get(db, "empty");
    show_pairs(db);
    printf("del %d\n", del(db, "second"));
    printf("del again %d\n", del(db, "second"));
    get(db, "second");
    show_pairs(db);
    printf("sync %d\n", db->sync(db, 0));
    if (name)
        printf("fd %d\n", fcntl(db->fd(db), F_GETFD) >= 0);
    printf("close %d\n", db->close(db));
}

static void read_only(void)
{
    DB *db = dbopen("few", O_RDONLY, 0, DB_HASH, NULL);
    REQUIRE(db);
    get(db, "key");
    printf("put %d\n", put(db, "key", "value", 0));
    printf("del %d\n", del(db, "key"));
    show_pairs(db);
    printf("close %d\n", db->close(db));
    printf("absent %d", !dbopen("absent", O_RDWR, 0, DB_HASH, NULL));
    printf(" %d\n", errno == ENOENT);
}

static void many_pairs(const char *name, const HASHINFO *info)
{
    char key[20], value[40];
    DB *db = dbopen(name, O_RDWR | O_CREAT | O_TRUNC, 0644, DB_HASH, info);
    REQUIRE(db);
    int stored = 0, found = 0, deleted = 0;
    for (int i = 0; i < PAIRS; i++) {
        sprintf(key, "key %d", i);
        sprintf(value, "value %d", i * i);
        stored += put(db, key, value, R_NOOVERWRITE) == 0;
    }
    if (name) {
        db->close(db);
        db = dbopen(name, O_RDWR, 0, DB_HASH, info);
        REQUIRE(db);
    }
    for (int i = 0; i < PAIRS; i++) {
        sprintf(key, "key %d", i);
        sprintf(value, "value %d", i * i);
        DBT name_of = bytes(key, strlen(key)), got = bytes(NULL, 0);
        found += db->get(db, &name_of, &got, 0) == 0 && got.size == strlen(value) && !memcmp(got.data, value, got.size);
    }
    show_pairs(db);
    for (int i = 0; i < PAIRS; i += 2) {
        sprintf(key, "key %d", i);
        deleted += del(db, key) == 0;
    }
    show_pairs(db);
    printf("stored %d found %d deleted %d close %d\n", stored, found, deleted, db->close(db));
}

static u_int32_t my_hash(const void *key, size_t len)
{
    u_int32_t hash = 5381;
    for (size_t i = 0; i < len; i++)
        hash = hash * 33 + ((const unsigned char *)key)[i];
    return hash;
}

int main(int argc, char **argv)
{
    HASHINFO info = {1024, 32, PAIRS, 65536, NULL, 1234}, own = {512, 8, 1, 0, my_hash, 4321};
    enter_folder(argc, argv);
    few_pairs("few");
    few_pairs(NULL);
    read_only();
    many_pairs("many", NULL);
    many_pairs("shaped", &info);
    many_pairs("hashed", &own);
    many_pairs(NULL, NULL);
    many_pairs(NULL, &info);
    return finish();
}

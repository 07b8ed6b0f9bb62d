/* What our dbopen does and Berkeley DB's does not, or not in the same way: errors, R_CURSOR, deleting while walking. */
#include <db.h>

#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static DBT bytes(const void *data, size_t size)
{
    DBT made = {(void *)data, size};
    return made;
}

static DBT text(const char *string) { return bytes(string, strlen(string)); }

static int put(DB *db, const char *name, const char *value)
{
    DBT key = text(name), content = text(value);
    return db->put(db, &key, &content, 0);
}

static uint32_t first_byte(const void *key, size_t len) { return len ? *(const unsigned char *)key : 0; }
static uint32_t constant(const void *key, size_t len) { return (void)key, (void)len, 7; }

static void only_hash_tables_in_range(void)
{
    HASHINFO info = {0};
    errno = 0;
    CHECK(!dbopen(NULL, O_RDWR, 0, DB_BTREE, NULL) && errno == EINVAL);
    errno = 0;
    CHECK(!dbopen(NULL, O_RDWR, 0, DB_RECNO, NULL) && errno == EINVAL);
    info.lorder = 1;
    errno = 0;
    CHECK(!dbopen(NULL, O_RDWR, 0, DB_HASH, &info) && errno == EINVAL);
    info.lorder = 4321;
    info.bsize = 65537;
    errno = 0;
    CHECK(!dbopen(NULL, O_RDWR, 0, DB_HASH, &info) && errno == EINVAL);
    info.bsize = 100; /* rounded up */
    info.ffactor = 4;
    info.nelem = 1000;
    DB *db = dbopen(NULL, O_RDWR, 0, DB_HASH, &info);
    REQUIRE(db);
    CHECK(db->type == DB_HASH);
    errno = 0;
    CHECK(db->fd(db) == -1 && errno == ENOENT);
    CHECK(db->close(db) == 0);
}

static void flags_that_mean_nothing_are_refused(void)
{
    DB *db = dbopen(NULL, O_RDWR, 0, DB_HASH, NULL);
    DBT key = text("key"), value = text("value"), none = bytes(NULL, 3);
    REQUIRE(db);
    CHECK(db->put(db, &key, &value, R_CURSOR) == -1 && errno == EINVAL);
    CHECK(db->get(db, &key, &value, R_CURSOR) == -1 && errno == EINVAL);
    CHECK(db->del(db, &key, R_NEXT) == -1 && errno == EINVAL);
    CHECK(db->seq(db, &key, &value, R_CURSOR) == -1 && errno == EINVAL);
    CHECK(db->seq(db, NULL, &value, R_FIRST) == -1 && errno == EINVAL);
    CHECK(db->sync(db, 1) == -1 && errno == EINVAL);
    CHECK(db->put(db, &none, &value, 0) == -1 && errno == EINVAL);
    CHECK(db->put(db, &key, &none, 0) == -1 && errno == EINVAL);
    CHECK(db->get(db, NULL, &value, 0) == -1 && errno == EINVAL);
    CHECK(db->get(db, &key, NULL, 0) == -1 && errno == EINVAL);
    CHECK(db->del(db, &key, R_CURSOR) == -1 && errno == EINVAL); /* before a walk */
    CHECK(db->close(db) == 0);
}

static void the_pair_of_the_walk_is_deleted(void)
{
    DB *db = dbopen(NULL, O_RDWR, 0, DB_HASH, NULL);
    DBT key, value;
    char name[20];
    int given = 0;
    REQUIRE(db);
    for (int i = 0; i < 1000; i++) {
        sprintf(name, "%d", i);
        CHECK(put(db, name, name) == 0);
    }
    CHECK(db->seq(db, &key, &value, R_NEXT) == 0); /* without R_FIRST: the first */
    for (int result = db->seq(db, &key, &value, R_FIRST); result == 0; result = db->seq(db, &key, &value, R_NEXT)) {
        CHECK(key.size == value.size && !memcmp(key.data, value.data, key.size));
        CHECK(db->del(db, NULL, R_CURSOR) == 0);
        CHECK(db->del(db, NULL, R_CURSOR) == 1);
        given++;
    }
    CHECK(given == 1000);
    CHECK(db->seq(db, &key, &value, R_FIRST) == 1);
    CHECK(db->close(db) == 0);
}

/* What the cursor has read ahead is out of date: a pair that was replaced comes with its new value. */
static void a_walk_gives_what_is_there(void)
{
    DB *db = dbopen(NULL, O_RDWR, 0, DB_HASH, NULL);
    DBT key, value, other;
    char name[20];
    int given = 0, result;
    REQUIRE(db);
    for (int i = 0; i < 20; i++) {
        sprintf(name, "%d", i);
        CHECK(put(db, name, "old") == 0);
    }
    CHECK(db->seq(db, &key, &value, R_FIRST) == 0);
    for (int i = 0; i < 20; i++) {
        sprintf(name, "%d", i);
        other = text(name);
        if (i % 2)
            CHECK(put(db, name, "a new value") == 0);
        else
            CHECK(db->del(db, &other, 0) == 0);
    }
    while ((result = db->seq(db, &key, &value, R_NEXT)) == 0) {
        snprintf(name, sizeof name, "%.*s", (int)key.size, (char *)key.data);
        CHECK(atoi(name) % 2 == 1 && value.size == 11 && !memcmp(value.data, "a new value", 11));
        given++;
    }
    CHECK(result == 1 && (given == 10 || given == 9));
    CHECK(db->close(db) == 0);
}

static void a_hash_function_belongs_to_its_file(void)
{
    HASHINFO own = {0}, other = {0};
    char name[20];
    DBT key, value;
    own.hash = first_byte;
    other.hash = constant;
    DB *db = dbopen("hashed", O_RDWR | O_CREAT, 0644, DB_HASH, &own);
    REQUIRE(db);
    for (int i = 0; i < 3000; i++) { /* all but ten of them with equal hashes */
        sprintf(name, "%d", i);
        CHECK(put(db, name, name) == 0);
    }
    CHECK(db->close(db) == 0);
    errno = 0;
    CHECK(!dbopen("hashed", O_RDWR, 0, DB_HASH, NULL) && errno == EINVAL);
    errno = 0;
    CHECK(!dbopen("hashed", O_RDONLY, 0, DB_HASH, &other) && errno == EINVAL);
    REQUIRE((db = dbopen("hashed", O_RDONLY, 0, DB_HASH, &own)) != NULL);
    int given = 0;
    for (unsigned int flag = R_FIRST; db->seq(db, &key, &value, flag) == 0; flag = R_NEXT)
        given++;
    CHECK(given == 3000);
    CHECK(db->close(db) == 0);
    /* A new file instead of the old one may have another. */
    REQUIRE((db = dbopen("hashed", O_RDWR | O_TRUNC, 0, DB_HASH, &other)) != NULL);
    key = text("1");
    CHECK(db->get(db, &key, &value, 0) == 1);
    CHECK(put(db, "1", "one") == 0 && db->get(db, &key, &value, 0) == 0);
    CHECK(db->close(db) == 0);
}

static void files_have_one_writer_and_many_readers(void)
{
    DBT key = text("key"), value;
    DB *db = dbopen("shared", O_RDWR | O_CREAT, 0644, DB_HASH, NULL);
    REQUIRE(db);
    errno = 0;
    CHECK(!dbopen("shared", O_RDWR, 0, DB_HASH, NULL) && errno == EAGAIN);
    DB *reader = dbopen("shared", O_RDONLY, 0, DB_HASH, NULL);
    REQUIRE(reader);
    CHECK(reader->get(reader, &key, &value, 0) == 1);
    CHECK(put(db, "key", "value") == 0);
    CHECK(db->sync(db, 0) == 0);
    usleep(50000);
    CHECK(reader->get(reader, &key, &value, 0) == 0 && value.size == 5);
    CHECK(reader->sync(reader, 0) == 0);
    CHECK(put(reader, "key", "value") == -1 && errno == EPERM);
    CHECK(reader->close(reader) == 0);
    CHECK(db->close(db) == 0);
}

static void a_forked_child_reads_and_does_not_write(void)
{
    DBT key = text("key"), value;
    DB *db = dbopen("forked", O_RDWR | O_CREAT, 0644, DB_HASH, NULL);
    REQUIRE(db && put(db, "key", "value") == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        failures = 0;
        CHECK(db->get(db, &key, &value, 0) == 0 && value.size == 5);
        CHECK(db->seq(db, &key, &value, R_FIRST) == 0 && key.size == 3);
        CHECK(db->seq(db, &key, &value, R_NEXT) == 1);
        errno = 0;
        CHECK(put(db, "key", "child") == -1 && errno == EBADF);
        key = text("key");
        errno = 0;
        CHECK(db->del(db, &key, 0) == -1 && errno == EBADF);
        db->close(db);
        exit(finish());
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(put(db, "key", "parent") == 0);
    CHECK(db->close(db) == 0);
}

static void a_small_cache_spills(void)
{
    HASHINFO info = {0};
    char name[20], large[1000];
    DBT key, value;
    info.cachesize = 100000;
    memset(large, 'x', sizeof large);
    DB *db = dbopen(NULL, O_RDWR, 0, DB_HASH, &info);
    REQUIRE(db);
    for (int i = 0; i < 5000; i++) {
        key = bytes(name, (size_t)sprintf(name, "%d", i));
        value = bytes(large, sizeof large);
        CHECK(db->put(db, &key, &value, R_NOOVERWRITE) == 0);
    }
    for (int i = 0; i < 5000; i++) {
        key = bytes(name, (size_t)sprintf(name, "%d", i));
        CHECK(db->get(db, &key, &value, 0) == 0 && value.size == sizeof large);
    }
    CHECK(db->close(db) == 0);
}

int main(int argc, char **argv)
{
    enter_folder(argc, argv);
    only_hash_tables_in_range();
    flags_that_mean_nothing_are_refused();
    the_pair_of_the_walk_is_deleted();
    a_walk_gives_what_is_there();
    a_hash_function_belongs_to_its_file();
    files_have_one_writer_and_many_readers();
    a_forked_child_reads_and_does_not_write();
    a_small_cache_spills();
    return finish();
}

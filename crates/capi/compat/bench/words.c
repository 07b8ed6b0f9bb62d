/* The dictionary test of "A New Hashing Package for UNIX" through ndbm: words.c FILE COUNT NAME ROUNDS prints one line
 * a round, in ms: create, read (which includes opening and closing), again, sequential, with values.
 *
 * Keys are words spread evenly over FILE, values their numbers in ASCII. Compiled against gdbm's headers; with
 * -DBERKELEY against Berkeley DB's. */
#define _GNU_SOURCE
#ifdef BERKELEY
#define DB_DBM_HSEARCH 1
#include <db.h>
#else
#include <ndbm.h>
#endif
#include "words.h"
#include <fcntl.h>

static void store_all(DBM *db)
{
    for (int i = 0; i < words.count; i++) {
        datum key = {words.pair[i].key, words.pair[i].key_len}, value = {words.pair[i].value, words.pair[i].value_len};
        REQUIRE(dbm_store(db, key, value, DBM_REPLACE) == 0);
    }
}

static void fetch_all(DBM *db)
{
    for (int i = 0; i < words.count; i++) {
        datum key = {words.pair[i].key, words.pair[i].key_len}, value = dbm_fetch(db, key);
        REQUIRE((int)value.dsize == words.pair[i].value_len);
        REQUIRE(!memcmp(value.dptr, words.pair[i].value, (size_t)value.dsize));
    }
}

static void walk(DBM *db, int with_values)
{
    int count = 0;
    for (datum key = dbm_firstkey(db); key.dptr; key = dbm_nextkey(db), count++)
        if (with_values)
            REQUIRE(dbm_fetch(db, key).dptr);
    REQUIRE(count == words.count);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 5);
    read_words(argv[1], atoi(argv[2]));
    for (int round = atoi(argv[4]); round > 0; round--) {
        double start = now_ms();
        DBM *db = dbm_open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0644);
        REQUIRE(db);
        store_all(db);
        dbm_close(db);
        double created = now_ms();
        REQUIRE((db = dbm_open(argv[3], O_RDONLY, 0)));
        fetch_all(db);
        dbm_close(db);
        double read = now_ms();
        REQUIRE((db = dbm_open(argv[3], O_RDONLY, 0)));
        fetch_all(db);
        double before = now_ms();
        fetch_all(db);
        double again = now_ms();
        walk(db, 0);
        double walked = now_ms();
        walk(db, 1);
        double with_values = now_ms();
        dbm_close(db);
        printf("%.3f %.3f %.3f %.3f %.3f\n", created - start, read - created, again - before, walked - again,
               with_values - walked);
    }
    return 0;
}

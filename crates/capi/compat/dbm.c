/* dbm: ndbm with one database. Source: the Seventh Edition's dbm(3).
 *
 * dbminit has no argument for the mode, and most programs only fetch, several at a time. So it opens the database for
 * reading, and the first store or delete opens it for writing. */
#include "include/dbm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/types.h>

/* From ndbm.c; not its header, since the two have macros and types in common. */
typedef struct splitpoint_dbm DBM;
DBM *dbm_open(const char *name, int flags, mode_t mode);
datum dbm_fetch(DBM *db, datum key);
int dbm_store(DBM *db, datum key, datum content, int mode);
int dbm_delete(DBM *db, datum key);
datum dbm_firstkey(DBM *db);
void splitpoint_dbm_write_later(DBM *db, const char *name);
datum splitpoint_dbm_after(DBM *db, datum key);
int splitpoint_dbm_close(DBM *db);

enum { REPLACE = 1 };

static DBM *database;

int dbmclose(void)
{
    if (!database) {
        errno = EBADF;
        return -1;
    }
    DBM *closing = database;
    database = NULL;
    return splitpoint_dbm_close(closing);
}

int dbminit(const char *name)
{
    if (database)
        dbmclose();
    database = dbm_open(name, O_RDONLY, 0);
    if (!database)
        return -1;
    splitpoint_dbm_write_later(database, name);
    return 0;
}

datum fetch(datum key) { return dbm_fetch(database, key); }

int store(datum key, datum content) { return dbm_store(database, key, content, REPLACE); }

int delete(datum key) { return dbm_delete(database, key); }

datum firstkey(void) { return dbm_firstkey(database); }

datum nextkey(datum key)
{
    static const datum NONE = {NULL, 0};
    if (!database) {
        errno = EINVAL;
        return NONE;
    }
    return splitpoint_dbm_after(database, key);
}

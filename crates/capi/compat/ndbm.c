/* ndbm: two files, and the table in one of them.
 *
 *   x.pag   the table
 *   x.dir   one line of text. Programs look for it, lock it, and rename, chmod and remove it with the other
 *
 * Also what dbm.c and the library that replaces libgdbm_compat.so.4 are made of. Source: POSIX, dbm_open; Seltzer &
 * Yigit 1991, "Enhanced Functionality". Not here: the table, its walk and its errors (store.c). */
#define _GNU_SOURCE /* O_CLOEXEC in C99 */
#include "include/ndbm.h"

#include "store.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names that Berkeley DB 5.3 gives these functions: programs compiled with its db.h call them by these. */
#define ALSO(name) __attribute__((alias(#name)))

static const char DIR_TEXT[] = "splitpoint ndbm: the records are in the file of this name that ends in .pag\n";

struct splitpoint_dbm {
    struct store *store;
    int directory; /* the descriptor of x.dir */
    int failed;
};

/* `name` with one of the two suffixes; NULL where there is no memory. */
static char *file_name(const char *name, const char *suffix)
{
    size_t len = strlen(name);
    char *made = malloc(len + strlen(suffix) + 1);
    if (made) {
        memcpy(made, name, len);
        strcpy(made + len, suffix);
    }
    return made;
}

/* Opens x.dir, with the owner and permissions of x.pag where it is made. A reader of a database without one gets x.pag
 * once more, as its records are all there. */
static int open_directory(const char *name, int flags, const char *pages, int pages_descriptor)
{
    struct stat found;
    char *path = file_name(name, ".dir");
    if (!path || fstat(pages_descriptor, &found)) {
        free(path);
        return -1;
    }
    int read_only = (flags & O_ACCMODE) == O_RDONLY;
    int own = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (flags & O_NOFOLLOW);
    int descriptor = -1, number = errno;
    if (!read_only)
        descriptor = open_above_standard(path, O_RDWR | O_CREAT | O_EXCL | own, found.st_mode & 0777);
    /* A process of root makes it for the owner of x.pag; others may not, and need not. */
    if (descriptor >= 0 && fchown(descriptor, found.st_uid, found.st_gid))
        errno = number;
    if (descriptor < 0)
        descriptor = open_above_standard(path, read_only ? O_RDONLY | own : O_RDWR | O_CREAT | own, found.st_mode & 0777);
    if (descriptor < 0 && read_only && errno == ENOENT)
        descriptor = open_above_standard(pages, O_RDONLY | own, 0);
    free(path);
    if (descriptor < 0 || read_only || (fstat(descriptor, &found) == 0 && found.st_size > 0 && !(flags & O_TRUNC)))
        return descriptor;
    size_t len = sizeof DIR_TEXT - 1;
    if (ftruncate(descriptor, 0) || pwrite(descriptor, DIR_TEXT, len, 0) != (ssize_t)len) {
        number = errno;
        close(descriptor);
        errno = number;
        return -1;
    }
    return descriptor;
}

DBM *dbm_open(const char *name, int flags, mode_t mode)
{
    static const spt_options SHAPE = SPT_OPTIONS_INIT;
    if (!name) {
        errno = EINVAL;
        return NULL;
    }
    char *pages = file_name(name, ".pag");
    DBM *db = calloc(1, sizeof *db);
    if (pages && db && (db->store = store_open(pages, flags, mode, &SHAPE))) {
        db->directory = open_directory(name, flags, pages, store_descriptor(db->store));
        if (db->directory >= 0) {
            free(pages);
            return db;
        }
        int number = errno;
        store_close(db->store);
        errno = number;
    }
    free(pages);
    free(db);
    return NULL;
}

/* Also says whether everything was written; dbmclose returns that. */
int splitpoint_dbm_close(DBM *db)
{
    int result = store_close(db->store);
    close(db->directory);
    free(db);
    return result;
}

void dbm_close(DBM *db)
{
    if (db)
        splitpoint_dbm_close(db);
}

/* The bytes of a datum; -1 for what cannot be one. */
static int span_of(datum given, struct span *span)
{
    if (given.dsize < 0 || (!given.dptr && given.dsize > 0)) {
        errno = EINVAL;
        return -1;
    }
    *span = (struct span){given.dptr, (size_t)given.dsize};
    return 0;
}

static const datum NONE = {NULL, 0};

/* What a call found, as the program gets it. `result` is the store's. */
static datum datum_of(DBM *db, int result, struct span found)
{
    if (result == 0 && found.len > INT_MAX) {
        /* It was not stored through this interface, which has no number for its length. */
        errno = EFBIG;
        result = -1;
    }
    if (result == 0)
        return (datum){(char *)found.bytes, (int)found.len};
    db->failed |= result < 0;
    return NONE;
}

/* Whether `db` may be used. */
static int is_open(const DBM *db)
{
    if (!db)
        errno = EINVAL;
    return db != NULL;
}

datum dbm_fetch(DBM *db, datum key)
{
    struct span name, value = {NULL, 0};
    if (!is_open(db))
        return NONE;
    int result = span_of(key, &name);
    if (result == 0)
        result = store_get(db->store, name, &value);
    return datum_of(db, result, value);
}

int dbm_store(DBM *db, datum key, datum content, int mode)
{
    struct span name, value;
    if (!is_open(db))
        return -1;
    int result = span_of(key, &name) || span_of(content, &value) ? -1 : 0;
    if (result == 0 && mode != DBM_INSERT && mode != DBM_REPLACE) {
        errno = EINVAL;
        result = -1;
    }
    if (result == 0)
        result = store_put(db->store, name, value, mode == DBM_REPLACE);
    db->failed |= result < 0;
    return result;
}

int dbm_delete(DBM *db, datum key)
{
    struct span name;
    if (!is_open(db))
        return -1;
    int result = span_of(key, &name);
    if (result == 0)
        result = store_remove(db->store, name);
    db->failed |= result < 0;
    if (result > 0)
        errno = ENOENT;
    return result ? -1 : 0;
}

datum dbm_firstkey(DBM *db)
{
    struct span key = {NULL, 0};
    if (!is_open(db))
        return NONE;
    int result = store_first(db->store, &key, NULL);
    return datum_of(db, result, key);
}

datum dbm_nextkey(DBM *db)
{
    struct span key = {NULL, 0};
    if (!is_open(db))
        return NONE;
    int result = store_next(db->store, &key, NULL);
    return datum_of(db, result, key);
}

/* dbm opens all databases so: for reading, to be written if need be. x.dir is made where it is absent and can be. */
void splitpoint_dbm_write_later(DBM *db, const char *name)
{
    int directory = open_directory(name, O_RDWR, NULL, store_descriptor(db->store));
    if (directory >= 0) {
        close(db->directory);
        db->directory = directory;
    }
    store_write_later(db->store);
}

/* dbm's nextkey. */
datum splitpoint_dbm_after(DBM *db, datum key)
{
    struct span name, next = {NULL, 0};
    int result = span_of(key, &name);
    if (result == 0)
        result = store_after(db->store, name, &next, NULL);
    return datum_of(db, result, next);
}

int dbm_error(DBM *db) { return is_open(db) ? db->failed : -1; }

int dbm_clearerr(DBM *db)
{
    if (!is_open(db))
        return -1;
    db->failed = 0;
    return 0;
}

int dbm_dirfno(DBM *db) { return is_open(db) ? db->directory : -1; }

int dbm_pagfno(DBM *db) { return is_open(db) ? store_descriptor(db->store) : -1; }

int dbm_rdonly(DBM *db) { return is_open(db) ? store_read_only(db->store) : -1; }

ALSO(dbm_open) DBM *__db_ndbm_open(const char *name, int flags, mode_t mode);
ALSO(dbm_close) void __db_ndbm_close(DBM *db);
ALSO(dbm_fetch) datum __db_ndbm_fetch(DBM *db, datum key);
ALSO(dbm_store) int __db_ndbm_store(DBM *db, datum key, datum content, int mode);
ALSO(dbm_delete) int __db_ndbm_delete(DBM *db, datum key);
ALSO(dbm_firstkey) datum __db_ndbm_firstkey(DBM *db);
ALSO(dbm_nextkey) datum __db_ndbm_nextkey(DBM *db);
ALSO(dbm_error) int __db_ndbm_error(DBM *db);
ALSO(dbm_clearerr) int __db_ndbm_clearerr(DBM *db);
ALSO(dbm_dirfno) int __db_ndbm_dirfno(DBM *db);
ALSO(dbm_pagfno) int __db_ndbm_pagfno(DBM *db);
ALSO(dbm_rdonly) int __db_ndbm_rdonly(DBM *db);

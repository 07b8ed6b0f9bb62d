/* ndbm over splitpoint: the interface of 4.3BSD and of POSIX, in libsplitpoint_ndbm.so.
 *
 * The database of dbm_open("x") is x.pag, a table of splitpoint, and x.dir, which only has to be there. Records have no
 * length limit; after a crash every record is there whose dbm_store had returned. docs/compat.md says what else differs
 * from other ndbm's.
 *
 * Compile with -I.../include/splitpoint, link with -lsplitpoint_ndbm. */
#ifndef SPLITPOINT_NDBM_H
#define SPLITPOINT_NDBM_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A database that is open. One thread at a time may use it. */
typedef struct splitpoint_dbm DBM;

/* Bytes and their number. POSIX makes dptr a void pointer and dsize a size_t; these are the types of 4.3BSD, gdbm and
 * Berkeley DB, so that programs compiled for those run with this library. */
#ifndef SPLITPOINT_DATUM
#define SPLITPOINT_DATUM
typedef struct {
    char *dptr;
    int dsize;
} datum;
#endif

/* For dbm_store. */
#define DBM_INSERT 0  /* leave a record that is there as it is */
#define DBM_REPLACE 1 /* replace it */

#define DBM_SUFFIX ".pag" /* of the file with the records */

/* Opens or creates the database in the files `name`.dir and `name`.pag. `flags` are those of open(2); O_WRONLY is
 * O_RDWR. `mode` is the mode of new files, less the umask. Returns NULL with errno set: what open(2) gives; EAGAIN if
 * another handle or process has it open for writing; EINVAL if it is no database of splitpoint; EIO if it is
 * damaged. */
DBM *dbm_open(const char *name, int flags, mode_t mode);

/* Closes it and frees its memory, what its calls have returned too. NULL is ignored. */
void dbm_close(DBM *db);

/* The value of `key`, valid until the next dbm_fetch with this database. dptr is NULL if the key is absent or after an
 * error. */
datum dbm_fetch(DBM *db, datum key);

/* Stores a record. 0; 1 for DBM_INSERT if the key is present, with nothing changed; -1 with errno set. */
int dbm_store(DBM *db, datum key, datum content, int mode);

/* Removes a record. 0; -1 with errno set, ENOENT if the key is absent. */
int dbm_delete(DBM *db, datum key);

/* The first key of a walk over all, and the next one; dptr is NULL at the end. A key is valid until the next call of
 * these two with this database. Each record that is there all the time is given exactly once, whatever is stored and
 * deleted in the meantime. */
datum dbm_firstkey(DBM *db);
datum dbm_nextkey(DBM *db);

/* Whether a call has failed since dbm_clearerr; that a key is absent, or present, is no failure. */
int dbm_error(DBM *db);
int dbm_clearerr(DBM *db);

/* Descriptors of name.dir and name.pag, for fstat. Lock name.dir: the database has locks on name.pag. Do not close
 * them or write to them. */
int dbm_dirfno(DBM *db);
int dbm_pagfno(DBM *db);

/* Whether it is open for reading only. */
int dbm_rdonly(DBM *db);

#ifdef __cplusplus
}
#endif

#endif

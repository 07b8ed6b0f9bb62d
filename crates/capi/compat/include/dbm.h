/* dbm over splitpoint: the interface of the Seventh Edition, in libsplitpoint_dbm.so. One database at a time.
 *
 * The functions have the names that they always had, among them `delete` and `store`; so this header is for C.
 *
 * Compile with -I.../include/splitpoint, link with -lsplitpoint_dbm. */
#ifndef SPLITPOINT_DBM_H
#define SPLITPOINT_DBM_H

#ifndef SPLITPOINT_DATUM
#define SPLITPOINT_DATUM
typedef struct {
    char *dptr;
    int dsize;
} datum;
#endif

/* Opens the database in the files `name`.dir and `name`.pag, and closes the one that was open. The .pag file must
 * exist; empty files are an empty database. The first store or delete opens it for writing, and fails where that
 * fails. Returns 0, or -1 with errno set as by dbm_open. */
int dbminit(const char *name);

/* Closes the database. 0, or -1 if none is open or not everything could be written. */
int dbmclose(void);

/* The value of `key`, valid until the next fetch; dptr is NULL if the key is absent. */
datum fetch(datum key);

/* Stores a record, replacing what is there. 0, or -1 with errno set. */
int store(datum key, datum content);

/* Removes a record. 0, or -1 with errno set, ENOENT if the key is absent. */
int delete(datum key);

/* The first key of a walk, and the one after `key`, which may have been deleted in the meantime; dptr is NULL at the
 * end. A key is valid until the next of these two calls. */
datum firstkey(void);
datum nextkey(datum key);

#endif

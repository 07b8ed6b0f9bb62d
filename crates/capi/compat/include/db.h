/* dbopen over splitpoint: the interface of 4.4BSD and of Berkeley DB 1.85, for hash tables, in libsplitpoint_db185.so.
 *
 * It is the interface of "A New Hashing Package for UNIX". The structs are those of Berkeley DB's db_185.h, so programs
 * that were compiled with that header run with this library too. Of the three types, only DB_HASH can be opened.
 *
 * Compile with -I.../include/splitpoint, link with -lsplitpoint_db185. */
#ifndef SPLITPOINT_DB_H
#define SPLITPOINT_DB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RET_ERROR -1  /* a call failed; errno says why */
#define RET_SUCCESS 0
#define RET_SPECIAL 1 /* the key is absent, or present already; there are no more pairs */

/* Bytes and their number. */
typedef struct {
    void *data;
    size_t size;
} DBT;

#define R_CURSOR 1      /* del: the pair that seq has returned last */
#define R_FIRST 3       /* seq: the first pair */
#define R_NEXT 7        /* seq: the next pair, at the start the first */
#define R_NOOVERWRITE 8 /* put: 1 if the key is present, with nothing changed */

typedef enum { DB_BTREE, DB_HASH, DB_RECNO } DBTYPE;

/* A table that is open. One thread at a time may use it. The functions return RET_SUCCESS, RET_SPECIAL or RET_ERROR.
 * Flags that are not named above are EINVAL.
 *
 * What get and seq return in a DBT belongs to the table and is valid until the next call of either. */
typedef struct __db {
    DBTYPE type;
    /* Writes everything and frees the table. */
    int (*close)(struct __db *db);
    int (*del)(const struct __db *db, const DBT *key, unsigned int flags);
    int (*get)(const struct __db *db, const DBT *key, DBT *value, unsigned int flags);
    int (*put)(const struct __db *db, DBT *key, const DBT *value, unsigned int flags);
    /* Walks the pairs. One that is there all the time is returned once, whatever is put and deleted in between. */
    int (*seq)(const struct __db *db, DBT *key, DBT *value, unsigned int flags);
    /* Makes changes safe from a power loss, and visible to readers. */
    int (*sync)(const struct __db *db, unsigned int flags);
    void *internal;
    /* A descriptor of the file, for fstat; -1 with ENOENT for a table in memory. The database has locks on the file, so
     * lock another one. */
    int (*fd)(const struct __db *db);
} DB;

/* How a new table is made; a field of 0 is the default. */
typedef struct {
    uint32_t bsize;     /* bytes of a bucket's page: rounded up to a power of two from 512; above 65536 is EINVAL */
    uint32_t ffactor;   /* pairs in a bucket at which the table grows */
    uint32_t nelem;     /* pairs that will come */
    uint32_t cachesize; /* bytes of pages in memory; for a table in memory, the rest goes to a temporary file */
    uint32_t (*hash)(const void *key, size_t len); /* a hash function of the program's own, the same at every open */
    int lorder;         /* 1234 or 4321; the file is the same on all machines */
} HASHINFO;

/* For programs that are written for the other two types as well. dbopen refuses these: EINVAL. */
#define R_IAFTER 4
#define R_IBEFORE 5
#define R_LAST 6
#define R_PREV 9
#define R_SETCURSOR 10
#define R_RECNOSYNC 11
#define R_DUP 0x01
#define R_FIXEDLEN 0x01
#define R_NOKEY 0x02
#define R_SNAPSHOT 0x04
typedef uint32_t recno_t;

typedef struct {
    uint32_t flags;
    uint32_t cachesize;
    uint32_t maxkeypage;
    uint32_t minkeypage;
    uint32_t psize;
    int (*compare)(const DBT *a, const DBT *b);
    size_t (*prefix)(const DBT *a, const DBT *b);
    int lorder;
} BTREEINFO;

typedef struct {
    uint32_t flags;
    uint32_t cachesize;
    uint32_t psize;
    int lorder;
    size_t reclen;
    unsigned char bval;
    char *bfname;
} RECNOINFO;

/* Opens the table in the file `name`, or one in memory if that is NULL. `flags` and `mode` are those of open(2);
 * `info` may be NULL. Returns NULL with errno set: what open(2) gives; EAGAIN if another handle or process has it open
 * for writing; EINVAL for another type than DB_HASH, an `info` out of range, and a file that is no table or has
 * another hash function; EIO if the file is damaged. */
DB *dbopen(const char *name, int flags, int mode, DBTYPE type, const void *info);

#ifdef __cplusplus
}
#endif

#endif

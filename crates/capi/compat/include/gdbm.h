/* gdbm over splitpoint: the interface of GNU dbm 1.23, in libsplitpoint_gdbm.so.
 *
 * Names, types and numbers are those of gdbm's own header, so a program compiled with either header runs with either
 * library. The file of gdbm_open("x") is a table of splitpoint; gdbm's own files are read by `splitpoint load`.
 * docs/compat.md says what differs.
 *
 * Compile with -I.../include/splitpoint, link with -lsplitpoint_gdbm. */
#ifndef SPLITPOINT_GDBM_H
#define SPLITPOINT_GDBM_H

#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes and their number. */
#ifndef SPLITPOINT_DATUM
#define SPLITPOINT_DATUM
typedef struct {
    char *dptr;
    int dsize;
} datum;
#endif

/* A database that is open. One thread at a time may use it. */
typedef struct gdbm_file_info *GDBM_FILE;

typedef unsigned long long int gdbm_count_t;
typedef int gdbm_error;

#define GDBM_VERSION_MAJOR 1
#define GDBM_VERSION_MINOR 23
#define GDBM_VERSION_PATCH 0
extern const char *gdbm_version;
extern int const gdbm_version_number[3];
extern int gdbm_version_cmp(int const a[], int const b[]);

/* --- opening and closing --- */

#define GDBM_READER 0   /* read; a reader may run beside a writer */
#define GDBM_WRITER 1   /* read and write an existing database */
#define GDBM_WRCREAT 2  /* the same; created if absent */
#define GDBM_NEWDB 3    /* the same; an existing one is emptied */
#define GDBM_OPENMASK 7 /* the bits of the four above */

#define GDBM_FAST 0x0010     /* no effect */
#define GDBM_SYNC 0x0020     /* each change survives a power loss when the call returns */
#define GDBM_NOLOCK 0x0040   /* no effect: a second writer is always refused */
#define GDBM_NOMMAP 0x0080   /* no effect */
#define GDBM_CLOEXEC 0x0100  /* no effect: descriptors are always closed by exec */
#define GDBM_BSEXACT 0x0200  /* refuse a block size that is no power of two from 512 to 65,536 */
#define GDBM_CLOERROR 0x0400 /* gdbm_fd_open closes the descriptor if it fails */
#define GDBM_XVERIFY 0x0800  /* check the whole table at the open */
#define GDBM_PREREAD 0x1000  /* no effect */
#define GDBM_NUMSYNC 0x2000  /* no effect on the file */

/* NULL with gdbm_errno set. `block_size` is the page size of a new table; below 512, the default of splitpoint.
 * `fatal` is never called: errors are returned. */
extern GDBM_FILE gdbm_open(const char *name, int block_size, int flags, int mode, void (*fatal)(const char *));

/* The same for a file that is open as `fd`, which gdbm_close closes. The file must still have the name `name`, or, on
 * Linux, some name. */
extern GDBM_FILE gdbm_fd_open(int fd, const char *name, int block_size, int flags, void (*fatal)(const char *));
extern int gdbm_close(GDBM_FILE db);

/* --- records --- */

#define GDBM_INSERT 0  /* leave a record that is there as it is */
#define GDBM_REPLACE 1 /* replace it */

/* 0; 1 for GDBM_INSERT if the key is present, with nothing changed; -1 with gdbm_errno set. */
extern int gdbm_store(GDBM_FILE db, datum key, datum content, int flag);

/* The value, which the caller frees; dptr is NULL if the key is absent (GDBM_ITEM_NOT_FOUND) or after an error. */
extern datum gdbm_fetch(GDBM_FILE db, datum key);
extern int gdbm_exists(GDBM_FILE db, datum key);
extern int gdbm_delete(GDBM_FILE db, datum key);

/* The first key of a walk, and the one after `key`, which may have been deleted; the caller frees them. Each record
 * that is there all the time is given exactly once, whatever is stored and deleted in the meantime. dptr is NULL at the
 * end, with GDBM_ITEM_NOT_FOUND. */
extern datum gdbm_firstkey(GDBM_FILE db);
extern datum gdbm_nextkey(GDBM_FILE db, datum key);

extern int gdbm_count(GDBM_FILE db, gdbm_count_t *count);
extern int gdbm_bucket_count(GDBM_FILE db, size_t *count);

/* --- the file --- */

extern int gdbm_sync(GDBM_FILE db);       /* all changes survive a power loss, and readers see them */
extern int gdbm_reorganize(GDBM_FILE db); /* makes the file as small as the records allow */
extern int gdbm_fdesc(GDBM_FILE db);
extern int gdbm_copy_meta(GDBM_FILE to, GDBM_FILE from); /* owner and permissions */
extern int gdbm_avail_verify(GDBM_FILE db);              /* checks the whole table */
extern int gdbm_convert(GDBM_FILE db, int format);       /* 0 or GDBM_NUMSYNC; no effect on the file */

typedef struct gdbm_recovery_s {
    /* in, where a flag says so */
    void (*errfun)(void *data, char const *format, ...);
    void *data;
    size_t max_failed_keys;
    size_t max_failed_buckets;
    size_t max_failures;
    /* out */
    size_t recovered_keys;
    size_t recovered_buckets;
    size_t failed_keys;
    size_t failed_buckets;
    size_t duplicate_keys;
    char *backup_name; /* free it */
} gdbm_recovery;

#define GDBM_RCVR_DEFAULT 0x00
#define GDBM_RCVR_ERRFUN 0x01
#define GDBM_RCVR_MAX_FAILED_KEYS 0x02
#define GDBM_RCVR_MAX_FAILED_BUCKETS 0x04
#define GDBM_RCVR_MAX_FAILURES 0x08
#define GDBM_RCVR_BACKUP 0x10
#define GDBM_RCVR_FORCE 0x20

/* Opens the table again, which replays its log, and checks it. Damage is reported to `errfun`, and is
 * GDBM_REORGANIZE_FAILED: `splitpoint dump --salvage` reads what is left. */
extern int gdbm_recover(GDBM_FILE db, gdbm_recovery *recovery, int flags);

enum gdbm_latest_snapshot_status {
    GDBM_SNAPSHOT_OK,
    GDBM_SNAPSHOT_BAD,
    GDBM_SNAPSHOT_ERR,
    GDBM_SNAPSHOT_SAME,
    GDBM_SNAPSHOT_SUSPICIOUS
};

/* There are no snapshots, as the log makes every change atomic: GDBM_ERR_USAGE with ENOSYS, and GDBM_SNAPSHOT_ERR. */
extern int gdbm_failure_atomic(GDBM_FILE db, const char *even, const char *odd);
extern int gdbm_latest_snapshot(const char *even, const char *odd, const char **latest);

/* --- dumps, in the formats of gdbm_dump and gdbm_load --- */

#define GDBM_DUMP_FMT_BINARY 0
#define GDBM_DUMP_FMT_ASCII 1

#define GDBM_META_MASK_MODE 0x01  /* do not restore permissions */
#define GDBM_META_MASK_OWNER 0x02 /* do not restore the owner */

extern int gdbm_export(GDBM_FILE db, const char *path, int flags, int mode); /* the number of records, or -1 */
extern int gdbm_export_to_file(GDBM_FILE db, FILE *file);
extern int gdbm_import(GDBM_FILE db, const char *path, int replace); /* the number of records, or -1 */
extern int gdbm_import_from_file(GDBM_FILE db, FILE *file, int replace);
extern int gdbm_dump(GDBM_FILE db, const char *path, int format, int flags, int mode);
extern int gdbm_dump_to_file(GDBM_FILE db, FILE *file, int format);

/* `*db` may be NULL for a dump that names its database. `*line`, unless `line` is NULL, is where an error was found. */
extern int gdbm_load(GDBM_FILE *db, const char *path, int replace, int meta_mask, unsigned long *line);
extern int gdbm_load_from_file(GDBM_FILE *db, FILE *file, int replace, int meta_mask, unsigned long *line);

/* --- options --- */

#define GDBM_SETCACHESIZE 1    /* remembered */
#define GDBM_FASTMODE 2        /* remembered */
#define GDBM_SETSYNCMODE 3     /* as GDBM_SYNC */
#define GDBM_SETCENTFREE 4     /* remembered */
#define GDBM_SETCOALESCEBLKS 5 /* remembered */
#define GDBM_SETMAXMAPSIZE 6   /* remembered */
#define GDBM_SETMMAP 7         /* remembered */
#define GDBM_CACHESIZE GDBM_SETCACHESIZE
#define GDBM_SYNCMODE GDBM_SETSYNCMODE
#define GDBM_CENTFREE GDBM_SETCENTFREE
#define GDBM_COALESCEBLKS GDBM_SETCOALESCEBLKS
#define GDBM_GETFLAGS 8
#define GDBM_GETMMAP 9
#define GDBM_GETCACHESIZE 10
#define GDBM_GETSYNCMODE 11
#define GDBM_GETCENTFREE 12
#define GDBM_GETCOALESCEBLKS 13
#define GDBM_GETMAXMAPSIZE 14
#define GDBM_GETDBNAME 15     /* a string that the caller frees */
#define GDBM_GETBLOCKSIZE 16  /* the page size */
#define GDBM_GETDBFORMAT 17
#define GDBM_GETDIRDEPTH 18   /* bits of a bucket number */
#define GDBM_GETBUCKETSIZE 19 /* average records of a bucket, at least 1 */
#define GDBM_GETCACHEAUTO 20
#define GDBM_SETCACHEAUTO 21
#define GDBM_CACHE_AUTO 0

extern int gdbm_setopt(GDBM_FILE db, int option, void *value, int size);

struct gdbm_cache_stat {
    off_t adr;
    size_t hits;
};

/* Accesses are lookups, estimated; hits are those that read no frame of the file. The cache has no list of buckets. */
extern void gdbm_get_cache_stats(GDBM_FILE db, size_t *accesses, size_t *hits, size_t *buckets,
                                 struct gdbm_cache_stat *stats, size_t stats_len);

/* --- errors --- */

enum {
    GDBM_NO_ERROR = 0,
    GDBM_MALLOC_ERROR = 1,
    GDBM_BLOCK_SIZE_ERROR = 2,
    GDBM_FILE_OPEN_ERROR = 3,
    GDBM_FILE_WRITE_ERROR = 4,
    GDBM_FILE_SEEK_ERROR = 5,
    GDBM_FILE_READ_ERROR = 6,
    GDBM_BAD_MAGIC_NUMBER = 7,
    GDBM_EMPTY_DATABASE = 8,
    GDBM_CANT_BE_READER = 9,
    GDBM_CANT_BE_WRITER = 10,
    GDBM_READER_CANT_DELETE = 11,
    GDBM_READER_CANT_STORE = 12,
    GDBM_READER_CANT_REORGANIZE = 13,
    GDBM_UNKNOWN_ERROR = 14,
    GDBM_ITEM_NOT_FOUND = 15,
    GDBM_REORGANIZE_FAILED = 16,
    GDBM_CANNOT_REPLACE = 17,
    GDBM_MALFORMED_DATA = 18,
    GDBM_ILLEGAL_DATA = GDBM_MALFORMED_DATA,
    GDBM_OPT_ALREADY_SET = 19,
    GDBM_OPT_BADVAL = 20,
    GDBM_OPT_ILLEGAL = GDBM_OPT_BADVAL,
    GDBM_BYTE_SWAPPED = 21,
    GDBM_BAD_FILE_OFFSET = 22,
    GDBM_BAD_OPEN_FLAGS = 23,
    GDBM_FILE_STAT_ERROR = 24,
    GDBM_FILE_EOF = 25,
    GDBM_NO_DBNAME = 26,
    GDBM_ERR_FILE_OWNER = 27,
    GDBM_ERR_FILE_MODE = 28,
    GDBM_NEED_RECOVERY = 29,
    GDBM_BACKUP_FAILED = 30,
    GDBM_DIR_OVERFLOW = 31,
    GDBM_BAD_BUCKET = 32,
    GDBM_BAD_HEADER = 33,
    GDBM_BAD_AVAIL = 34,
    GDBM_BAD_HASH_TABLE = 35,
    GDBM_BAD_DIR_ENTRY = 36,
    GDBM_FILE_CLOSE_ERROR = 37,
    GDBM_FILE_SYNC_ERROR = 38,
    GDBM_FILE_TRUNCATE_ERROR = 39,
    GDBM_BUCKET_CACHE_CORRUPTED = 40,
    GDBM_BAD_HASH_ENTRY = 41,
    GDBM_ERR_SNAPSHOT_CLONE = 42,
    GDBM_ERR_REALPATH = 43,
    GDBM_ERR_USAGE = 44
};
#define _GDBM_MIN_ERRNO 0
#define _GDBM_MAX_ERRNO GDBM_ERR_USAGE
#define GDBM_UNKNOWN_UPDATE GDBM_UNKNOWN_ERROR

extern int *gdbm_errno_location(void);
#define gdbm_errno (*gdbm_errno_location()) /* of this thread */
extern const char *const gdbm_errlist[];
extern int const gdbm_syserr[]; /* whether errno belongs to the error */

extern const char *gdbm_strerror(gdbm_error error);
extern const char *gdbm_db_strerror(GDBM_FILE db);
extern gdbm_error gdbm_last_errno(GDBM_FILE db);
extern int gdbm_last_syserr(GDBM_FILE db);
extern void gdbm_set_errno(GDBM_FILE db, gdbm_error error, int fatal);
extern void gdbm_clear_error(GDBM_FILE db);
extern int gdbm_needs_recovery(GDBM_FILE db);
extern int gdbm_check_syserr(gdbm_error error);

#ifdef __cplusplus
}
#endif

#endif

/* gdbm: the interface of GNU dbm 1.23 over one table, in the file of that name.
 *
 *   open, close   flags and errors of gdbm, the table by store.c
 *   records       what is returned is the caller's, by malloc
 *   options       what means something here takes effect; the rest is remembered, for the getters
 *   recovery      opens the table again, and checks it
 *
 * After a failure of the disk, or for a damaged table, a handle refuses everything with GDBM_NEED_RECOVERY until
 * gdbm_recover, as gdbm's does. Source: the gdbm manual. Not here: codes and texts of errors (gdbm_errno.c), dumps
 * (gdbm_dump.c), the table and its walk (store.c). */
#define _GNU_SOURCE /* O_CLOEXEC in C99, readlink */
#include "include/gdbm.h"

#include "gdbm_errno.h"
#include "store.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_MIN 512
#define BLOCK_MAX 65536

/* gdbm's cache at the open, in buckets. */
#define CACHE_SIZE 512

/* The options that are remembered, and GDBM_SYNC. */
struct options {
    bool sync, central_free, coalesce_blocks, mmap, preread, no_lock, cloexec, numsync, cache_auto;
    size_t cache_size, max_map_size;
};

struct gdbm_file_info {
    struct gdbm_fault fault;
    struct store *store; /* NULL: gdbm_recover could not open the table again */
    char *name;          /* as given */
    char *path;          /* absolute: a program may change its directory */
    int given;           /* the descriptor of gdbm_fd_open; or -1 */
    int access;          /* GDBM_READER ... GDBM_NEWDB */
    struct options options;
};

const char *gdbm_version = "GDBM version 1.23. The interface, over tables of splitpoint";
int const gdbm_version_number[3] = {GDBM_VERSION_MAJOR, GDBM_VERSION_MINOR, GDBM_VERSION_PATCH};

int gdbm_version_cmp(int const a[], int const b[])
{
    for (int i = 0; i < 3; i++)
        if (a[i] != b[i])
            return a[i] > b[i] ? 1 : -1;
    return 0;
}

static const datum NONE = {NULL, 0};

static int fail(GDBM_FILE db, gdbm_error error)
{
    gdbm_set_errno(db, error, 0);
    return -1;
}

/* The code for errno after a call of the store; `otherwise` where the file is to blame. */
static int store_failed(GDBM_FILE db, gdbm_error otherwise)
{
    int number = errno;
    gdbm_error error = number == ENOMEM ? GDBM_MALLOC_ERROR : number == EFBIG ? GDBM_MALFORMED_DATA : otherwise;
    gdbm_set_errno(db, error, number == EIO);
    return -1;
}

static int no_database(void)
{
    errno = EINVAL;
    return fail(NULL, GDBM_ERR_USAGE);
}

/* Whether calls with `db` are possible. */
static bool usable(GDBM_FILE db)
{
    if (!db)
        return no_database() == 0;
    if (db->fault.needs_recovery) {
        gdbm_set_errno(db, GDBM_NEED_RECOVERY, 1);
        return false;
    }
    return true;
}

struct gdbm_fault *fault_of_database(GDBM_FILE db) { return db ? &db->fault : NULL; }

/* --- opening --- */

static unsigned block_bytes(int asked)
{
    unsigned bytes = BLOCK_MIN;
    while (bytes < BLOCK_MAX && bytes < (unsigned)asked)
        bytes *= 2;
    return bytes;
}

static bool begins_with(const char *path, const void *bytes, size_t len)
{
    char start[8];
    int file = open_above_standard(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    bool same = file >= 0 && pread(file, start, len, 0) == (ssize_t)len && !memcmp(start, bytes, len);
    if (file >= 0)
        close(file);
    return same;
}

/* The first four bytes of gdbm's files: three formats of today, the oldest, and one with a 32-bit off_t. */
static bool is_of_gdbm(const char *path)
{
    static const uint32_t MAGICS[] = {0x13579ace, 0x13579acd, 0x13579acf, 0x13579ad0, 0x13579ad1};
    for (size_t i = 0; i < sizeof MAGICS / sizeof *MAGICS; i++) {
        uint32_t swapped = __builtin_bswap32(MAGICS[i]);
        if (begins_with(path, &MAGICS[i], 4) || begins_with(path, &swapped, 4))
            return true;
    }
    return false;
}

/* Sets gdbm_errno for a table that could not be opened, and errno as it was. */
static void open_failed(const char *path, int access)
{
    int number = errno;
    gdbm_error error = GDBM_FILE_OPEN_ERROR;
    if (number == EAGAIN)
        error = access == GDBM_READER ? GDBM_CANT_BE_READER : GDBM_CANT_BE_WRITER;
    else if (number == ENOMEM)
        error = GDBM_MALLOC_ERROR;
    else if (number == EINVAL && !begins_with(path, "SPLITPNT", 8))
        error = GDBM_BAD_MAGIC_NUMBER;
    else if (number == EIO || (number == EISDIR && access == GDBM_READER))
        error = GDBM_FILE_READ_ERROR;
    gdbm_set_errno(NULL, error, 0);
    bad_magic_is_of_gdbm(error == GDBM_BAD_MAGIC_NUMBER && is_of_gdbm(path));
    errno = number;
}

static spt_status check_table(spt_table *table, void *context)
{
    uint64_t faults;
    (void)context;
    return spt_check(table, NULL, NULL, &faults);
}

/* The store in the file at `path`; NULL with gdbm_errno set. */
static struct store *open_store(const char *path, int block_size, int flags, int mode)
{
    static const int ACCESS[] = {O_RDONLY, O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_TRUNC};
    spt_options shape = SPT_OPTIONS_INIT;
    struct stat found;
    int access = flags & GDBM_OPENMASK;
    bool filled = stat(path, &found) == 0 && found.st_size > 0;
    if (access > GDBM_NEWDB) {
        errno = EINVAL;
        gdbm_set_errno(NULL, GDBM_FILE_OPEN_ERROR, 0);
        return NULL;
    }
    if (access == GDBM_READER && !filled && stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
        gdbm_set_errno(NULL, GDBM_EMPTY_DATABASE, 0);
        return NULL;
    }
    if (block_size >= BLOCK_MIN) {
        shape.page_bytes = block_bytes(block_size);
        if ((flags & GDBM_BSEXACT) && (access == GDBM_NEWDB || !filled) && shape.page_bytes != (unsigned)block_size) {
            gdbm_set_errno(NULL, GDBM_BLOCK_SIZE_ERROR, 0);
            return NULL;
        }
    }
    struct store *store = store_open(path, ACCESS[access], (mode_t)mode, &shape);
    if (!store) {
        open_failed(path, access);
        return NULL;
    }
    if ((flags & GDBM_XVERIFY) && store_ask(store, check_table, NULL) < 0) {
        store_close(store);
        gdbm_set_errno(NULL, GDBM_BAD_HEADER, 0);
        return NULL;
    }
    return store;
}

static void free_database(GDBM_FILE db)
{
    int number = errno;
    free(db->fault.text);
    free(db->name);
    free(db->path);
    free(db);
    errno = number;
}

/* errno after an open that failed: as it was before, unless it says something. Python's dbm.gnu prints errno, not
 * the text of the error, if errno has changed. */
static void restore_errno(int before)
{
    int error = gdbm_errno;
    if (!gdbm_check_syserr(error) && error != GDBM_CANT_BE_READER && error != GDBM_CANT_BE_WRITER &&
        error != GDBM_MALLOC_ERROR)
        errno = before;
}

/* Opens the table at `path` under the name `name`. */
static GDBM_FILE open_database(const char *path, const char *name, int given, int block_size, int flags, int mode)
{
    int before = errno;
    GDBM_FILE db = calloc(1, sizeof *db);
    if (!db || !(db->name = strdup(name))) {
        free(db);
        gdbm_set_errno(NULL, GDBM_MALLOC_ERROR, 0);
        return NULL;
    }
    db->given = given;
    db->access = flags & GDBM_OPENMASK;
    db->options = (struct options){.sync = flags & GDBM_SYNC, .mmap = !(flags & GDBM_NOMMAP),
                                   .preread = flags & GDBM_PREREAD, .no_lock = flags & GDBM_NOLOCK,
                                   .cloexec = flags & GDBM_CLOEXEC, .numsync = flags & GDBM_NUMSYNC,
                                   .cache_auto = true, .cache_size = CACHE_SIZE, .max_map_size = SIZE_MAX};
    db->store = open_store(path, block_size, flags, mode);
    if (db->store && (db->path = realpath(path, NULL)))
        return db;
    if (db->store) {
        store_close(db->store);
        gdbm_set_errno(NULL, GDBM_ERR_REALPATH, 0);
    }
    free_database(db);
    restore_errno(before);
    return NULL;
}

GDBM_FILE gdbm_open(const char *name, int block_size, int flags, int mode, void (*fatal)(const char *))
{
    (void)fatal;
    gdbm_set_errno(NULL, GDBM_NO_ERROR, 0);
    if (!name) {
        errno = EFAULT;
        gdbm_set_errno(NULL, GDBM_FILE_OPEN_ERROR, 0);
        return NULL;
    }
    return open_database(name, name, -1, block_size, flags, mode);
}

static bool is_file(const char *path, const struct stat *file)
{
    struct stat found;
    return path && stat(path, &found) == 0 && found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

GDBM_FILE gdbm_fd_open(int fd, const char *name, int block_size, int flags, void (*fatal)(const char *))
{
    char link[64], path[PATH_MAX];
    struct stat file;
    GDBM_FILE db = NULL;
    (void)fatal;
    gdbm_set_errno(NULL, GDBM_NO_ERROR, 0);
    if (fstat(fd, &file)) {
        gdbm_set_errno(NULL, GDBM_FILE_STAT_ERROR, 0);
    } else {
        /* A table has a log beside it, so its file needs a name. */
        const char *found = name;
        if (!is_file(found, &file)) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t len = readlink(link, path, sizeof path - 1);
            path[len > 0 ? len : 0] = 0;
            found = path;
        }
        if (is_file(found, &file)) {
            db = open_database(found, name ? name : found, fd, block_size, flags, 0);
        } else {
            errno = ENOENT;
            gdbm_set_errno(NULL, GDBM_FILE_OPEN_ERROR, 0);
        }
    }
    if (!db && (flags & GDBM_CLOERROR)) {
        int number = errno;
        close(fd);
        errno = number;
    }
    return db;
}

int gdbm_close(GDBM_FILE db)
{
    if (!db)
        return no_database();
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    int number = 0;
    /* Whether the program has closed it itself. */
    if (db->store && fcntl(store_descriptor(db->store), F_GETFD) < 0)
        number = errno;
    if (db->store && store_close(db->store))
        number = errno;
    if (db->given >= 0 && close(db->given))
        number = errno;
    free_database(db);
    if (!number)
        return 0;
    errno = number;
    return fail(NULL, GDBM_FILE_CLOSE_ERROR);
}

/* --- records --- */

/* The bytes of a datum; -1 for what cannot be one. */
static int span_of(GDBM_FILE db, datum given, struct span *span)
{
    if (given.dsize < 0 || (!given.dptr && given.dsize > 0))
        return fail(db, GDBM_MALFORMED_DATA);
    *span = (struct span){given.dptr, (size_t)given.dsize};
    return 0;
}

/* What a call of the store found, as the caller's own; `result` is the store's. */
static datum datum_of(GDBM_FILE db, int result, struct span found)
{
    if (result == 0 && found.len > INT_MAX) {
        /* It was not stored through this interface, which has no number for its length. */
        errno = EFBIG;
        result = -1;
    }
    if (result < 0) {
        store_failed(db, GDBM_FILE_READ_ERROR);
        return NONE;
    }
    if (result > 0) {
        gdbm_set_errno(db, GDBM_ITEM_NOT_FOUND, 0);
        return NONE;
    }
    /* A zero after the end protects programs that take a value for a string. */
    char *copy = malloc(found.len + 1);
    if (!copy) {
        gdbm_set_errno(db, GDBM_MALLOC_ERROR, 0);
        return NONE;
    }
    memcpy(copy, found.bytes, found.len);
    copy[found.len] = 0;
    return (datum){copy, (int)found.len};
}

static spt_status sync_log(spt_table *table, void *context)
{
    (void)context;
    return spt_sync(table);
}

/* After a change: with GDBM_SYNC it is on the disk before the call returns. */
static int changed(GDBM_FILE db)
{
    if (!db->options.sync || store_ask(db->store, sync_log, NULL) >= 0)
        return 0;
    return store_failed(db, GDBM_FILE_SYNC_ERROR);
}

int gdbm_store(GDBM_FILE db, datum key, datum content, int flag)
{
    struct span name, value;
    if (!usable(db))
        return -1;
    if (db->access == GDBM_READER)
        return fail(db, GDBM_READER_CANT_STORE);
    /* A NULL of length 0 too: a fetch that returns one has found nothing. */
    if (!key.dptr || !content.dptr)
        return fail(db, GDBM_MALFORMED_DATA);
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (span_of(db, key, &name) || span_of(db, content, &value))
        return -1;
    int result = store_put(db->store, name, value, flag == GDBM_REPLACE);
    if (result < 0)
        return store_failed(db, GDBM_FILE_WRITE_ERROR);
    if (result > 0)
        gdbm_set_errno(db, GDBM_CANNOT_REPLACE, 0);
    return result ? result : changed(db);
}

datum gdbm_fetch(GDBM_FILE db, datum key)
{
    struct span name, value = {NULL, 0};
    if (!usable(db))
        return NONE;
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (span_of(db, key, &name))
        return NONE;
    return datum_of(db, store_get(db->store, name, &value), value);
}

int gdbm_exists(GDBM_FILE db, datum key)
{
    struct span name, value;
    if (!usable(db))
        return 0;
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (span_of(db, key, &name))
        return 0;
    int result = store_get(db->store, name, &value);
    if (result < 0)
        store_failed(db, GDBM_FILE_READ_ERROR);
    return result == 0;
}

int gdbm_delete(GDBM_FILE db, datum key)
{
    struct span name;
    if (!usable(db))
        return -1;
    if (db->access == GDBM_READER)
        return fail(db, GDBM_READER_CANT_DELETE);
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (span_of(db, key, &name))
        return -1;
    int result = store_remove(db->store, name);
    if (result)
        return result > 0 ? fail(db, GDBM_ITEM_NOT_FOUND) : store_failed(db, GDBM_FILE_WRITE_ERROR);
    return changed(db);
}

datum gdbm_firstkey(GDBM_FILE db)
{
    struct span key = {NULL, 0};
    if (!usable(db))
        return NONE;
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    return datum_of(db, store_first(db->store, &key, NULL), key);
}

datum gdbm_nextkey(GDBM_FILE db, datum key)
{
    struct span after, next = {NULL, 0};
    if (!usable(db))
        return NONE;
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (!key.dptr) {
        gdbm_set_errno(db, GDBM_ITEM_NOT_FOUND, 0);
        return NONE;
    }
    if (span_of(db, key, &after))
        return NONE;
    return datum_of(db, store_after(db->store, after, &next, NULL), next);
}

static spt_status read_counters(spt_table *table, void *counters)
{
    return spt_read_counters(table, counters, sizeof(spt_counters));
}

/* The figures of the table; -1 after an error. */
static int counters_of(GDBM_FILE db, spt_counters *counters)
{
    memset(counters, 0, sizeof *counters);
    if (!usable(db))
        return -1;
    return store_ask(db->store, read_counters, counters) < 0 ? store_failed(db, GDBM_FILE_READ_ERROR) : 0;
}

int gdbm_count(GDBM_FILE db, gdbm_count_t *count)
{
    spt_counters counters;
    if (counters_of(db, &counters))
        return -1;
    *count = counters.pairs;
    return 0;
}

int gdbm_bucket_count(GDBM_FILE db, size_t *count)
{
    spt_counters counters;
    if (counters_of(db, &counters))
        return -1;
    *count = counters.buckets;
    return 0;
}

void gdbm_get_cache_stats(GDBM_FILE db, size_t *accesses, size_t *hits, size_t *buckets, struct gdbm_cache_stat *stats,
                          size_t stats_len)
{
    spt_counters counters;
    counters_of(db, &counters);
    uint64_t lookups = counters.hits + counters.misses;
    if (accesses)
        *accesses = lookups;
    if (hits)
        *hits = lookups > counters.frames_read ? lookups - counters.frames_read : 0;
    if (buckets)
        *buckets = 0;
    if (stats)
        memset(stats, 0, stats_len * sizeof *stats);
}

/* --- the file --- */

int gdbm_sync(GDBM_FILE db)
{
    if (!usable(db))
        return -1;
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (db->access == GDBM_READER || store_sync(db->store) == 0)
        return 0;
    return store_failed(db, GDBM_FILE_SYNC_ERROR);
}

static spt_status compact(spt_table *table, void *context)
{
    (void)context;
    return spt_compact(table, NULL, NULL);
}

int gdbm_reorganize(GDBM_FILE db)
{
    if (!usable(db))
        return -1;
    if (db->access == GDBM_READER)
        return fail(db, GDBM_READER_CANT_REORGANIZE);
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (store_ask(db->store, compact, NULL) < 0 || store_sync(db->store))
        return store_failed(db, GDBM_REORGANIZE_FAILED);
    return 0;
}

int gdbm_fdesc(GDBM_FILE db)
{
    if (!db)
        return no_database();
    if (db->given >= 0)
        return db->given;
    return db->store ? store_descriptor(db->store) : -1;
}

int gdbm_copy_meta(GDBM_FILE to, GDBM_FILE from)
{
    struct stat found;
    if (!usable(to) || !usable(from))
        return -1;
    if (fstat(gdbm_fdesc(from), &found))
        return fail(from, GDBM_FILE_STAT_ERROR);
    if (fchown(gdbm_fdesc(to), found.st_uid, found.st_gid))
        return fail(to, GDBM_ERR_FILE_OWNER);
    return fchmod(gdbm_fdesc(to), found.st_mode & 0777) ? fail(to, GDBM_ERR_FILE_MODE) : 0;
}

int gdbm_avail_verify(GDBM_FILE db)
{
    if (!usable(db))
        return -1;
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (store_ask(db->store, check_table, NULL) >= 0)
        return 0;
    gdbm_set_errno(db, GDBM_BAD_AVAIL, 1);
    return -1;
}

int gdbm_convert(GDBM_FILE db, int format)
{
    if (!usable(db))
        return -1;
    if (db->access == GDBM_READER)
        return fail(db, GDBM_READER_CANT_STORE);
    if (format != 0 && format != GDBM_NUMSYNC)
        return fail(db, GDBM_MALFORMED_DATA);
    db->options.numsync = format == GDBM_NUMSYNC;
    return 0;
}

int gdbm_failure_atomic(GDBM_FILE db, const char *even, const char *odd)
{
    (void)even;
    (void)odd;
    if (!usable(db))
        return -1;
    errno = ENOSYS;
    return fail(db, GDBM_ERR_USAGE);
}

int gdbm_latest_snapshot(const char *even, const char *odd, const char **latest)
{
    (void)even;
    (void)odd;
    (void)latest;
    errno = ENOSYS;
    return GDBM_SNAPSHOT_ERR;
}

/* --- recovery --- */

struct check {
    gdbm_recovery *recovery;
    bool tell;
};

static int report(void *context, const char *place, const char *what)
{
    struct check *check = context;
    check->recovery->failed_buckets++;
    if (check->tell)
        check->recovery->errfun(check->recovery->data, "%s: %s; `splitpoint dump --salvage` reads what is left", place,
                                what);
    return 0;
}

static spt_status check_all(spt_table *table, void *context)
{
    return spt_check(table, report, context, NULL);
}

static spt_status back_up(spt_table *table, void *path) { return spt_backup(table, path, 0, NULL, NULL); }

/* A copy of the table beside it, with the time in its name. */
static int keep_backup(GDBM_FILE db, gdbm_recovery *recovery)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm parts;
    size_t len = strlen(db->path);
    char *name = malloc(len + sizeof stamp + 8);
    if (!name)
        return fail(db, GDBM_MALLOC_ERROR);
    strftime(stamp, sizeof stamp, "-%Y%m%d%H%M%S.bak~", localtime_r(&now, &parts));
    strcpy(name, db->path);
    strcpy(name + len, stamp);
    if (store_ask(db->store, back_up, name) < 0) {
        free(name);
        return store_failed(db, GDBM_BACKUP_FAILED);
    }
    recovery->backup_name = name;
    return 0;
}

/* Opens the table again, which replays its log. */
static int open_again(GDBM_FILE db)
{
    if (db->store)
        store_close(db->store);
    db->store = open_store(db->path, 0, GDBM_WRITER, 0);
    if (db->store)
        return 0;
    gdbm_set_errno(db, GDBM_REORGANIZE_FAILED, 1);
    return -1;
}

int gdbm_recover(GDBM_FILE db, gdbm_recovery *recovery, int flags)
{
    gdbm_recovery own;
    spt_counters counters;
    if (!db)
        return no_database();
    if (db->access == GDBM_READER) {
        gdbm_set_errno(db, GDBM_READER_CANT_REORGANIZE, db->fault.needs_recovery);
        return -1;
    }
    if (!recovery) {
        recovery = &own;
        flags = 0;
    }
    recovery->recovered_keys = recovery->recovered_buckets = 0;
    recovery->failed_keys = recovery->failed_buckets = recovery->duplicate_keys = 0;
    recovery->backup_name = NULL;
    bool needed = db->fault.needs_recovery || !db->store;
    if (needed && open_again(db))
        return -1;
    struct check check = {recovery, (flags & GDBM_RCVR_ERRFUN) && recovery->errfun};
    if (store_ask(db->store, check_all, &check) < 0) {
        gdbm_set_errno(db, GDBM_REORGANIZE_FAILED, 1);
        return -1;
    }
    gdbm_set_errno(db, GDBM_NO_ERROR, 0);
    if (!needed && !(flags & GDBM_RCVR_FORCE))
        return 0;
    if ((flags & GDBM_RCVR_BACKUP) && keep_backup(db, recovery))
        return -1;
    if (gdbm_reorganize(db) || counters_of(db, &counters))
        return -1;
    recovery->recovered_keys = counters.pairs;
    recovery->recovered_buckets = counters.buckets;
    return 0;
}

/* --- options --- */

static int get_int(GDBM_FILE db, void *value, int size, int found)
{
    if (!value || size != sizeof(int))
        return fail(db, GDBM_OPT_BADVAL);
    *(int *)value = found;
    return 0;
}

static int set_bool(GDBM_FILE db, const void *value, int size, bool *option)
{
    if (!value || size != sizeof(int) || (*(const int *)value & ~1))
        return fail(db, GDBM_OPT_BADVAL);
    *option = *(const int *)value;
    return 0;
}

static int get_size(GDBM_FILE db, void *value, int size, size_t found)
{
    if (!value || size != sizeof(size_t))
        return fail(db, GDBM_OPT_BADVAL);
    *(size_t *)value = found;
    return 0;
}

static int set_size(GDBM_FILE db, const void *value, int size, size_t *option)
{
    if (value && size == sizeof(unsigned))
        *option = *(const unsigned *)value;
    else if (value && size == sizeof(size_t))
        *option = *(const size_t *)value;
    else
        return fail(db, GDBM_OPT_BADVAL);
    return 0;
}

static int set_cache_size(GDBM_FILE db, const void *value, int size)
{
    size_t asked = 0, buckets = 4;
    if (set_size(db, value, size, &asked))
        return -1;
    if (asked > SIZE_MAX / sizeof(void *))
        return fail(db, GDBM_OPT_BADVAL);
    db->options.cache_auto = asked == GDBM_CACHE_AUTO;
    while (buckets < asked)
        buckets *= 2;
    if (asked != GDBM_CACHE_AUTO)
        db->options.cache_size = buckets;
    return 0;
}

static int set_max_map_size(GDBM_FILE db, const void *value, int size)
{
    size_t asked = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    if (set_size(db, value, size, &asked))
        return -1;
    /* Also where the sum wraps, as in gdbm. */
    db->options.max_map_size = (asked + page - 1) / page * page;
    return 0;
}

static int get_name(GDBM_FILE db, void *value, int size)
{
    char *name;
    if (!value || size != sizeof(char *))
        return fail(db, GDBM_OPT_BADVAL);
    if (!(name = strdup(db->name)))
        return fail(db, GDBM_MALLOC_ERROR);
    *(char **)value = name;
    return 0;
}

static int flags_of(const struct gdbm_file_info *db)
{
    const struct options *set = &db->options;
    return db->access | (set->sync ? GDBM_SYNC : 0) | (set->no_lock ? GDBM_NOLOCK : 0) |
           (set->cloexec ? GDBM_CLOEXEC : 0) | (set->numsync ? GDBM_NUMSYNC : 0) |
           (!set->mmap ? GDBM_NOMMAP : set->preread ? GDBM_PREREAD : 0);
}

static spt_status survey(spt_table *table, void *found)
{
    return spt_survey_table(table, found, sizeof(spt_survey), NULL, NULL);
}

static int page_bytes(GDBM_FILE db, void *value, int size)
{
    spt_survey found = {0};
    if (store_ask(db->store, survey, &found) < 0)
        return store_failed(db, GDBM_FILE_READ_ERROR);
    return get_int(db, value, size, (int)found.page_bytes);
}

/* What a file of gdbm would have as its directory and its buckets. */
static int shape_of(GDBM_FILE db, int option, void *value, int size)
{
    spt_counters counters;
    int bits = 0;
    if (counters_of(db, &counters))
        return -1;
    while (bits < 31 && (UINT64_C(1) << bits) < counters.buckets)
        bits++;
    uint64_t pairs = counters.buckets ? counters.pairs / counters.buckets : 0;
    return get_int(db, value, size, option == GDBM_GETDIRDEPTH ? bits : pairs ? (int)pairs : 1);
}

int gdbm_setopt(GDBM_FILE db, int option, void *value, int size)
{
    bool fast;
    if (!usable(db))
        return -1;
    struct options *set = &db->options;
    switch (option) {
    case GDBM_FASTMODE:
        if (set_bool(db, value, size, &fast))
            return -1;
        set->sync = !fast;
        return 0;
    case GDBM_SETSYNCMODE:
        return set_bool(db, value, size, &set->sync);
    case GDBM_GETSYNCMODE:
        return get_int(db, value, size, set->sync);
    case GDBM_SETCENTFREE:
        return set_bool(db, value, size, &set->central_free);
    case GDBM_GETCENTFREE:
        /* The opposite, as in gdbm, whose tests expect it. */
        return get_int(db, value, size, !set->central_free);
    case GDBM_SETCOALESCEBLKS:
        return set_bool(db, value, size, &set->coalesce_blocks);
    case GDBM_GETCOALESCEBLKS:
        return get_int(db, value, size, set->coalesce_blocks);
    case GDBM_SETMMAP:
        return set_bool(db, value, size, &set->mmap);
    case GDBM_GETMMAP:
        return get_int(db, value, size, set->mmap);
    case GDBM_SETMAXMAPSIZE:
        return set_max_map_size(db, value, size);
    case GDBM_GETMAXMAPSIZE:
        return get_size(db, value, size, set->max_map_size);
    case GDBM_SETCACHESIZE:
        return set_cache_size(db, value, size);
    case GDBM_GETCACHESIZE:
        return get_size(db, value, size, set->cache_size);
    case GDBM_SETCACHEAUTO:
        return set_bool(db, value, size, &set->cache_auto);
    case GDBM_GETCACHEAUTO:
        return get_int(db, value, size, set->cache_auto);
    case GDBM_GETFLAGS:
        return get_int(db, value, size, flags_of(db));
    case GDBM_GETDBNAME:
        return get_name(db, value, size);
    case GDBM_GETDBFORMAT:
        return get_int(db, value, size, set->numsync ? GDBM_NUMSYNC : 0);
    case GDBM_GETBLOCKSIZE:
        return page_bytes(db, value, size);
    case GDBM_GETDIRDEPTH:
    case GDBM_GETBUCKETSIZE:
        return shape_of(db, option, value, size);
    default:
        return fail(db, GDBM_OPT_BADVAL);
    }
}

/* store: see store.h.
 *
 *   open     the file by open(2), for its permissions, its errors and a descriptor; then the table in it
 *   get ...  the table -> errno; a reader whose table is out of date opens it again, and the call is repeated; so does
 *            a child of the process that writes it
 *   walk     a cursor; after a change, what it read ahead is looked up again
 *
 * A program may end without closing: the destructor closes what is open, so that the table's file is complete by itself
 * and can be renamed or copied. After a crash the log beside it has the rest. */
#define _GNU_SOURCE /* secure_getenv, O_NOFOLLOW */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A reader looks for a newer checkpoint at most this often: looking is a system call, and getting a pair is not. */
#define LOOK_MS 10

/* Changes wait this long for a checkpoint, which readers see, if the writer makes further calls. */
#define PUBLISH_MS 1000

/* A reader opens its table again at most this many times for one call; it is out of date by then only if a writer makes
 * checkpoints all the time. */
#define REOPENINGS_MAX 100

/* A table's two headers are as long as this; each has the number of its checkpoint here: docs/format.md, "Headers". */
#define HEADER_BYTES 4096
#define SEQUENCE_OFFSET 16

/* The names that a table's logs may have: docs/format.md, "Write-ahead log". */
#define LOG_FILES 8

/* Memory that grows. */
struct buffer {
    char *bytes;
    size_t len, capacity;
};

struct store {
    spt_table *table; /* NULL: a reader's file is empty, or the program is ending */
    char *path;       /* NULL: in memory */
    spt_options options;
    int descriptor;
    pid_t process; /* that opened it */
    bool read_only;
    bool forked; /* read-only because a process that has it open for writing forked this one */
    bool write_later; /* opened for reading, and for writing at the first change */
    struct buffer value, key; /* what was returned last; both with a byte after the end, so that none is NULL */
    spt_cursor *cursor;
    bool walking;      /* `key` is where the walk is */
    bool ended;        /* the walk is behind the last pair */
    bool changed;      /* pairs may have been removed or replaced since the cursor read ahead */
    uint64_t position; /* where the walk continues if its cursor has to be opened again */
    uint64_t sequence; /* a reader's checkpoint */
    int64_t looked_ms; /* when a reader last looked for a newer one */
    int64_t unpublished_ms; /* since when a writer has changes that readers do not see; 0: it has none */
    struct store *earlier, *later; /* in the list of open stores */
};

/* --- open stores, closed at the end of the program --- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store *newest;

static void lock_list(void) { pthread_mutex_lock(&list_lock); }
static void unlock_list(void) { pthread_mutex_unlock(&list_lock); }

__attribute__((constructor)) static void prepare_for_forks(void)
{
    /* Otherwise the lock of another thread would stay locked in a child for ever. */
    pthread_atfork(lock_list, unlock_list, unlock_list);
}

static void enlist(struct store *store)
{
    lock_list();
    store->earlier = newest;
    if (newest)
        newest->later = store;
    newest = store;
    unlock_list();
}

static void delist(struct store *store)
{
    lock_list();
    if (store->later)
        store->later->earlier = store->earlier;
    else
        newest = store->earlier;
    if (store->earlier)
        store->earlier->later = store->later;
    unlock_list();
}

static int close_table(struct store *store);

__attribute__((destructor)) static void close_all(void)
{
    /* The structs stay: the program may still have pointers to them. In a child of the process that opened it, closing
     * a table changes nothing. */
    lock_list();
    for (struct store *store = newest; store; store = store->earlier)
        close_table(store);
    unlock_list();
}

/* --- errors --- */

static const struct {
    spt_status status;
    int number;
} ERRORS[] = {
    {SPT_IO, EIO},
    {SPT_DISK_FULL, ENOSPC},
    {SPT_CORRUPT, EIO},
    {SPT_NOT_A_TABLE, EINVAL},
    {SPT_OTHER_VERSION, EINVAL},
    {SPT_WRONG_HASH, EINVAL},
    {SPT_INVALID_ARGUMENT, EINVAL},
    {SPT_TOO_LONG, EFBIG},
    {SPT_IS_READ_ONLY, EPERM},
    {SPT_LOCKED, EAGAIN},
    {SPT_POISONED, EIO},
    {SPT_WOULD_DEADLOCK, EDEADLK},
    {SPT_OUT_OF_MEMORY, ENOMEM},
    {SPT_FORKED, EBADF},
    {SPT_STALE, EAGAIN},
    {SPT_BUSY, EAGAIN},
    {SPT_NOT_A_DICTIONARY, EINVAL},
    {SPT_INVALID_HANDLE, EBADF},
    {SPT_IN_USE, EBUSY},
};

static int number_of(spt_status status)
{
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].status == status)
            return ERRORS[i].number;
    return EIO;
}

/* Sets errno for a call with `handle` that failed; returns -1. The old interfaces have no place for the message. With
 * SPLITPOINT_ERRORS set, it goes to standard error. */
static int failed(spt_status status, const void *handle)
{
    int number = spt_error_errno(handle);
    if (number == 0 || status == SPT_LOCKED)
        number = number_of(status);
    if (secure_getenv("SPLITPOINT_ERRORS"))
        fprintf(stderr, "splitpoint: %s\n", spt_error_message(handle));
    errno = number;
    return -1;
}

static int refused(int number)
{
    errno = number;
    return -1;
}

/* --- memory that grows --- */

/* Room for `len` bytes and one more. What was there is lost. */
static int make_room(struct buffer *buffer, size_t len)
{
    if (len < buffer->capacity)
        return 0;
    if (len >= SIZE_MAX / 2)
        return refused(ENOMEM);
    size_t capacity = len + len / 2 + 64;
    char *bytes = malloc(capacity);
    if (!bytes)
        return -1;
    free(buffer->bytes);
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return 0;
}

/* The zero after the end is not counted: it protects programs that take a value for a string. */
static void set_len(struct buffer *buffer, size_t len)
{
    buffer->len = len;
    buffer->bytes[len] = 0;
}

static int copy_to(struct buffer *buffer, spt_bytes from)
{
    if (make_room(buffer, from.len))
        return -1;
    memcpy(buffer->bytes, from.data, from.len);
    set_len(buffer, from.len);
    return 0;
}

static struct span span_of(const struct buffer *buffer)
{
    return (struct span){buffer->bytes, buffer->len};
}

/* Bytes for a value, before the zero. */
static size_t room_of(const struct buffer *buffer)
{
    return buffer->capacity ? buffer->capacity - 1 : 0;
}

static bool lies_in(struct span span, const struct buffer *buffer)
{
    uintptr_t at = (uintptr_t)span.bytes, start = (uintptr_t)buffer->bytes;
    return at >= start && at < start + buffer->capacity;
}

/* --- opening --- */

static int64_t now_ms(void)
{
    struct timespec now;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The number of the last checkpoint in the file, which either header may have; 0 if there is none. */
static uint64_t sequence_of(int descriptor)
{
    uint64_t last = 0;
    for (off_t header = 0; header <= HEADER_BYTES; header += HEADER_BYTES) {
        unsigned char bytes[8];
        uint64_t sequence = 0;
        if (pread(descriptor, bytes, sizeof bytes, header + SEQUENCE_OFFSET) != sizeof bytes)
            continue;
        for (int i = 7; i >= 0; i--)
            sequence = sequence << 8 | bytes[i];
        if (sequence > last)
            last = sequence;
    }
    return last;
}

static const char *name_log(char name[PATH_MAX + 8], const char *path, int number)
{
    snprintf(name, PATH_MAX + 8, "%s-log%d", path, number);
    return name;
}

/* A log that someone has locked is of a table that was renamed while it was open for writing. */
static int refuse_if_locked(const char *log)
{
    /* For writing, since NFS locks no other files. */
    int descriptor = open(log, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0)
        return errno == ENOENT ? 0 : -1;
    int result = flock(descriptor, LOCK_EX | LOCK_NB);
    int number = errno;
    close(descriptor);
    errno = number;
    return result;
}

/* Empties the file, unless someone has the table in it open for writing, or another one that had its name. */
static int truncate_table(const char *path, int descriptor)
{
    struct stat found;
    if (fstat(descriptor, &found))
        return -1;
    if (found.st_size == 0 || !S_ISREG(found.st_mode))
        return 0;
    /* The lock that a writer of the table holds. */
    if (flock(descriptor, LOCK_EX | LOCK_NB))
        return -1;
    char beside[PATH_MAX + 8];
    int result = 0;
    for (int i = 0; i < LOG_FILES && result == 0; i++)
        result = refuse_if_locked(name_log(beside, path, i));
    if (result == 0)
        result = ftruncate(descriptor, 0);
    /* Files left by a crash belong to the table that is gone; its log would bring it back. */
    for (int i = 0; i < LOG_FILES && result == 0; i++)
        if (unlink(name_log(beside, path, i)) && errno != ENOENT)
            result = -1;
    int number = errno;
    flock(descriptor, LOCK_UN);
    errno = number;
    return result;
}

int open_above_standard(const char *path, int flags, mode_t mode)
{
    int descriptor = open(path, flags, mode);
    if (descriptor < 0 || descriptor > STDERR_FILENO)
        return descriptor;
    int above = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int number = errno;
    close(descriptor);
    errno = number;
    return above;
}

/* Opens the table in the file, or, for reading, remembers that the file is empty. */
static int open_table(struct store *store)
{
    struct stat found;
    if (store->read_only) {
        /* Taken before the open: a checkpoint in between causes one opening too many. */
        store->sequence = sequence_of(store->descriptor);
        store->looked_ms = now_ms();
        if (fstat(store->descriptor, &found))
            return -1;
        if (S_ISDIR(found.st_mode))
            return refused(EISDIR);
        if (S_ISREG(found.st_mode) && found.st_size == 0)
            return 0;
    }
    spt_status status = spt_open(store->path, &store->options, &store->table);
    return status == SPT_OK ? 0 : failed(status, NULL);
}

static bool is_file(const char *path, const struct stat *file)
{
    struct stat found;
    return lstat(path, &found) == 0 && found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

static int open_file(struct store *store, const char *path, int flags, mode_t mode)
{
    int access = store->read_only ? O_RDONLY : O_RDWR;
    /* Not to wait for the other end of a pipe, which is no table anyway. */
    int own = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat found;
    bool made = (flags & O_CREAT) && stat(path, &found) != 0;
    store->descriptor = open_above_standard(path, access | own | (flags & (O_CREAT | O_EXCL | O_NOFOLLOW)), mode);
    if (store->descriptor < 0)
        return -1;
    /* A program may change its directory, and open the table again then. */
    store->path = realpath(path, NULL);
    if (!store->path)
        return -1;
    if (!store->read_only && (flags & O_TRUNC) && truncate_table(store->path, store->descriptor))
        return -1;
    int result = open_table(store);
    /* A file that is locked is being made a table by another process, and another file may have the name by now. */
    if (result && made && errno != EAGAIN && fstat(store->descriptor, &found) == 0 && found.st_size == 0 &&
        is_file(store->path, &found)) {
        int number = errno;
        unlink(store->path);
        errno = number;
    }
    return result;
}

/* The durability that the environment asks for; 0 for the default; -1 for an unknown word. */
static int durability(void)
{
    static const char *const WORDS[] = {"none", "os", "sync"};
    static const uint32_t VALUES[] = {SPT_DURABILITY_NONE, SPT_DURABILITY_OS, SPT_DURABILITY_SYNC};
    const char *word = secure_getenv("SPLITPOINT_DURABILITY");
    if (!word || !*word)
        return 0;
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, WORDS[i]))
            return (int)VALUES[i];
    return refused(EINVAL);
}

static void free_store(struct store *store)
{
    int number = errno;
    if (store->descriptor >= 0)
        close(store->descriptor);
    free(store->path);
    free(store->value.bytes);
    free(store->key.bytes);
    free(store);
    errno = number;
}

struct store *store_open(const char *path, int flags, mode_t mode, const spt_options *shape)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->descriptor = -1;
    store->process = getpid();
    store->options = *shape;
    store->read_only = path && (flags & O_ACCMODE) == O_RDONLY;
    if (store->read_only)
        store->options.flags |= SPT_READ_ONLY;
    int asked = durability(), result = asked < 0 ? -1 : 0;
    if (asked > 0)
        store->options.durability = (uint32_t)asked;
    if (result == 0 && path) {
        result = open_file(store, path, flags, mode);
    } else if (result == 0) {
        spt_status status = spt_open_in_memory(&store->options, &store->table);
        result = status == SPT_OK ? 0 : failed(status, NULL);
    }
    if (result) {
        free_store(store);
        return NULL;
    }
    enlist(store);
    return store;
}

/* --- checkpoints --- */

/* Gives a writer's file its old name once more, beside the new one that the program has given it: a table writes no
 * checkpoint to a file that may be another's by now. */
static bool restore_name(const struct store *store)
{
    char link_name[64], name[PATH_MAX];
    struct stat file;
    if (store->read_only || !store->path || store->process != getpid() || fstat(store->descriptor, &file) ||
        file.st_nlink != 1 || is_file(store->path, &file))
        return false;
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", store->descriptor);
    ssize_t len = readlink(link_name, name, sizeof name - 1);
    if (len <= 0)
        return false;
    name[len] = 0;
    return is_file(name, &file) && link(name, store->path) == 0;
}

/* spt_checkpoint or spt_close, also for a file that was renamed while it was open, as man-db does. */
static spt_status write_out(const struct store *store, spt_table *table, spt_status (*call)(spt_table *table))
{
    bool restored = table && restore_name(store);
    spt_status status = call(table);
    if (restored)
        unlink(store->path);
    return status;
}

static void drop_cursor(struct store *store);

static int close_table(struct store *store)
{
    drop_cursor(store);
    spt_table *table = store->table;
    store->table = NULL;
    spt_status status = write_out(store, table, spt_close);
    /* A child of the process that opened it has nothing to write. */
    return status == SPT_OK || status == SPT_FORKED ? 0 : failed(status, table);
}

int store_close(struct store *store)
{
    delist(store);
    int result = close_table(store);
    free_store(store);
    return result;
}

/* --- the table under a walk is replaced by another --- */

/* Notes where the walk is, before its cursor is closed. False between two pairs with equal hashes: a position is before
 * or after both. */
static bool note_position(struct store *store)
{
    int at_boundary = 1;
    if (store->cursor)
        store->ended = spt_cursor_position(store->cursor, &store->position, &at_boundary) == SPT_END;
    return at_boundary;
}

static void drop_cursor(struct store *store)
{
    spt_cursor_close(store->cursor);
    store->cursor = NULL;
}

/* Opens a reader's table again. The old one stays if that fails. */
static int reopen(struct store *store)
{
    spt_table *old = store->table;
    int descriptor = open_above_standard(store->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    /* The caller may know the descriptor by its number. */
    int result = dup3(descriptor, store->descriptor, O_CLOEXEC) < 0 ? -1 : 0;
    close(descriptor);
    uint64_t sequence = store->sequence;
    store->table = NULL;
    if (result || open_table(store)) {
        store->table = old;
        /* So that the next call tries again. */
        store->sequence = sequence;
        return -1;
    }
    /* The walk continues where it is: its position means the same in every checkpoint. */
    drop_cursor(store);
    spt_close(old);
    return 0;
}

/* --- readers --- */

/* Called before a reader's call: looks for a newer checkpoint, but not each time. */
static void look(struct store *store)
{
    struct stat found;
    if (!store->table) {
        if (fstat(store->descriptor, &found) == 0 && found.st_size > 0)
            reopen(store);
        return;
    }
    int64_t now = now_ms();
    if (now - store->looked_ms < LOOK_MS)
        return;
    store->looked_ms = now;
    if (sequence_of(store->descriptor) != store->sequence && note_position(store))
        /* Where that fails, the old one is as good as it was; `again` repeats what does not work any more. */
        reopen(store);
}

/* Whether a call that ended with `status` is to be repeated, with the table opened again: a writer has replaced what
 * this reader reads, or the process has forked. A child of a writer reads from then on. */
static bool again(struct store *store, spt_status status, int *openings)
{
    if (status == SPT_FORKED && !store->read_only && store->path) {
        store->read_only = store->forked = true;
        store->options.flags |= SPT_READ_ONLY;
    }
    if (!store->read_only || (status != SPT_STALE && status != SPT_FORKED) || ++*openings > REOPENINGS_MAX)
        return false;
    if (*openings > 1) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    return reopen(store) == 0;
}

/* --- writers --- */

/* Makes a checkpoint, which readers see, if a writer's changes have waited for long. */
static void publish(struct store *store)
{
    if (store->unpublished_ms && now_ms() - store->unpublished_ms >= PUBLISH_MS) {
        store->unpublished_ms = 0;
        /* After an error the next change fails, and says why. */
        write_out(store, store->table, spt_checkpoint);
    }
}

static void count_change(struct store *store)
{
    store->changed = true;
    if (store->descriptor >= 0) {
        if (!store->unpublished_ms)
            store->unpublished_ms = now_ms();
        publish(store);
    }
}

/* --- calls --- */

static inline void prepare(struct store *store)
{
    if (store->read_only)
        look(store);
    else
        publish(store);
}

int store_get(struct store *store, struct span key, struct span *value)
{
    spt_status status;
    size_t len = 0;
    int openings = 0;
    prepare(store);
    if (!store->table)
        return store->read_only ? 1 : refused(EBADF);
    struct buffer *room = &store->value, with_key = {NULL, 0, 0};
    if (lies_in(key, room)) {
        /* The value that was returned last is the next key. */
        with_key = *room;
        *room = (struct buffer){NULL, 0, 0};
    }
    do {
        do
            status = spt_get(store->table, key.bytes, key.len, room->bytes, room_of(room), &len);
        while (status == SPT_TOO_SMALL && make_room(room, len) == 0);
    } while (again(store, status, &openings));
    free(with_key.bytes);
    if (status == SPT_TOO_SMALL)
        return refused(ENOMEM);
    if (status == SPT_NOT_FOUND)
        return 1;
    if (status != SPT_OK)
        return failed(status, store->table);
    if (!room->bytes && make_room(room, len))
        return -1;
    set_len(room, len);
    *value = span_of(room);
    return 0;
}

/* Opens a table that was opened for reading for writing too. */
static int open_to_write(struct store *store)
{
    spt_options options = store->options;
    options.flags &= ~SPT_READ_ONLY;
    spt_table *table;
    spt_status status = spt_open(store->path, &options, &table);
    if (status != SPT_OK)
        return failed(status, NULL);
    note_position(store);
    drop_cursor(store);
    spt_close(store->table);
    store->table = table;
    store->options = options;
    store->read_only = false;
    return 0;
}

/* The table, for a call that changes it; NULL with errno set. */
static spt_table *to_change(struct store *store)
{
    if (store->read_only && store->write_later) {
        if (open_to_write(store))
            return NULL;
    } else if (store->read_only) {
        errno = store->forked ? EBADF : EPERM;
        return NULL;
    }
    if (!store->table)
        errno = EBADF; /* the program is ending */
    return store->table;
}

int store_put(struct store *store, struct span key, struct span value, bool replace)
{
    spt_table *table = to_change(store);
    if (!table)
        return -1;
    spt_status status = replace ? spt_put(table, key.bytes, key.len, value.bytes, value.len)
                                : spt_insert_new(table, key.bytes, key.len, value.bytes, value.len);
    if (status == SPT_EXISTS)
        return 1;
    if (status != SPT_OK)
        return failed(status, table);
    count_change(store);
    return 0;
}

int store_remove(struct store *store, struct span key)
{
    spt_table *table = to_change(store);
    if (!table)
        return -1;
    spt_status status = spt_remove(table, key.bytes, key.len);
    if (status == SPT_NOT_FOUND)
        return 1;
    if (status != SPT_OK)
        return failed(status, table);
    count_change(store);
    return 0;
}

/* Moves the cursor to the next pair, and opens a cursor if none is open. */
static spt_status step(struct store *store, spt_bytes *key, spt_bytes *value)
{
    spt_status status = SPT_OK;
    if (store->ended)
        return SPT_END;
    if (!store->cursor) {
        status = spt_scan(store->table, store->position, &store->cursor);
        store->changed = false;
    }
    if (status == SPT_OK)
        status = spt_cursor_next(store->cursor, key, value);
    store->ended = status == SPT_END;
    if (status == SPT_OK)
        /* Any call may open the table again, and lose the cursor: the walk continues behind this pair. */
        store->ended = spt_cursor_position(store->cursor, &store->position, NULL) == SPT_END;
    return status;
}

/* 0 if the key is there, 1 if it is not, or -1. What `store_get` returned last stays. */
static int store_has(struct store *store, struct span key)
{
    spt_status status;
    int openings = 0;
    prepare(store);
    if (!store->table)
        return store->read_only ? 1 : refused(EBADF);
    do
        status = spt_contains(store->table, key.bytes, key.len);
    while (again(store, status, &openings));
    if (status == SPT_NOT_FOUND)
        return 1;
    return status == SPT_OK ? 0 : failed(status, store->table);
}

int store_next(struct store *store, struct span *key, struct span *value)
{
    spt_bytes found_key, found_value;
    spt_status status;
    int openings = 0;
    prepare(store);
    if (!store->table)
        return store->read_only ? 1 : refused(EBADF);
    for (;;) {
        do
            status = step(store, &found_key, &found_value);
        while (again(store, status, &openings));
        if (status == SPT_END)
            return 1;
        if (status != SPT_OK)
            return failed(status, store->cursor);
        if (copy_to(&store->key, found_key) || (value && copy_to(&store->value, found_value)))
            return -1;
        store->walking = true;
        *key = span_of(&store->key);
        if (!store->changed) {
            if (value)
                *value = span_of(&store->value);
            return 0;
        }
        /* The cursor has read ahead what may be removed or replaced by now. */
        int absent = value ? store_get(store, *key, value) : store_has(store, *key);
        if (absent <= 0)
            return absent;
    }
}

static void rewind_walk(struct store *store, uint64_t position)
{
    drop_cursor(store);
    store->walking = store->ended = false;
    store->position = position;
}

int store_first(struct store *store, struct span *key, struct span *value)
{
    rewind_walk(store, 0);
    return store_next(store, key, value);
}

static bool same(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || !memcmp(a.bytes, b.bytes, a.len));
}

/* Puts the walk where `after` is or was in hash order, behind it. 0, or -1. */
static int go_to(struct store *store, struct span after)
{
    struct span at;
    uint64_t position;
    int openings = 0, present, result = 0;
    spt_status status;
    prepare(store);
    if (!store->table)
        return store->read_only ? 0 : refused(EBADF);
    do {
        status = spt_position(store->table, after.bytes, after.len, &position);
        if (status == SPT_OK)
            status = spt_contains(store->table, after.bytes, after.len);
    } while (again(store, status, &openings));
    if (status != SPT_OK && status != SPT_NOT_FOUND)
        return failed(status, store->table);
    present = status == SPT_OK;
    rewind_walk(store, position);
    /* Keys with the same hash may come before it. */
    while (present && result == 0) {
        uint64_t here;
        result = store_next(store, &at, NULL);
        present = result == 0 && !same(at, after);
        if (!present || spt_position(store->table, at.bytes, at.len, &here) != SPT_OK)
            continue;
        if (here > position) {
            /* It was removed in the meantime. */
            rewind_walk(store, here);
            present = false;
        }
    }
    return result < 0 ? -1 : 0;
}

int store_after(struct store *store, struct span after, struct span *key, struct span *value)
{
    struct span at;
    if ((store_current(store, &at) || !same(at, after)) && go_to(store, after))
        return -1;
    return store_next(store, key, value);
}

int store_current(const struct store *store, struct span *key)
{
    if (!store->walking)
        return 1;
    *key = span_of(&store->key);
    return 0;
}

int store_sync(struct store *store)
{
    if (!store->table)
        return store->read_only ? 0 : refused(EBADF);
    store->unpublished_ms = 0;
    spt_status status = write_out(store, store->table, spt_checkpoint);
    return status == SPT_OK ? 0 : failed(status, store->table);
}

int store_ask(struct store *store, spt_status (*question)(spt_table *table, void *context), void *context)
{
    spt_status status;
    int openings = 0;
    prepare(store);
    if (!store->table)
        return store->read_only ? 1 : refused(EBADF);
    do
        status = question(store->table, context);
    while (again(store, status, &openings));
    return status == SPT_OK ? 0 : failed(status, store->table);
}

int store_descriptor(const struct store *store)
{
    return store->descriptor >= 0 ? store->descriptor : refused(ENOENT);
}

bool store_read_only(const struct store *store) { return store->read_only; }

void store_write_later(struct store *store) { store->write_later = true; }

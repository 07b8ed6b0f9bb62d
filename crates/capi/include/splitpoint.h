/** splitpoint - key/value tables by linear hashing, in memory and in one crash-safe file
 *
 * A table maps keys to values. Both are any bytes, from 0 to 4 GiB - 1 each. A table is in memory, or in one file that
 * survives the end of the process and, with SPT_DURABILITY_SYNC, a power loss.
 *
 * Example:
 *     #include <splitpoint.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         spt_table *table = NULL;
 *         char value[64];
 *         size_t len = 0;
 *         spt_status status = spt_open("users.spt", NULL, &table);
 *
 *         if (status == SPT_OK)
 *             status = spt_put(table, "alice", 5, "admin", 5);
 *         if (status == SPT_OK)
 *             status = spt_get(table, "alice", 5, value, sizeof value, &len);
 *         if (status == SPT_OK)
 *             printf("alice = %.*s\n", (int)len, value);
 *         else
 *             fprintf(stderr, "%s\n", spt_error_message(NULL));
 *         return spt_close(table) == SPT_OK && status == SPT_OK ? 0 : 1;
 *     }
 *
 * Compile it with
 *
 *     cc users.c $(pkg-config --cflags --libs splitpoint)
 *
 * Results: Functions that can fail return an spt_status. SPT_OK is 0. Codes from 1 to 199 are failures with the same
 * numbers in every front end of splitpoint. Codes from 200 on exist only in C: 200 to 219 are answers (the key is
 * absent, the buffer is too small), 220 and above are wrong uses. spt_error_message describes the last failure of the
 * calling thread: what happened, where, and what to do. Answers leave no message.
 *
 * Besides the codes that it lists, every function may return SPT_INVALID_HANDLE, SPT_INVALID_ARGUMENT for a NULL
 * pointer that is not allowed or an impossible length, SPT_FORKED, SPT_POISONED, SPT_OUT_OF_MEMORY and SPT_INTERNAL.
 * Results that are not available are set to 0 or NULL.
 *
 * Lengths: A pointer to bytes comes with their number, and may be NULL if that is 0. Strings (char *) are paths, names
 * and messages, and end with a zero byte. All lengths are in bytes.
 *
 * Handles: spt_table, spt_cursor and the like are handles: never dereference them. A NULL handle, a closed one, one of
 * another kind, and any other number safely give SPT_INVALID_HANDLE. So does closing a handle twice; closing NULL does
 * nothing and returns SPT_OK. Closing a table that still has cursors, batches or views, or closing it from inside a
 * callback, gives SPT_IN_USE, and the table stays open.
 *
 * Ownership: Bytes that you pass are copied, or read before the call returns. Bytes that you get belong to you, until
 * spt_free, if the result is a void pointer; otherwise to the handle, for as long as the function says.
 *
 * Threads: Any number of threads may use one table or one dictionary at the same time. Any other handle may be used by
 * one thread at a time: a concurrent second call gives SPT_IN_USE. Handles may be passed between threads, but a view
 * must be released by the thread that made it. Only one rule is not checked: close a table or dictionary only when no
 * other thread is using it.
 *
 * Callbacks: A function that you pass may call the library, unless its own description says otherwise. It must return:
 * leaving it by longjmp, a C++ exception or pthread_exit is forbidden. So is cancelling a thread (pthread_cancel)
 * inside the library.
 *
 * Processes: One process at a time may have a file open for writing, by one handle; others may read it, with every write
 * that returned before their open. After fork, tables in files belong to the parent: in the child, calls with them return SPT_FORKED. The
 * child may close them, which does not touch the files, and open them again once the parent has closed them. Tables
 * wholly in memory are copied like all memory; use one in the child only if no other thread was using it at the fork.
 *
 * Signals: No function may be called in a signal handler. Set a flag there, and close the table in the main program.
 * Opening a table for writing installs a handler for SIGBUS, which passes on signals that do not concern its mappings.
 *
 * Versions: A program compiled with this header runs with every later library of the same soname
 * (libsplitpoint.so.0): functions and codes are only added. Structs that are passed grow at their end; their size field
 * says how much of them the program knows.
 *
 * See: spt_open, spt_options, spt_get, spt_put, spt_batch_begin, spt_scan, spt_backup, spt_check, spt_dict_open,
 * spt_build_start, spt_error_message
 */
#ifndef SPLITPOINT_H
#define SPLITPOINT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** spt_version, spt_version_string - the version of the library
 *
 * SPT_VERSION is the version of this header, and spt_version returns that of the library that the program runs with:
 * major << 16 | minor << 8 | patch. spt_version_string returns the same as text, such as "0.1.0"; never free it.
 */
#define SPT_VERSION 0x000100
uint32_t spt_version(void);
const char *spt_version_string(void);

/** spt_status, spt_strerror - the meaning of a function's result
 *
 * spt_strerror returns the text of a code, in one line; never free it. For an unknown number the text says so.
 *
 * Numbers are never changed or reused; later versions add some.
 */
typedef int spt_status;
enum {
    SPT_OK = 0,                 /* success */
    SPT_IO = 1,                 /* an operating system error: see spt_error_errno */
    SPT_DISK_FULL = 2,          /* no space on the disk, or the file reached its size limit (ulimit -f) */
    SPT_CORRUPT = 3,            /* a file contradicts itself: restore a backup, or see spt_salvage */
    SPT_NOT_A_TABLE = 4,        /* not a table */
    SPT_OTHER_VERSION = 5,      /* a file of splitpoint, in a version that this library does not read */
    SPT_WRONG_HASH = 6,         /* the table was created with another hash function */
    SPT_INVALID_ARGUMENT = 7,   /* an option or argument outside its range */
    SPT_TOO_LONG = 8,           /* a key or value of 4 GiB or more */
    SPT_IS_READ_ONLY = 9,       /* a write to a table opened for reading */
    SPT_LOCKED = 10,            /* another process, or another handle, has the file open for writing */
    SPT_POISONED = 11,          /* an earlier failure made the handle unusable: close it and open the table again */
    SPT_WOULD_DEADLOCK = 12,    /* this thread holds a view that blocks its own write */
    SPT_OUT_OF_MEMORY = 13,     /* memory or address space could not be allocated */
    SPT_FORKED = 14,            /* the handle was opened in a parent process */
    SPT_STALE = 15,             /* another process wrote a checkpoint since the open for reading: open again */
    SPT_DUPLICATE = 16,         /* a duplicate key where keys must be unique */
    SPT_STOPPED = 17,           /* cancelled by the caller's own function */
    SPT_BUSY = 18,              /* the log is full and a backup keeps it from being emptied: try again */
    SPT_NOT_A_DICTIONARY = 19,  /* not a dictionary, or a name at which something else exists */
    SPT_BUILD_FAILED = 20,      /* an earlier step of the build failed: start it again */
    SPT_WRONG_TYPES = 21,       /* the table or dictionary records other types: see spt_types */

    SPT_NOT_FOUND = 200,        /* the key is absent */
    SPT_EXISTS = 201,           /* the key is present already; nothing has changed */
    SPT_DIFFERS = 202,          /* the value is not the expected one; nothing has changed */
    SPT_END = 203,              /* no more pairs */
    SPT_TOO_SMALL = 204,        /* the buffer is too small; the length says how much is needed */

    SPT_INVALID_HANDLE = 220,   /* NULL, closed, or not a handle of this kind */
    SPT_IN_USE = 221,           /* something that belongs to the handle is still open or running */
    SPT_WRONG_THREAD = 222,     /* a view belongs to the thread that made it */
    SPT_INTERNAL = 223          /* a bug in splitpoint: please report the message */
};
const char *spt_strerror(spt_status status);

/** spt_error_message, spt_error_errno - the last failure of this thread
 *
 * spt_error_message returns what happened, where, and what to do about it, for the last call of this thread with
 * `handle` that failed. `handle` may be any handle, even a closed one. For NULL it is the last failure of any call,
 * including calls without a handle such as spt_open. If there was no failure, it returns "". Successes and answers
 * (codes from 200 to 219) leave the message unchanged.
 *
 * The text is for people and may change. A text is valid until 64 later failures of the thread, or until the thread
 * ends.
 *
 * spt_error_errno returns the errno of the operating system's error behind that failure, or 0 if there was none.
 */
const char *spt_error_message(const void *handle);
int spt_error_errno(const void *handle);

/** spt_free - free memory that a function has allocated for its result
 *
 * For NULL it does nothing. It calls free() of the C library that splitpoint uses, which may not be the one you use.
 */
void spt_free(void *memory);

/** spt_bytes - bytes and their length
 *
 * In results, `data` is NULL only if there is no value; an empty value has a pointer and the length 0.
 */
typedef struct spt_bytes {
    const void *data;
    size_t len;
} spt_bytes;

/** spt_table, spt_cursor, spt_batch, spt_dictionary, spt_build, spt_dict_update, spt_diff - handles
 *
 * A handle is not the address of memory but a number that the library issues and checks. Two handles that are open at
 * the same time differ, and the number of a closed handle is not used again.
 *
 * See: splitpoint
 */
typedef struct spt_table spt_table;           /* a table: spt_open */
typedef struct spt_cursor spt_cursor;         /* a walk over pairs: spt_scan, spt_dict_scan */
typedef struct spt_batch spt_batch;           /* changes made atomically: spt_batch_begin */
typedef struct spt_dictionary spt_dictionary; /* a dictionary, open for reading: spt_dict_open */
typedef struct spt_build spt_build;           /* a dictionary being built: spt_build_start */
typedef struct spt_dict_update spt_dict_update; /* changes to a dictionary: spt_dict_update_start */
typedef struct spt_diff spt_diff;             /* what changed between two dictionaries: spt_dict_diff */

/** spt_progress_fn - the progress of a long operation
 *
 * Called from time to time with the amount `done` of `all`. Return 0 to continue; anything else cancels the operation,
 * which then returns SPT_STOPPED. `context` is the pointer that was passed with the function.
 */
typedef int (*spt_progress_fn)(void *context, uint64_t done, uint64_t all);

/** spt_hash_fn - a hash function of your own
 *
 * Returns the hash of `key`, which must be the same for the same bytes in every program that opens the table. The file
 * records the hash of a fixed key; opening with a function that gives another hash is an error. The low bits choose the
 * bucket, so they should differ between similar keys.
 *
 * Threads: It may be called by any thread, and by several at a time. It must not call the library with the same table.
 * `context` is the pointer from the options; it must be valid until the table is closed.
 */
typedef uint64_t (*spt_hash_fn)(void *context, const void *key, size_t key_len);

/** spt_options - how a table is opened
 *
 * Every field may be 0, which is the default. So a struct of zeros with its size set changes nothing:
 *
 *     spt_options options = SPT_OPTIONS_INIT;
 *     options.durability = SPT_DURABILITY_SYNC;
 *
 * or, in C, `&(spt_options){ .size = sizeof(spt_options), .page_bytes = 4096 }`.
 *
 * The options that shape the table (`page_bytes`, `fill_factor`, `fill_percent`, `expected_len`, `hash`, `seed`) apply
 * when it is created. An existing table keeps its own, but opening it with another hash function or seed is
 * SPT_WRONG_HASH.
 *
 * This is a struct that begins with its size, as in Linux's clone3(2), not an object with a function for each option:
 * it needs no allocation, so nothing can fail or leak before the open, it can be static, and a debugger shows it. New
 * fields are added at the end. An older library accepts a newer struct if the fields that it does not know are 0.
 *
 * Fields:
 *   size           sizeof(spt_options)
 *   flags          SPT_READ_ONLY and the other flags below, joined by |
 *   durability     one of SPT_DURABILITY_...
 *   page_bytes     bytes of a bucket's primary page, a power of two from 512 to 65536; 1024 by default
 *   fill_factor    the table grows above this average number of pairs per bucket; by default fill_percent decides
 *   fill_percent   the table grows above this fill: bytes of pairs in percent of the primary pages, 10 to 400; 92 by
 *                  default
 *   mode           permissions of a new file, such as 0600, less the umask; 0 for 0666. The log next to it has the
 *                  owner and the permissions of the file
 *   expected_len   expected number of pairs: buckets for them are created in advance, which saves splits
 *   cache_bytes    bytes of pages kept in memory. The default for a file is half of the machine's memory, or a quarter
 *                  of what the container or `ulimit -v` allows if that is less; a table in memory has no limit, and
 *                  with one moves the rest to an unlinked temporary file
 *   log_bytes      bytes of the write-ahead log, by default the length of the file, at least 256 MiB; a longer log means
 *                  fewer checkpoints, and a longer replay after a crash
 *   hash           the name of a hash function: see spt_hash; XXH3 by default. With user_hash, its name in messages
 *   seed           pointer to the seed of the hash function; NULL for a random one
 *   user_hash      your own hash function, instead of one of ours
 *   user_context   passed to it
 *
 * Flags:
 *   SPT_READ_ONLY         open for reading: no file is changed or created. The handle has every write that returned before,
 *                         with SPT_DURABILITY_OS or _SYNC, also if another process has the table open for writing
 *   SPT_CHECKPOINT_ONLY   with SPT_READ_ONLY: the last checkpoint alone, without the writes since
 *   SPT_NO_CREATE         the file must exist
 *   SPT_CREATE_NEW        the file must not exist
 *   SPT_PUBLISH_COUNTERS  write the counters to a file `<path>-stats` a few times a second, for other processes
 *
 * Durability:
 *   SPT_DURABILITY_NONE   writes reach the file with the next checkpoint, spt_sync or close: for bulk loads
 *   SPT_DURABILITY_OS     a write that has returned survives the end of the process, even a kill: the default
 *   SPT_DURABILITY_SYNC   a write that has returned survives a power loss. Answers of writes hold after one, too:
 *                         SPT_EXISTS, SPT_NOT_FOUND of spt_remove, and SPT_DIFFERS wait until the writes that they
 *                         depend on are durable. Lookups and scans do not wait, and may see another thread's write
 *                         before it has returned
 */
typedef struct spt_options {
    size_t size;
    uint32_t flags;
    uint32_t durability;
    uint32_t page_bytes;
    uint32_t fill_factor;
    uint32_t fill_percent;
    uint32_t mode;
    uint64_t expected_len;
    uint64_t cache_bytes;
    uint64_t log_bytes;
    const char *hash;
    const uint64_t *seed;
    spt_hash_fn user_hash;
    void *user_context;
} spt_options;

#define SPT_OPTIONS_INIT { sizeof(spt_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL }

#define SPT_READ_ONLY 1u
#define SPT_NO_CREATE 2u
#define SPT_CREATE_NEW 4u
#define SPT_PUBLISH_COUNTERS 8u
#define SPT_CHECKPOINT_ONLY 16u

#define SPT_DURABILITY_NONE 1u
#define SPT_DURABILITY_OS 2u
#define SPT_DURABILITY_SYNC 3u

/** spt_open, spt_open_in_memory - open a table
 *
 * spt_open opens the table in the file at `path`, and creates it if it is absent. After a crash it replays the log.
 * While the table is open for writing there are other files in its directory, with names that begin with its own: do
 * not rename or remove any of them. Symbolic links are followed.
 *
 * spt_open_in_memory makes an empty table that is gone when it is closed.
 *
 * `options` may be NULL. `*table` is the handle, which you close with spt_close, or NULL after a failure, which
 * spt_error_message(NULL) describes.
 *
 * Errors:
 *   SPT_IO                a failed system call: see spt_error_errno
 *   SPT_DISK_FULL         a new table does not fit
 *   SPT_LOCKED            another process, or another handle, has it open for writing
 *   SPT_NOT_A_TABLE       not a table
 *   SPT_OTHER_VERSION     upgrade splitpoint
 *   SPT_CORRUPT           restore a backup, or see spt_salvage
 *   SPT_WRONG_HASH        the options ask for another hash function or seed, or the table was made with a user_hash
 *   SPT_INVALID_ARGUMENT  options out of range; or the file has several hard links, or is itself a mount point: its log
 *                         would not be found under its other name
 *   SPT_OUT_OF_MEMORY     no memory, no address space, or a million open handles
 */
spt_status spt_open(const char *path, const spt_options *options, spt_table **table);
spt_status spt_open_in_memory(const spt_options *options, spt_table **table);

/** spt_newer - move a reader to the last write
 *
 * A table opened with SPT_READ_ONLY stays as it was opened. If anything was written since, `*newer` is a handle that has
 * it, which you close with spt_close, as you close `table`; otherwise it is NULL. It is also NULL if `table` may write.
 * Costs some dozen system calls if nothing has changed, else an open.
 *
 * Example:
 *     spt_table *newer = NULL;
 *     if (spt_newer(table, &newer) == SPT_OK && newer != NULL) {
 *         spt_close(table);
 *         table = newer;
 *     }
 *
 * Errors:
 *   the errors of spt_open; `table` stays as it is
 */
spt_status spt_newer(spt_table *table, spt_table **newer);

/** spt_types, spt_record_types - the types of a typed table
 *
 * A table records how Rust's `typed` or Python's `key` and `value` store its pairs, as "u64 -> str". For the functions
 * here all keys and values are bytes; backups, spt_freeze and spt_thaw keep the types.
 *
 * spt_types copies them to `buffer`, with a zero byte after them, and their length to `*len`. That is 0 for a table of
 * bytes, and at most 64.
 *
 * spt_record_types records types, by a checkpoint, in a table that has none: those of a table whose pairs you copy.
 *
 * Returns:
 *   SPT_TOO_SMALL  the buffer is too small: `*len + 1` bytes are needed
 *
 * Errors:
 *   SPT_WRONG_TYPES       the table has other types
 *   SPT_INVALID_ARGUMENT  more than 64 bytes, or not UTF-8
 *   SPT_IO SPT_DISK_FULL  the checkpoint failed, and the types are not recorded
 */
spt_status spt_types(spt_table *table, char *buffer, size_t capacity, size_t *len);
spt_status spt_record_types(spt_table *table, const char *types);

/** spt_close - close a table
 *
 * Makes all writes durable and closes the handle. The result reports any write error; the handle is closed in any case
 * except SPT_IN_USE. NULL is not an error.
 *
 * Errors:
 *   SPT_IN_USE            cursors, batches or views are open, or it is called from a callback: the table stays open
 *   SPT_IO SPT_DISK_FULL  the next open replays the writes in the log; with SPT_DURABILITY_NONE the writes since the
 *                         last spt_sync are lost: call spt_sync first, because unlike spt_close it can be repeated
 *   SPT_POISONED          an earlier failure: the next open finds the writes that were durable at that point
 *   SPT_FORKED            in a child of the process that opened it: closed here, and unaffected in the parent
 */
spt_status spt_close(spt_table *table);

/** spt_get, spt_get_alloc, spt_contains - look up a key
 *
 * spt_get copies the value to `buffer`, which has `capacity` bytes, and its length to `*value_len`. If the value is
 * longer, the result is SPT_TOO_SMALL and `*value_len` is the length needed, so a call with NULL and 0 asks for the
 * length. Another thread may replace the value before the next try. Unless the result is SPT_OK, the contents of the
 * buffer are unspecified.
 *
 * spt_get_alloc allocates a copy, which you free with spt_free. It is followed by a zero byte that is not counted.
 *
 * spt_contains only says whether the key is present.
 *
 * A lookup reads one page, and one or two more for pairs in overflow pages and for values larger than a page. It never
 * waits for a sync: it may return another thread's write that is not durable yet.
 *
 * Returns:
 *   SPT_OK         the key is present
 *   SPT_NOT_FOUND  it is absent; the length is 0
 *   SPT_TOO_SMALL  the buffer is too small
 *   SPT_IO SPT_CORRUPT SPT_STALE  reading the page from the file failed
 */
spt_status spt_get(spt_table *table, const void *key, size_t key_len, void *buffer, size_t capacity,
                   size_t *value_len);
spt_status spt_get_alloc(spt_table *table, const void *key, size_t key_len, void **value, size_t *value_len);
spt_status spt_contains(spt_table *table, const void *key, size_t key_len);

/** spt_get_view, spt_view_release - look at a value without a copy
 *
 * spt_get_view sets `view->data` and `view->len` to the value in its page; a value larger than a page is copied. The
 * bytes are valid until spt_view_release.
 *
 * While a view is open, writers of its page wait: release it soon. A write of the thread that holds it returns
 * SPT_WOULD_DEADLOCK if it would have to wait for itself.
 *
 * spt_view_release ends the view and sets it to zeros. NULL and a view of zeros are not errors. The struct may be
 * copied, but only one of the copies can be released. A thread may hold 65,536 views, and releases them when it ends.
 *
 * Threads: Release a view in the thread that made it.
 *
 * Returns:
 *   SPT_OK              the key is present; or the view is released
 *   SPT_NOT_FOUND       the key is absent
 *   SPT_WRONG_THREAD    the view is another thread's, and stays open
 *   SPT_INVALID_HANDLE  the table is not open; or the view has been released
 *   SPT_IO SPT_CORRUPT SPT_STALE  reading the page from the file failed
 */
typedef struct spt_view {
    const void *data;
    size_t len;
    uint64_t token; /* the library's */
} spt_view;

spt_status spt_get_view(spt_table *table, const void *key, size_t key_len, spt_view *view);
spt_status spt_view_release(spt_view *view);

/** spt_get_many - look up many keys
 *
 * Sets `values[i]` to the value of `keys[i]`, for `count` keys; `data` is NULL for a key that is absent. All values are
 * in one allocation, `*memory`, which you free with spt_free. A zero byte follows each.
 *
 * Faster than a call for each key: the cache misses of many keys overlap. Each key is looked up by itself, so with
 * concurrent writers the values may be from different moments.
 *
 * Errors:
 *   SPT_TOO_LONG SPT_IO SPT_CORRUPT SPT_STALE  the first that occurs; `*memory` is NULL
 */
spt_status spt_get_many(spt_table *table, const spt_bytes *keys, size_t count, spt_bytes *values, void **memory);

/** spt_put, spt_insert_new, spt_append, spt_remove - change a pair
 *
 * spt_put stores the value, replacing an earlier one. spt_insert_new stores it only if the key is absent. spt_append
 * appends `tail` to the value, which is empty if the key is absent; `*value_len`, unless it is NULL, is the new length.
 * spt_remove removes the pair.
 *
 * When a call has returned, the change is as durable as the options ask. A call takes constant time, apart from the
 * bytes that it copies: a long value is moved when appends outgrow its space, which then grows by a quarter.
 *
 * Returns:
 *   SPT_OK                done
 *   SPT_EXISTS            spt_insert_new: the key is present, and keeps its value
 *   SPT_NOT_FOUND         spt_remove: the key is absent
 *   SPT_TOO_LONG          the key, or the value including the appended bytes, is longer than 4 GiB - 1
 *   SPT_IS_READ_ONLY      the table is open for reading
 *   SPT_DISK_FULL         nothing has changed
 *   SPT_BUSY              nothing has changed: the log is full while a backup runs
 *   SPT_WOULD_DEADLOCK    nothing has changed: this thread holds a view of the same page
 *   SPT_IO SPT_CORRUPT    reading a page from the file failed
 */
spt_status spt_put(spt_table *table, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_insert_new(spt_table *table, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_append(spt_table *table, const void *key, size_t key_len, const void *tail, size_t tail_len,
                      size_t *value_len);
spt_status spt_remove(spt_table *table, const void *key, size_t key_len);

/** spt_replace - store a value and get the earlier one
 *
 * Like spt_put, and `*old` is the earlier value, which you free with spt_free, or NULL if the key was absent. A zero
 * byte follows it.
 *
 * Errors:
 *   the errors of spt_put; SPT_OUT_OF_MEMORY if the new value is stored, but there is no memory for the old one
 */
spt_status spt_replace(spt_table *table, const void *key, size_t key_len, const void *value, size_t value_len,
                       void **old, size_t *old_len);

/** spt_compare_and_set - change a value if it is the expected one
 *
 * Stores `*new_value` if the value is `*expected`. NULL for `expected` means that the key is absent, and NULL for
 * `new_value` removes it.
 *
 * Returns:
 *   SPT_OK       the value was the expected one and has been changed
 *   SPT_DIFFERS  the value is another one, or the key is unexpectedly present or absent
 *   or an error of spt_put
 */
spt_status spt_compare_and_set(spt_table *table, const void *key, size_t key_len, const spt_bytes *expected,
                               const spt_bytes *new_value);

/** spt_update, spt_update_fn - change a value by a function
 *
 * Calls `function` with the value of the key, or NULL if it is absent, and does what it returns:
 *
 *   SPT_UPDATE_KEEP    changes nothing
 *   SPT_UPDATE_STORE   stores `*new_value`, which the function has set. The bytes are read after it has returned, so
 *                      they may not be its local variables
 *   SPT_UPDATE_REMOVE  removes the key
 *   SPT_UPDATE_STOP    ends the call with SPT_STOPPED; nothing has changed
 *
 * The function is called again if another thread changes the value before the result is stored. No latch is held while
 * it runs, so it may use the table, but not close it.
 *
 * Returns:
 *   SPT_OK         the key is present now
 *   SPT_NOT_FOUND  the key is absent now
 *   SPT_STOPPED    the function returned SPT_UPDATE_STOP
 *   or an error of spt_put; SPT_INVALID_ARGUMENT also if the function returned another number
 */
typedef int (*spt_update_fn)(void *context, const spt_bytes *old_value, spt_bytes *new_value);

#define SPT_UPDATE_KEEP 0
#define SPT_UPDATE_STORE 1
#define SPT_UPDATE_REMOVE 2
#define SPT_UPDATE_STOP 3

spt_status spt_update(spt_table *table, const void *key, size_t key_len, spt_update_fn function, void *context);

/** spt_put_many, spt_append_many - change many pairs
 *
 * Like spt_put, or spt_append, for each of `count` pairs; `value_lens`, unless it is NULL, is an array for the new
 * lengths. Faster than a call for each: cache misses overlap, and with SPT_DURABILITY_SYNC all wait for the disk once.
 *
 * Not atomic: other threads see the pairs one by one, and after an error or a crash only the first ones may be stored.
 * For all or nothing see spt_batch_begin.
 *
 * Errors:
 *   the errors of spt_put, the first that occurs; the pairs before it are stored
 */
typedef struct spt_pair {
    spt_bytes key;
    spt_bytes value;
} spt_pair;

spt_status spt_put_many(spt_table *table, const spt_pair *pairs, size_t count);
spt_status spt_append_many(spt_table *table, const spt_pair *pairs, size_t count, size_t *value_lens);

/** spt_batch_begin, spt_batch_begin_with, spt_batch_put, spt_batch_insert_new, spt_batch_append, spt_batch_remove,
 * spt_batch_update, spt_batch_len, spt_batch_commit, spt_batch_discard - make several changes as one
 *
 * spt_batch_begin opens a batch. The functions that add changes copy keys and values, and change nothing.
 * spt_batch_len counts the changes.
 *
 * spt_batch_begin_with opens a batch that is as durable as `durability`, one of SPT_DURABILITY_..., whatever the table
 * was opened with; 0 is the table's own. After a crash the table has all writes up to some moment, in their order, so a
 * batch that asks for more makes the earlier writes as durable as itself. One that asks for less may be lost, but never
 * in part. In a table opened with SPT_DURABILITY_NONE one that asks for more makes a checkpoint.
 *
 * spt_batch_commit makes the changes in order and atomically: other threads see all of them or none, and so does the
 * next open after an error or a crash. It ends the batch unless it returns SPT_IN_USE. spt_batch_discard ends the batch
 * without making the changes; NULL is not an error.
 *
 * When the batch is committed, an insert does nothing if the key is present, a remove does nothing if it is absent, and
 * an update calls its function with the value that the changes before it leave. As with spt_update, the function may be
 * called again; SPT_UPDATE_STOP cancels the whole commit. A commit takes as long as its changes would one by one, plus
 * a copy of each value that is replaced. Threads that need one of its buckets wait.
 *
 * Example:
 *     spt_batch *batch = NULL;
 *     spt_status status = spt_batch_begin(table, &batch);
 *
 *     if (status == SPT_OK)
 *         status = spt_batch_put(batch, "alice", 5, "90", 2);
 *     if (status == SPT_OK)
 *         status = spt_batch_put(batch, "bob", 3, "110", 3);
 *     if (status == SPT_OK)
 *         status = spt_batch_commit(batch);
 *     else
 *         spt_batch_discard(batch);
 *
 * Errors:
 *   SPT_INVALID_ARGUMENT  `durability` is none of these
 *   SPT_TOO_LONG  a key or a value, when it is added; a value that becomes too long by an append, at the commit
 *   SPT_STOPPED   of the commit: an update's function returned SPT_UPDATE_STOP; nothing has changed
 *   SPT_IN_USE    another thread is using the batch
 *   or, of the commit, an error of spt_put; nothing has changed then
 */
spt_status spt_batch_begin(spt_table *table, spt_batch **batch);
spt_status spt_batch_begin_with(spt_table *table, uint32_t durability, spt_batch **batch);
spt_status spt_batch_put(spt_batch *batch, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_batch_insert_new(spt_batch *batch, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_batch_append(spt_batch *batch, const void *key, size_t key_len, const void *tail, size_t tail_len);
spt_status spt_batch_remove(spt_batch *batch, const void *key, size_t key_len);
spt_status spt_batch_update(spt_batch *batch, const void *key, size_t key_len, spt_update_fn function,
                            void *context);
spt_status spt_batch_len(spt_batch *batch, uint64_t *len);
spt_status spt_batch_commit(spt_batch *batch);
spt_status spt_batch_discard(spt_batch *batch);

/** spt_len, spt_clear - the number of pairs, and removing them all
 *
 * spt_len sets `*len` at no cost.
 *
 * spt_clear removes all pairs and frees their space. Other writers wait. A reader may find one pair removed and another
 * still present. After a failure some pairs may be removed, and the handle refuses further writes; the next open finds
 * the table unchanged.
 *
 * Errors:
 *   SPT_IS_READ_ONLY SPT_DISK_FULL SPT_BUSY SPT_WOULD_DEADLOCK SPT_IO SPT_CORRUPT  of spt_clear, as for spt_remove
 */
spt_status spt_len(spt_table *table, uint64_t *len);
spt_status spt_clear(spt_table *table);

/** spt_sync, spt_checkpoint - make writes durable
 *
 * spt_sync returns when all earlier writes survive a power loss. It syncs the log, or with SPT_DURABILITY_NONE makes a
 * checkpoint.
 *
 * spt_checkpoint writes all changes to the table's own file, so that the next open has no log to replay, and processes
 * that open it for reading see them. Other threads are not blocked. Checkpoints are also made as the log fills, and by
 * spt_close.
 *
 * For tables in memory and tables opened for reading both do nothing.
 *
 * Errors:
 *   SPT_DISK_FULL         nothing has changed: make room and call it again
 *   SPT_IO                the handle accepts no more writes: close it, and open the table again
 */
spt_status spt_sync(spt_table *table);
spt_status spt_checkpoint(spt_table *table);

/** spt_scan, spt_scan_prefix - open a cursor on the pairs of a table
 *
 * spt_scan opens a cursor at `position` in hash order; 0 is the beginning, other positions are from
 * spt_cursor_position, in this process or an earlier one. spt_scan_prefix opens one on the pairs whose positions start
 * with the high `bits` bits of `prefix`: with bits = 2 and the prefixes 0, 1 << 62, 2 << 62 and 3 << 62, four threads
 * or machines can each walk a quarter of the table.
 *
 * The table may change during a scan. A key that is present throughout is returned exactly once; a key that is added or
 * removed during the scan is returned at most once. So it is safe to remove each pair as it is returned.
 *
 * `*cursor` is the handle; close it with spt_cursor_close before you close the table. Opening a cursor reads nothing.
 *
 * See: spt_cursor_next
 */
spt_status spt_scan(spt_table *table, uint64_t position, spt_cursor **cursor);
spt_status spt_scan_prefix(spt_table *table, uint64_t prefix, uint32_t bits, spt_cursor **cursor);

/** spt_cursor_next, spt_cursor_position, spt_cursor_close - walk pairs
 *
 * spt_cursor_next moves to the next pair. `*key` and `*value` are its bytes, valid until the next call with this
 * cursor; either may be NULL if you do not want it. It copies one bucket at a time and holds nothing between calls.
 *
 * spt_cursor_position sets `*position` to a position at which spt_scan continues after the pairs returned so far, even
 * if the table changes. Pairs with equal hashes are never divided: if the next pair has the hash of the last one, the
 * position is before both, and a resumed scan returns the last one again. `*at_boundary`, unless it is NULL, is 0 in
 * that case and 1 otherwise.
 *
 * spt_cursor_close closes the cursor. NULL is not an error.
 *
 * Example:
 *     spt_bytes key, value;
 *     spt_cursor *cursor = NULL;
 *     spt_status status = spt_scan(table, 0, &cursor);
 *
 *     while (status == SPT_OK && (status = spt_cursor_next(cursor, &key, &value)) == SPT_OK)
 *         printf("%.*s\n", (int)key.len, (const char *)key.data);
 *     if (status != SPT_END)
 *         fprintf(stderr, "%s\n", spt_error_message(cursor));
 *     spt_cursor_close(cursor);
 *
 * Returns:
 *   SPT_OK      there is a pair, or a position
 *   SPT_END     there are no more
 *   SPT_IO SPT_CORRUPT SPT_STALE  a page could not be read; the next call continues after its bucket
 *   SPT_IN_USE  another thread is using the cursor
 */
spt_status spt_cursor_next(spt_cursor *cursor, spt_bytes *key, spt_bytes *value);
spt_status spt_cursor_position(spt_cursor *cursor, uint64_t *position, int *at_boundary);
spt_status spt_cursor_close(spt_cursor *cursor);

/** spt_compact - make a table and its file as small as the pairs allow
 *
 * Merges buckets that the load no longer needs, moves pages from the end of the file to free space before it, and
 * truncates the file. Other threads may use the table; each waits for one bucket at most. Takes as long as reading and
 * writing the file.
 *
 * `progress` may be NULL. Its figures are for the current step.
 *
 * Errors:
 *   SPT_STOPPED  `progress` cancelled it; what was compacted so far stays compacted
 *   SPT_WOULD_DEADLOCK  called from the `progress` of another compaction of the table
 *   or an error of spt_remove or spt_sync
 */
spt_status spt_compact(spt_table *table, spt_progress_fn progress, void *context);

/** spt_backup, spt_backup_file, spt_restore - copy a table that is in use, and put it back
 *
 * spt_backup copies an open table to the file at `path`, as of one moment between two writes. Writers continue, but wait
 * if the table is in memory. spt_backup_file copies the table in the file `from`, which another process may have open,
 * with every write that has returned. The copy is a table like any other. It has a temporary name until it is complete
 * and on the disk.
 *
 * spt_restore replaces the table at `path` by the backup `from`: copies it, checks the whole copy, and only then gives
 * it the name.
 *
 * `flags` is 0, or SPT_OVERWRITE if a file at `path` may be replaced. `options`, which may be NULL, are used to open
 * the backup: they are needed for a hash function of your own. `progress`, which may be NULL, gets the bytes copied and
 * the total bytes.
 *
 * Errors:
 *   SPT_INVALID_ARGUMENT  a file exists at `path`, and SPT_OVERWRITE is not set
 *   SPT_LOCKED            the file at `path` is open for writing
 *   SPT_STOPPED           `progress` cancelled it; the copy is removed
 *   SPT_CORRUPT           spt_restore: the backup has faults; nothing has changed
 *   SPT_DISK_FULL SPT_IO  the copy is removed
 *   or an error of spt_open or spt_sync
 */
#define SPT_OVERWRITE 1u
spt_status spt_backup(spt_table *table, const char *path, uint32_t flags, spt_progress_fn progress, void *context);
spt_status spt_backup_file(const char *from, const char *path, const spt_options *options, uint32_t flags,
                           spt_progress_fn progress, void *context);
spt_status spt_restore(const char *from, const char *path, const spt_options *options, uint32_t flags,
                       spt_progress_fn progress, void *context);

/** spt_check, spt_fault_fn - find every fault of a table
 *
 * Reads everything: checksums, pages that contradict themselves, pairs in a wrong bucket or present twice, space that
 * is used twice or not at all, wrong totals. Writers wait.
 *
 * Calls `function`, unless it is NULL, with the location of each fault and what is wrong there, until it returns a
 * value other than 0. `*faults`, unless it is NULL, is the total number. A check that finds none takes 8 bytes of
 * memory per frame, so 1/500 of a file with frames of 4 KiB, and 5 MiB.
 *
 * Returns:
 *   SPT_OK       no fault
 *   SPT_CORRUPT  faults were found: restore a backup, or see spt_salvage
 *   SPT_IO       the check could not continue
 */
typedef int (*spt_fault_fn)(void *context, const char *place, const char *what);
spt_status spt_check(spt_table *table, spt_fault_fn function, void *context, uint64_t *faults);

/** spt_counters, spt_read_counters - figures of a table in use
 *
 * spt_read_counters sets `*counters`; `size` is sizeof *counters. It is fast and never waits. Lookups, and the figures
 * counted with them, are estimated from one in 512; the rest is exact.
 */
typedef struct spt_counters {
    uint64_t pairs;            /* pairs stored now */
    uint64_t payload_bytes;    /* bytes of their keys and values */
    uint64_t buckets;          /* buckets now */
    uint64_t file_bytes;       /* bytes of the file, or that it would have */
    uint64_t memory_bytes;     /* bytes of memory that pages take now */
    uint64_t hits;             /* lookups that found their key; estimated, as are the next six */
    uint64_t hit_pages;        /* pages that these read */
    uint64_t hit_keys;         /* keys that these compared */
    uint64_t misses;           /* lookups that did not find their key */
    uint64_t miss_pages;       /* pages that these read */
    uint64_t miss_keys;        /* keys that these compared */
    uint64_t overflow_lookups; /* lookups that read overflow pages */
    uint64_t puts;             /* changes that stored something since the table was opened, as for all below */
    uint64_t removals;         /* changes that removed a pair */
    uint64_t splits;           /* buckets split */
    uint64_t merges;           /* buckets merged */
    uint64_t checkpoints;      /* checkpoints written */
    uint64_t frames_read;      /* frames read from the file */
    uint64_t frames_written;   /* frames written to it by checkpoints */
    uint64_t evictions;        /* frames evicted from memory */
    uint64_t latch_waits;      /* times that a thread waited for a latch */
    uint64_t replayed;         /* changes that the open replayed from the log; 0 after a close */
} spt_counters;

spt_status spt_read_counters(spt_table *table, spt_counters *counters, size_t size);

/** spt_publisher, spt_read_published - figures of a table that another process has open
 *
 * If a process has the table at `path` open with SPT_PUBLISH_COUNTERS, spt_read_published sets `*counters` and
 * `*publisher` to the figures that it last wrote. This does not open the table and delays no other process. The sizes
 * are sizeof *counters and sizeof *publisher. `replayed` of the counters is 0.
 *
 * Returns:
 *   SPT_OK         there are figures
 *   SPT_NOT_FOUND  there are none
 *   SPT_CORRUPT SPT_OTHER_VERSION  the file `<path>-stats` has another format or version
 *   SPT_IO         it could not be read
 */
typedef struct spt_publisher {
    uint32_t process; /* its id */
    uint32_t is_open; /* 1 if it still has the table open; 0 if it ended without closing it */
    uint64_t tick;    /* the number of times it has written */
    uint64_t open_ms; /* milliseconds from the open to the last write */
} spt_publisher;

spt_status spt_read_published(const char *path, spt_counters *counters, size_t counters_size,
                              spt_publisher *publisher, size_t publisher_size);

/** spt_survey, spt_survey_table - measure a table
 *
 * spt_survey_table walks all buckets and sets `*survey`; `size` is sizeof *survey. Other threads may change the table;
 * then the figures are not from one moment.
 *
 * `*histogram`, unless `histogram` is NULL, becomes an array of `*histogram_len` elements, which you free with
 * spt_free: the number of buckets for each number of pairs, ascending by pairs.
 *
 * Errors:
 *   SPT_IO SPT_CORRUPT SPT_STALE  a page could not be read
 */
typedef struct spt_survey {
    uint64_t pairs;             /* pairs stored */
    uint64_t buckets;           /* buckets, and so primary pages */
    uint64_t page_bytes;        /* bytes of a primary page */
    uint64_t frame_bytes;       /* bytes of a frame, the unit of I/O and checksum */
    uint64_t file_bytes;        /* bytes of the file, or that it would have */
    uint64_t payload_bytes;     /* bytes of all keys and values */
    uint64_t bucket_bytes;      /* bytes of slots and records in primary and overflow pages */
    uint64_t overflow_pages;    /* overflow pages */
    uint64_t overflow_bytes;    /* bytes of overflow pages */
    uint64_t overflow_pairs;    /* pairs in overflow pages */
    uint64_t extents;           /* values or pairs too large for a page */
    uint64_t extent_bytes;      /* bytes of these */
    uint64_t free_bytes;        /* bytes of the file that are not in use */
    double fill_percent;        /* slots and records in percent of the primary pages */
    double fill_target_percent; /* the fill_percent at which the table grows, unless fill_factor is set */
    uint64_t fill_factor;       /* pairs in a bucket at which it grows; 0 if it was not set */
    uint64_t seed;              /* the seed of the hash function */
    char hash[32];              /* the name of the hash function, cut to fit */
    uint64_t largest_bucket;    /* pairs in the fullest bucket */
    uint64_t empty_buckets;     /* buckets without a pair */
    uint64_t memory_bytes;      /* bytes of memory that pages take now */
    uint64_t splits;            /* splits since the table was opened */
    uint64_t merges;            /* merges since the table was opened */
} spt_survey;

typedef struct spt_bucket_count {
    uint64_t pairs;   /* a number of pairs */
    uint64_t buckets; /* the number of buckets with that many pairs */
} spt_bucket_count;

spt_status spt_survey_table(spt_table *table, spt_survey *survey, size_t size, spt_bucket_count **histogram,
                            size_t *histogram_len);

/** spt_salvage, spt_salvage_fn, spt_found, spt_salvage_report - read what is left of a damaged table
 *
 * Calls `function` with every pair that can be read in the file at `path`, however damaged, with each fault that loses
 * pairs, and from time to time with the progress. A function that returns a value other than 0 stops it. The file is
 * not changed. Pairs are in no particular order, and no key occurs twice. Changes since the last checkpoint that are
 * still in the log are not salvaged: if the table can be opened for writing, that replays them.
 *
 * `options`, which may be NULL, is for a hash function of your own. `size` is sizeof *report.
 *
 * Errors:
 *   SPT_NOT_A_TABLE    nothing in the file looks like part of a table
 *   SPT_OTHER_VERSION  upgrade splitpoint
 *   SPT_LOCKED         it is open for writing
 *   SPT_STOPPED        the function stopped it; the report covers what was found until then
 *   SPT_IO             it could not be opened
 */
#define SPT_FOUND_PAIR 1
#define SPT_FOUND_FAULT 2
#define SPT_FOUND_PROGRESS 3
#define SPT_FOUND_TYPES 4

typedef struct spt_found {
    int kind;          /* one of SPT_FOUND_...; ignore others */
    int verified;      /* a pair: 1 if checksums prove every byte of it, and that it is current; else it is most likely
                        * right */
    spt_bytes key;     /* a pair: its key, valid until the function returns, as are the next three */
    spt_bytes value;   /* a pair: its value */
    const char *place; /* a fault: where */
    const char *what;  /* a fault: what is wrong, and what is lost by it; the types of a typed table, before its pairs:
                        * see spt_types */
    uint64_t done;     /* progress: steps done */
    uint64_t all;      /* progress: total steps */
} spt_found;

typedef struct spt_salvage_report {
    uint64_t verified;     /* verified pairs */
    uint64_t unverified;   /* other pairs */
    uint64_t counted;      /* pairs of the table according to its header, if is_counted */
    uint64_t lost_buckets; /* buckets lost with their primary pages */
    uint64_t losses;       /* places where pairs are or may be lost */
    uint64_t conflicts;    /* keys that were found with several values, of which one was passed on */
    uint32_t is_counted;   /* 1 if the header could be read */
    uint32_t is_whole;     /* 1 if it is certain that every pair was passed on, and correctly */
} spt_salvage_report;

typedef int (*spt_salvage_fn)(void *context, const spt_found *found);
spt_status spt_salvage(const char *path, const spt_options *options, spt_salvage_fn function, void *context,
                       spt_salvage_report *report, size_t size);

/** spt_hash, spt_hash_name, spt_position - hash functions
 *
 * spt_hash sets `*hash` to the hash of the key by the function of that name; NULL is the default, XXH3. A function that
 * takes no seed ignores it. spt_hash_name returns the names for 0, 1, and so on, then NULL. They are xxh3,
 * rapidhash, siphash13 (for keys that an attacker may choose), fnv1a, crc32c, murmur3, and the historical sdbm, djb2,
 * phong, dynahash and knuth.
 *
 * spt_position sets `*position` to the position in hash order of the key, present or not: spt_scan from there returns
 * it first, or after others with the same hash.
 *
 * Errors:
 *   SPT_INVALID_ARGUMENT  no function has that name
 */
spt_status spt_hash(const char *name, uint64_t seed, const void *key, size_t key_len, uint64_t *hash);
const char *spt_hash_name(size_t index);
spt_status spt_position(spt_table *table, const void *key, size_t key_len, uint64_t *position);

/** spt_dict_open, spt_dict_options, spt_dict_close, spt_dict_reload - open a dictionary
 *
 * A dictionary holds pairs, possibly far more than fit in memory, in one file or a directory of shards. A lookup takes
 * one read. Any number of threads and processes may read it; it is changed in batches: see spt_dict_update_start.
 *
 * spt_dict_open opens the dictionary at `path`; `options` may be NULL. The handle keeps reading that version even after
 * an update has replaced it. spt_dict_reload switches to the current version; `*changed`, unless it is NULL, is 1 if
 * that is a new one. After an error the handle keeps the old version.
 *
 * spt_dict_close closes it. NULL is not an error.
 *
 * Fields:
 *   size          sizeof(spt_dict_options)
 *   flags         SPT_MAP_DATA or SPT_READ_DATA, and SPT_MAP_INDEX, joined by |
 *   hash          with user_hash, its name in messages
 *   user_hash     the hash function of a dictionary that was built with one of your own
 *   user_context  passed to it
 *
 * Flags:
 *   SPT_MAP_DATA   read data through a mapping of the file: several times as fast for data in the system's cache. The
 *                  checksum of a page is verified at its first use. Linux only, and the default there if the file is on
 *                  a disk of this machine and no larger than half of its memory. It installs a handler for SIGBUS, so
 *                  that a failing disk, or a program that truncates the file, gives an error
 *   SPT_READ_DATA  read data by system calls, and verify the checksum of a page each time
 *   SPT_MAP_INDEX  use the index through a mapping, which processes share. A failing disk, or a program that truncates
 *                  the file, then ends the process by SIGBUS
 *
 * Errors:
 *   SPT_NOT_A_DICTIONARY SPT_OTHER_VERSION SPT_CORRUPT SPT_WRONG_HASH SPT_IO  of the file
 *   SPT_IN_USE  of spt_dict_close and spt_dict_reload: cursors are open
 */
typedef struct spt_dict_options {
    size_t size;
    uint64_t flags;
    const char *hash;
    spt_hash_fn user_hash;
    void *user_context;
} spt_dict_options;

#define SPT_DICT_OPTIONS_INIT { sizeof(spt_dict_options), 0, NULL, NULL, NULL }

#define SPT_MAP_DATA 1u
#define SPT_MAP_INDEX 2u
#define SPT_READ_DATA 4u

spt_status spt_dict_open(const char *path, const spt_dict_options *options, spt_dictionary **dictionary);
spt_status spt_dict_close(spt_dictionary *dictionary);
spt_status spt_dict_reload(spt_dictionary *dictionary, int *changed);

/** spt_dict_get, spt_dict_get_alloc, spt_dict_contains, spt_dict_get_many, spt_dict_len - look up keys in a dictionary
 *
 * These do for a dictionary what spt_get, spt_get_alloc, spt_contains, spt_get_many and spt_len do for a table, and
 * return the same codes. A lookup costs one read of the file, or none if it is mapped. A lookup of many keys has up to
 * 64 reads in flight if they have to wait for the disk.
 */
spt_status spt_dict_get(spt_dictionary *dictionary, const void *key, size_t key_len, void *buffer, size_t capacity,
                        size_t *value_len);
spt_status spt_dict_get_alloc(spt_dictionary *dictionary, const void *key, size_t key_len, void **value,
                              size_t *value_len);
spt_status spt_dict_contains(spt_dictionary *dictionary, const void *key, size_t key_len);
spt_status spt_dict_get_many(spt_dictionary *dictionary, const spt_bytes *keys, size_t count, spt_bytes *values,
                             void **memory);
spt_status spt_dict_len(spt_dictionary *dictionary, uint64_t *len);

/** spt_dict_scan, spt_dict_range, spt_dict_position, spt_thaw - walk a dictionary, and make a table of it
 *
 * spt_dict_scan opens a cursor on all pairs in hash order, or shard by shard for a directory. spt_cursor_next and
 * spt_cursor_close work as on a table; spt_cursor_position returns SPT_INVALID_ARGUMENT. The walk ends after an error.
 * A few MiB of pairs are in memory; of values of a MiB or more, only the one that spt_cursor_next returned last.
 *
 * spt_dict_range opens a cursor on the pairs whose positions in hash order are `first` to `last`, both included: 0 to
 * UINT64_MAX selects all pairs. Positions are evenly distributed, so a sixteenth of them has about a sixteenth of the
 * pairs. If `first` is above `last` there are none. spt_dict_position sets `*position` to that of a key, present or
 * not.
 *
 * spt_thaw puts all pairs into `table`, replacing the values of keys that it has; `*pairs`, unless it is NULL, is the
 * number of pairs.
 *
 * Errors:
 *   SPT_IO SPT_CORRUPT  of the dictionary; or, of spt_thaw, an error of spt_put_many
 */
spt_status spt_dict_scan(spt_dictionary *dictionary, spt_cursor **cursor);
spt_status spt_dict_range(spt_dictionary *dictionary, uint64_t first, uint64_t last, spt_cursor **cursor);
spt_status spt_dict_position(spt_dictionary *dictionary, const void *key, size_t key_len, uint64_t *position);
spt_status spt_thaw(spt_dictionary *dictionary, spt_table *table, uint64_t *pairs);

/** spt_dict_diff, spt_dict_diff_range, spt_diff_next, spt_change, spt_diff_close - what changed between dictionaries
 *
 * spt_dict_diff opens a walk over the changes from the dictionary `old` to `newer`, in hash order, shard by shard.
 * spt_dict_diff_range compares only keys with positions from `first` to `last`, both included, as in spt_dict_range.
 * Both dictionaries are read once, by threads of the diff, which also call a hash function of your own. A shard whose
 * file both dictionaries share is not read. `progress`, which may be NULL, is called by spt_diff_next with the number
 * of pairs read so far in both, and the total number of pairs; with shared shards fewer than that are read.
 *
 * spt_diff_next sets `*change` to the next one. Its bytes are valid until the next call with this diff. After an error
 * there are no more. spt_dict_update_apply takes each change, so that a copy of `old` becomes one of `newer`.
 *
 * spt_diff_close ends the walk. NULL is not an error. The dictionaries may be closed before it.
 *
 * Fields:
 *   kind       one of SPT_CHANGE_...
 *   key        the key
 *   old_value  the value in the older dictionary; its data is NULL if the key was added
 *   value      the value in the newer one; its data is NULL if the key was removed
 *
 * Example:
 *     spt_diff *diff = NULL;
 *     spt_change change;
 *     spt_status status = spt_dict_diff(old, newer, NULL, NULL, &diff);
 *     while (status == SPT_OK && (status = spt_diff_next(diff, &change)) == SPT_OK)
 *         status = spt_dict_update_apply(update, &change);
 *     spt_diff_close(diff);
 *
 * Returns:
 *   SPT_END  of spt_diff_next: there are no more changes
 *
 * Errors:
 *   SPT_INVALID_ARGUMENT  the two have different hash functions, seeds or shards
 *   SPT_STOPPED           `progress` cancelled it
 *   SPT_IN_USE            another thread is using the diff
 *   SPT_IO SPT_CORRUPT    of one of the dictionaries
 */
typedef struct spt_change {
    int kind;
    spt_bytes key;
    spt_bytes old_value;
    spt_bytes value;
} spt_change;

#define SPT_CHANGE_ADDED 1
#define SPT_CHANGE_REMOVED 2
#define SPT_CHANGE_REPLACED 3

spt_status spt_dict_diff(spt_dictionary *old, spt_dictionary *newer, spt_progress_fn progress, void *context,
                         spt_diff **diff);
spt_status spt_dict_diff_range(spt_dictionary *old, spt_dictionary *newer, uint64_t first, uint64_t last,
                               spt_diff **diff);
spt_status spt_diff_next(spt_diff *diff, spt_change *change);
spt_status spt_diff_close(spt_diff *diff);

/** spt_dict_sizes, spt_dict_stat, spt_dict_check, spt_dict_check_with - measure a dictionary, and find its faults
 *
 * spt_dict_stat sets `*sizes`, without reading files; `size` is sizeof *sizes. For a directory they are totals of all
 * shards.
 *
 * spt_dict_check reads everything, as spt_check does. It finds wrong checksums, records out of order or present twice,
 * wrong counts, and keys that the index does not find. spt_dict_check_with does the same with `threads` threads; 0 is
 * one per processor. `progress`, which may be NULL, gets the bytes of data read and the total, about every MiB, and may
 * cancel the check, which then returns SPT_STOPPED. Both functions are called in the caller's thread.
 */
typedef struct spt_dict_sizes {
    uint64_t shards;           /* files */
    uint64_t pairs;            /* pairs */
    uint64_t file_bytes;       /* bytes of the files */
    uint64_t data_bytes;       /* bytes of the data pages */
    uint64_t key_bytes;        /* bytes of all keys */
    uint64_t value_bytes;      /* bytes of all values */
    uint64_t pages;            /* data pages */
    uint64_t page_bytes;       /* bytes of a page */
    uint64_t index_bytes;      /* bytes of the index */
    uint64_t ranks_bytes;      /* bytes of the second index, from ranks to pages; 0 without one */
    double index_bits_per_key; /* bits per key of both indexes */
    uint64_t key_len_min;      /* length of the shortest key */
    uint64_t key_len_max;      /* length of the longest key */
    uint64_t value_len_min;    /* length of the shortest value */
    uint64_t value_len_max;    /* length of the longest value */
    uint64_t reads;            /* reads of the files by lookups and scans since it was opened */
    uint64_t seed;             /* the seed of the hash function */
    uint32_t compression;      /* one of SPT_COMPRESSION_... */
    uint32_t is_fixed_length;  /* 1 if all keys, and all values, have one length, which is then not stored */
    char index[32];            /* the name of the index */
    char order[32];            /* the order of records: "hash order" or "chunks" */
    char hash[32];             /* the name of the hash function, cut to fit */
    uint64_t filter_bits;      /* bits per fingerprint of the filter; 0 without one */
    uint64_t filter_bytes;     /* bytes of the filter */
} spt_dict_sizes;

spt_status spt_dict_stat(spt_dictionary *dictionary, spt_dict_sizes *sizes, size_t size);
spt_status spt_dict_check(spt_dictionary *dictionary, spt_fault_fn function, void *context, uint64_t *faults);
spt_status spt_dict_check_with(spt_dictionary *dictionary, uint32_t threads, spt_progress_fn progress,
                               void *progress_context, spt_fault_fn function, void *context, uint64_t *faults);

/** spt_build_options - how a dictionary is built
 *
 * Every field may be 0, which is the default. See spt_options for the rules of such a struct.
 *
 * Fields:
 *   size                 sizeof(spt_build_options)
 *   flags                0, or SPT_RESUME
 *   index                one of SPT_INDEX_...
 *   bins_per_page        for SPT_INDEX_PAGE: twice as many cost one more bit per page and cause fewer unneeded reads
 *   bucket_keys          for SPT_INDEX_TRIE: average keys per virtual bucket, a power of two; 256 by default
 *   huffman_max          for SPT_INDEX_TRIE: the largest trie that is Huffman-coded, in keys; 64 by default
 *   skip_min             for SPT_INDEX_TRIE: the smallest trie that stores where its right half begins; 64 by default,
 *                        SPT_NO_SKIP for none
 *   block_items          for SPT_INDEX_TRIE: above 1 the index locates blocks of this many keys, in fewer bits
 *   effort               for SPT_INDEX_CHUNK: one of SPT_EFFORT_...; fewer bits for a longer build
 *   page_bytes           bytes of a page, a power of two from 512 to 65536; 4096 by default
 *   compression          one of SPT_COMPRESSION_...
 *   block_bytes          bytes that are compressed together; 16 KiB by default
 *   duplicates           one of SPT_DUPLICATES_...: what to do with a key that occurs twice
 *   threads              threads that sort; by default one per processor
 *   shards               build a directory of this many files; by default one file
 *   memory_bytes         memory of the build: the sort, and the new index; 1 GiB by default, less in a container
 *   seed                 the seed of the hash function; the same pairs and seed give the same file
 *   resume_identity      with SPT_RESUME: a number of yours that identifies the source and the options
 *   hash                 the name of a hash function; with user_hash, its name in messages
 *   user_hash            your own hash function
 *   user_context         passed to it
 *   temporary_directory  directory for temporary files, which need as many bytes as the pairs; by default that of the
 *                        dictionary
 *   progress             gets the pairs written and the total; may be called by any thread, and by several at a time
 *   progress_context     passed to it
 *   place_name           names the `place` of spt_build_push_at in messages: writes it to `name` with a zero byte
 *   place_context        passed to it
 *   filter_bits          8 or 16: a filter of 9.5 or 19 bits per key, so that lookups of absent keys read data for only
 *                        one key in 256 or 65,536; none by default
 *
 * Index:
 *   SPT_INDEX_PAGE   locates the pages that can have a key: about 6.2 bits per page, for records of any size; the
 *                    default
 *   SPT_INDEX_TRIE   locates the key itself: 2.6 bits per key
 *   SPT_INDEX_CHUNK  locates the key itself: 1.5 to 1.9 bits per key; a longer build
 *   SPT_INDEX_NONE   no index; several reads per lookup
 */
typedef void (*spt_place_fn)(void *context, uint64_t place, char *name, size_t capacity);

typedef struct spt_build_options {
    size_t size;
    uint32_t flags;
    uint32_t index;
    uint32_t bins_per_page;
    uint32_t bucket_keys;
    uint32_t huffman_max;
    uint32_t skip_min;
    uint32_t block_items;
    uint32_t effort;
    uint32_t page_bytes;
    uint32_t compression;
    uint32_t block_bytes;
    uint32_t duplicates;
    uint32_t threads;
    uint32_t shards;
    uint64_t memory_bytes;
    uint64_t seed;
    uint64_t resume_identity;
    const char *hash;
    spt_hash_fn user_hash;
    void *user_context;
    const char *temporary_directory;
    spt_progress_fn progress;
    void *progress_context;
    spt_place_fn place_name;
    void *place_context;
    uint64_t filter_bits;
} spt_build_options;

#define SPT_BUILD_OPTIONS_INIT                                                                                        \
    { sizeof(spt_build_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL,     \
      NULL, NULL, NULL, 0 }

#define SPT_RESUME 1u
#define SPT_NO_SKIP 0xffffffffu
#define SPT_INDEX_PAGE 0u
#define SPT_INDEX_TRIE 1u
#define SPT_INDEX_CHUNK 2u
#define SPT_INDEX_NONE 3u
#define SPT_EFFORT_FAST 1u
#define SPT_EFFORT_BALANCED 2u
#define SPT_EFFORT_SMALL 3u
#define SPT_COMPRESSION_NONE 0u
#define SPT_COMPRESSION_LZ4 1u
#define SPT_DUPLICATES_ERROR 0u
#define SPT_DUPLICATES_FIRST 1u
#define SPT_DUPLICATES_LAST 2u

/** spt_dict_build, spt_next_fn, spt_freeze, spt_dict_reindex - build a dictionary in one call
 *
 * spt_dict_build calls `next` for each pair, in any order. `next` sets `*key` and `*value`, which are read before it is
 * called again, and returns 0. It returns 1 if there are no more pairs; any other value cancels the build. `*pairs`,
 * unless it is NULL, is the number of pairs of the dictionary. The dictionary replaces an existing one at `path` when
 * it is complete.
 *
 * spt_freeze writes all pairs of a table, in one scan and without a sort. The hash function is the table's. Writers may
 * continue: a pair that is present throughout is in the dictionary.
 *
 * spt_dict_reindex writes the pairs of the dictionary `old` to `path`, which may be the same, with another index.
 * Pages, compression, hash function and shards stay the same.
 *
 * Errors:
 *   SPT_DUPLICATE         a key occurred twice, and the options do not say which value to keep
 *   SPT_STOPPED           `next` or the progress function cancelled it
 *   SPT_LOCKED            another process builds the same file
 *   SPT_NOT_A_DICTIONARY  the file at `path`, or that name with "-unfinished" appended, was not made by a build
 *   SPT_TOO_LONG          a key or value of 4 GiB or more
 *   SPT_INVALID_ARGUMENT  options out of range; for spt_freeze also shards, for spt_dict_reindex also SPT_RESUME
 *   SPT_OUT_OF_MEMORY     the index, or the records of one of its chunks, would not fit in `memory_bytes`
 *   SPT_DISK_FULL SPT_IO  of the dictionary or of temporary files
 *   After any of them, the old file at `path` is unchanged.
 */
typedef int (*spt_next_fn)(void *context, spt_bytes *key, spt_bytes *value);

spt_status spt_dict_build(const char *path, const spt_build_options *options, spt_next_fn next, void *context,
                          uint64_t *pairs);
spt_status spt_freeze(spt_table *table, const char *path, const spt_build_options *options, uint64_t *pairs);
spt_status spt_dict_reindex(const char *old, const char *path, const spt_build_options *options, uint64_t *pairs);

/** spt_build_start, spt_build_push, spt_build_push_at, spt_build_resumed, spt_build_save, spt_build_finish,
 * spt_build_discard - build a dictionary pair by pair
 *
 * spt_build_push adds a pair; pairs may be in any order. spt_build_push_at also takes the pair's place in the source,
 * such as a line number, for messages; places must not decrease. spt_build_finish sorts, writes and publishes;
 * `*pairs`, unless it is NULL, is the number of pairs of the dictionary. It closes the handle unless it returns
 * SPT_IN_USE. spt_build_discard closes it and leaves no files, except with SPT_RESUME those that a later build
 * continues from. NULL is not an error.
 *
 * With SPT_RESUME a build saves the pairs it was given after each GiB, and in spt_build_save. A later build with the
 * same identity continues from there. spt_build_resumed sets `*pairs` to the number of pairs of the source that are
 * saved, which you must skip, `*all` to 1 if they are the whole source, and `*discarded` to the number of saved pairs
 * that this build cannot use. Each of these pointers may be NULL.
 *
 * Errors:
 *   the errors of spt_dict_build; and SPT_IN_USE if another thread is using the build
 */
spt_status spt_build_start(const char *path, const spt_build_options *options, spt_build **build);
spt_status spt_build_push(spt_build *build, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_build_push_at(spt_build *build, const void *key, size_t key_len, const void *value, size_t value_len,
                             uint64_t place);
spt_status spt_build_resumed(spt_build *build, uint64_t *pairs, int *all, uint64_t *discarded);
spt_status spt_build_save(spt_build *build);
spt_status spt_build_finish(spt_build *build, uint64_t *pairs);
spt_status spt_build_discard(spt_build *build);

/** spt_dict_update_start, spt_dict_update_put, spt_dict_update_remove, spt_dict_update_apply, spt_dict_update_finish,
 * spt_dict_update_discard - change a dictionary in a batch
 *
 * spt_dict_update_start begins an update of the dictionary `old` to one at `path`, which may be the same. `options`
 * give the resources of the sort and the index to build; hash function, pages and compression stay those of `old`. Of
 * several changes to one key the last counts; removing an absent key is not an error. spt_dict_update_apply makes a
 * change that spt_diff_next returned, or one of your own: by its kind it stores the value, or removes the key. NULL with
 * length 0 is an empty value; the old value does not matter.
 *
 * spt_dict_update_finish merges the changes with the old pairs in one pass, writes, and publishes. `*pairs`, unless it
 * is NULL, is the number of pairs of the new dictionary. Shards without changes keep their files. It closes the handle
 * unless it returns SPT_IN_USE. spt_dict_update_discard closes it without changes; NULL is not an error.
 *
 * Errors:
 *   the errors of spt_dict_open and spt_dict_build; and SPT_IN_USE if another thread is using the update
 */
spt_status spt_dict_update_start(const char *old, const char *path, const spt_build_options *options,
                                 spt_dict_update **update);
spt_status spt_dict_update_put(spt_dict_update *update, const void *key, size_t key_len, const void *value,
                               size_t value_len);
spt_status spt_dict_update_remove(spt_dict_update *update, const void *key, size_t key_len);
spt_status spt_dict_update_apply(spt_dict_update *update, const spt_change *change);
spt_status spt_dict_update_finish(spt_dict_update *update, uint64_t *pairs);
spt_status spt_dict_update_discard(spt_dict_update *update);

#ifdef __cplusplus
}
#endif

#endif

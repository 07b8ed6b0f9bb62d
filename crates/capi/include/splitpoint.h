/** splitpoint - key/value tables by linear hashing, in memory and in one crash-safe file
 *
 * A table maps keys to values. Both are any bytes: up to 4 GiB - 1 each, and a length of 0 is a length like others.
 * A table is in memory, or in one file that survives the end of the process and, if asked, a power loss.
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
 * Results: Functions that can fail return an spt_status. SPT_OK is 0. Codes from 1 to 199 are failures that every
 * front end of splitpoint numbers alike. Codes from 200 on are those of C alone: from 200 to 219 answers (the key is
 * absent, the buffer is too small), from 220 on wrong uses. spt_error_message describes the last failure of the
 * calling thread: what happened, where, and what to do. Answers leave no message.
 *
 * Every function may return, besides the codes that it lists: SPT_INVALID_HANDLE, SPT_INVALID_ARGUMENT for a NULL
 * pointer that is not allowed and for a length that no memory has, SPT_FORKED, SPT_POISONED, SPT_OUT_OF_MEMORY and
 * SPT_INTERNAL. Results that are not available are set to 0 or NULL.
 *
 * Lengths: A pointer to bytes comes with their number, and may be NULL if that is 0. Strings (char *) are paths, names
 * and messages, and end with a zero byte. All lengths are in bytes.
 *
 * Handles: spt_table, spt_cursor and the like are handles: never look at what they point to. A NULL handle, a closed
 * one, one of another kind, and any other number give SPT_INVALID_HANDLE, and harm nothing. Closing twice is such an
 * error; closing NULL does nothing and is SPT_OK. Closing a table that still has cursors, batches or views, or from
 * inside a function that it calls, gives SPT_IN_USE, and it stays open.
 *
 * Ownership: Bytes that you pass are copied, or read before the call returns. Bytes that you get belong to you, until
 * spt_free, if the result is a void pointer; otherwise to the handle, for as long as the function says.
 *
 * Threads: Any number of threads may use one table or one dictionary at the same time. One thread at a time may use any
 * other handle: a second call meanwhile gives SPT_IN_USE. Threads may hand handles on, but a view stays with the thread
 * that made it. Only one rule is not checked: close a table or dictionary when no other thread is using it.
 *
 * Callbacks: A function that you pass may call the library, except as its own description says. It must return:
 * longjmp, C++ exceptions and pthread_exit out of it are forbidden. So is the cancellation of a thread
 * (pthread_cancel) inside the library.
 *
 * Processes: One process has a file open for writing at a time, by one handle; others may read it as of its last
 * checkpoint. After fork, the handles belong to the parent: the child gets SPT_FORKED, and may close them, which
 * leaves the files alone, or open its own.
 *
 * Signals: No function may be called in a signal handler. Set a flag there, and close the table in the main program.
 * Opening a table for writing installs a handler for SIGBUS, which passes on what is not about its mappings.
 *
 * Versions: A program compiled with this header runs with every later library of the same soname
 * (libsplitpoint.so.0): functions and codes are only added. Structs that are passed grow at their end; their size field
 * says how much of them the program knows.
 *
 * See: spt_open, spt_options, spt_get, spt_put, spt_scan, spt_error_message
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
 * major << 16 | minor << 8 | patch. spt_version_string returns the same as text, such as "0.1.0", which is never freed.
 */
#define SPT_VERSION 0x000100
uint32_t spt_version(void);
const char *spt_version_string(void);

/** spt_status, spt_strerror - what the result of a function means
 *
 * spt_strerror returns the text of a code, in one line; it is never freed. For any other number the text says so.
 *
 * Numbers are never changed or used again; later versions add some.
 */
typedef int spt_status;
enum {
    SPT_OK = 0,                 /* success */
    SPT_IO = 1,                 /* an operating system error: see spt_error_errno */
    SPT_DISK_FULL = 2,          /* no room on the disk, or the file may not be longer (ulimit -f); nothing has changed */
    SPT_CORRUPT = 3,            /* a file contradicts itself: restore a backup, or see spt_salvage */
    SPT_NOT_A_TABLE = 4,        /* not a file of splitpoint */
    SPT_OTHER_VERSION = 5,      /* a file of splitpoint, in a version that this library does not read */
    SPT_WRONG_HASH = 6,         /* the table was made with another hash function */
    SPT_INVALID_ARGUMENT = 7,   /* an option or argument outside its range */
    SPT_TOO_LONG = 8,           /* a key or value of 4 GiB or more */
    SPT_IS_READ_ONLY = 9,       /* a write to a table opened for reading */
    SPT_LOCKED = 10,            /* another process, or another handle, has the file open for writing */
    SPT_POISONED = 11,          /* an earlier failure made the handle unusable: close it and open the table again */
    SPT_WOULD_DEADLOCK = 12,    /* this thread holds a view that blocks its own write */
    SPT_OUT_OF_MEMORY = 13,     /* memory or address space could not be allocated */
    SPT_FORKED = 14,            /* the handle was opened in a parent process */
    SPT_STALE = 15,             /* another process wrote a checkpoint since the file was opened for reading: open again */
    SPT_DUPLICATE = 16,         /* a duplicate key where keys must be unique */
    SPT_STOPPED = 17,           /* cancelled by the caller's own function */
    SPT_BUSY = 18,              /* the log is full and a backup keeps it from being emptied: try again */

    SPT_NOT_FOUND = 200,        /* the key is absent */
    SPT_EXISTS = 201,           /* the key is present already; nothing has changed */
    SPT_DIFFERS = 202,          /* the value is another than expected; nothing has changed */
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
 * `handle` that failed. `handle` is any handle, also one that has been closed. For NULL it is the last failure with
 * any handle, and with none, such as that of spt_open. Where there was no failure, it returns "". Successes and answers
 * (codes from 200 to 219) leave the message as it is.
 *
 * The text is for people and may change. A thread remembers its last 64 failures, and a text is valid as long, or until
 * the thread ends.
 *
 * spt_error_errno returns the errno of the operating system's error behind that failure, or 0 if there was none.
 */
const char *spt_error_message(const void *handle);
int spt_error_errno(const void *handle);

/** spt_free - free memory that a function has allocated for its result
 *
 * For NULL it does nothing. It is free() of the C library that splitpoint uses, which may be another one than yours.
 */
void spt_free(void *memory);

/** spt_bytes - bytes and their length
 *
 * In results, `data` is NULL only where there is no value at all; an empty value has a pointer and the length 0.
 */
typedef struct spt_bytes {
    const void *data;
    size_t len;
} spt_bytes;

/* The handles. */
typedef struct spt_table spt_table;
typedef struct spt_cursor spt_cursor;

/** spt_hash_fn - a hash function of your own
 *
 * Returns the hash of `key`, always the same for the same bytes, in every program that opens the table: the file
 * records its hash of a fixed key, and refuses a function that has another. The low bits choose the bucket, so they
 * should differ between similar keys.
 *
 * Threads: It is called by any thread, and by several at a time. It must not call the library with the same table.
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
 * It is a struct with its size in front, as in Linux's clone3(2), and not an object with a function for each option:
 * it needs no allocation, so nothing can fail or leak before the open, it can be static, and a debugger shows it. New
 * fields come at the end. An older library accepts a newer struct if the fields that it does not know are 0.
 *
 * Fields:
 *   size           sizeof(spt_options)
 *   flags          of SPT_READ_ONLY and the like, joined by |
 *   durability     one of SPT_DURABILITY_...
 *   page_bytes     bytes of a bucket's primary page, a power of two from 512 to 65536; 1024 by default
 *   fill_factor    average pairs in a bucket at which the table grows; by default fill_percent counts instead
 *   fill_percent   bytes of the pairs in percent of the primary pages at which it grows, 10 to 400; 92 by default
 *   mode           reserved: 0
 *   expected_len   pairs that will come: buckets for them are made at once, which saves the splits
 *   cache_bytes    bytes of pages kept in memory; by default half of the machine's memory, and for a table in memory
 *                  all. With it, a table in memory moves the rest to an unlinked temporary file
 *   log_bytes      bytes of the write-ahead log, 128 MiB by default; a longer log makes fewer checkpoints, and a longer
 *                  replay after a crash
 *   hash           the name of a hash function: see spt_hash; XXH3 by default. With user_hash, its name in messages
 *   seed           pointer to the seed of the hash function; NULL for a random one
 *   user_hash      your own hash function, instead of one of ours
 *   user_context   passed to it
 *
 * Flags:
 *   SPT_READ_ONLY         open for reading: no file is changed or created
 *   SPT_NO_CREATE         the file must exist
 *   SPT_CREATE_NEW        the file must not exist
 *   SPT_PUBLISH_COUNTERS  write the counters to a file `<path>-stats` a few times a second, for other processes
 *
 * Durability:
 *   SPT_DURABILITY_NONE   writes reach the file with the next checkpoint, spt_sync or close: for bulk loads
 *   SPT_DURABILITY_OS     a write that has returned survives the end of the process, however it ends: the default
 *   SPT_DURABILITY_SYNC   a write that has returned survives a power loss. So do answers: SPT_EXISTS, SPT_NOT_FOUND of
 *                         spt_remove, and SPT_DIFFERS wait until what they depend on is durable. Lookups and scans do
 *                         not wait, and may see another thread's write before it has returned
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

#define SPT_DURABILITY_NONE 1u
#define SPT_DURABILITY_OS 2u
#define SPT_DURABILITY_SYNC 3u

/** spt_open, spt_open_in_memory - open a table
 *
 * spt_open opens the table in the file at `path`, and creates it if it is absent. After a crash it replays the log.
 * While the table is open for writing there are other files beside it, with names that begin with its own: do not
 * rename or remove any of them. Symbolic links are followed.
 *
 * spt_open_in_memory makes an empty table that is gone when it is closed.
 *
 * `options` may be NULL. `*table` is the handle, which spt_close ends, or NULL after a failure; then
 * spt_error_message(NULL) describes it.
 *
 * Errors:
 *   SPT_IO                a failed system call: see spt_error_errno
 *   SPT_DISK_FULL         a new table does not fit
 *   SPT_LOCKED            another process, or another handle, has it open for writing
 *   SPT_NOT_A_TABLE       another file, or one that is empty by a half-done copy
 *   SPT_OTHER_VERSION     upgrade splitpoint
 *   SPT_CORRUPT           restore a backup, or see spt_salvage
 *   SPT_WRONG_HASH        the options ask for another hash function or seed, or the table has a user's own
 *   SPT_INVALID_ARGUMENT  options out of range; or the file has several hard links, or is mounted by itself: its log
 *                         would not be found by its other name
 *   SPT_OUT_OF_MEMORY     no memory, no address space, or a million open handles
 */
spt_status spt_open(const char *path, const spt_options *options, spt_table **table);
spt_status spt_open_in_memory(const spt_options *options, spt_table **table);

/** spt_close - close a table
 *
 * Makes all writes durable and ends the handle. The result says whether everything reached the file; whatever it is
 * but SPT_IN_USE, the handle is closed. NULL is no error.
 *
 * Errors:
 *   SPT_IN_USE            cursors, batches or views are open, or it is called from a callback: the table stays open
 *   SPT_IO SPT_DISK_FULL  what the log holds is kept, and the next open replays it
 *   SPT_POISONED          an earlier failure: the next open finds what was durable by then
 *   SPT_FORKED            in a child of the process that opened it: closed here, and untouched in the parent
 */
spt_status spt_close(spt_table *table);

/** spt_get, spt_get_alloc, spt_contains - look a key up
 *
 * spt_get copies the value to `buffer`, which has `capacity` bytes, and its length to `*value_len`. If the value is
 * longer, the buffer is left alone, `*value_len` is the length that it needs, and the result is SPT_TOO_SMALL; so a
 * call with NULL and 0 asks for the length. Another thread may replace the value before the next try.
 *
 * spt_get_alloc makes a copy that you free with spt_free. A zero byte follows it, which is not counted.
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
 *   SPT_IO SPT_CORRUPT SPT_STALE  where the page has to be read from the file
 */
spt_status spt_get(spt_table *table, const void *key, size_t key_len, void *buffer, size_t capacity,
                   size_t *value_len);
spt_status spt_get_alloc(spt_table *table, const void *key, size_t key_len, void **value, size_t *value_len);
spt_status spt_contains(spt_table *table, const void *key, size_t key_len);

/** spt_put, spt_insert, spt_append, spt_remove - change a pair
 *
 * spt_put stores the value, replacing an earlier one. spt_insert stores it only if the key is absent. spt_append
 * appends `tail` to the value, which is empty if the key is absent; `*value_len`, unless it is NULL, is the new length.
 * spt_remove removes the pair.
 *
 * When a call has returned, the change is as durable as the options ask. A call takes constant time, apart from the
 * bytes that it copies: a long value moves when appends outgrow its room, which is then made a quarter larger.
 *
 * Returns:
 *   SPT_OK                done
 *   SPT_EXISTS            spt_insert: the key is present, and keeps its value
 *   SPT_NOT_FOUND         spt_remove: the key is absent
 *   SPT_TOO_LONG          the key, or the value with what is appended, is longer than 4 GiB - 1
 *   SPT_IS_READ_ONLY      the table is open for reading
 *   SPT_DISK_FULL         nothing has changed
 *   SPT_BUSY              nothing has changed: the log is full while a backup runs
 *   SPT_WOULD_DEADLOCK    nothing has changed: this thread holds a view of the same page
 *   SPT_IO SPT_CORRUPT    where a page has to be read from the file
 */
spt_status spt_put(spt_table *table, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_insert(spt_table *table, const void *key, size_t key_len, const void *value, size_t value_len);
spt_status spt_append(spt_table *table, const void *key, size_t key_len, const void *tail, size_t tail_len,
                      size_t *value_len);
spt_status spt_remove(spt_table *table, const void *key, size_t key_len);

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
 * that open it for reading see them. Other threads go on meanwhile. Checkpoints are also made as the log fills, and by
 * spt_close.
 *
 * For tables in memory and tables opened for reading both do nothing.
 *
 * Errors:
 *   SPT_IO SPT_DISK_FULL  the handle takes no more writes: close it, and open the table again
 */
spt_status spt_sync(spt_table *table);
spt_status spt_checkpoint(spt_table *table);

/** spt_scan, spt_scan_prefix - open a cursor on the pairs of a table
 *
 * spt_scan opens a cursor at `position` in hash order; 0 is the beginning, other positions are from
 * spt_cursor_position, in this process or an earlier one. spt_scan_prefix opens one on the pairs whose positions start
 * with the high `bits` bits of `prefix`: with bits = 2 and the prefixes 0, 1 << 62, 2 << 62 and 3 << 62, four threads
 * or machines walk a quarter of the table each.
 *
 * The table may change during a scan. A key that is present throughout is returned exactly once; one that is added or
 * removed in the meantime at most once. So it is safe to remove each pair as it is returned.
 *
 * `*cursor` is the handle, which spt_cursor_close ends before the table is closed. Opening one reads nothing.
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
 * spt_cursor_position sets `*position` to where spt_scan goes on after the pairs returned so far, however the table
 * has changed by then. Pairs with equal hashes are never divided: if the next pair has the hash of the last one, the
 * position is before both, and a resumed scan returns the last one again. `*at_boundary`, unless it is NULL, is 1 if
 * that is not so, and else 0.
 *
 * spt_cursor_close ends the cursor. NULL is no error.
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
 *   SPT_IO SPT_CORRUPT SPT_STALE  a page could not be read; the next call goes on after its bucket
 *   SPT_IN_USE  another thread is using the cursor
 */
spt_status spt_cursor_next(spt_cursor *cursor, spt_bytes *key, spt_bytes *value);
spt_status spt_cursor_position(spt_cursor *cursor, uint64_t *position, int *at_boundary);
spt_status spt_cursor_close(spt_cursor *cursor);

#ifdef __cplusplus
}
#endif

#endif

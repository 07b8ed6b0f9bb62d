/* store: one table as the old interfaces see it.
 *
 * open(2)'s flags and errno instead of options and codes; what a call returns stays valid until the next one, in memory
 * of the store; one walk at a time, which deletions and insertions do not disturb; a reader that opens its table again
 * when a writer has replaced it.
 *
 *   ndbm.c, dbm.c, gdbm.c, db185.c  ->  store.c  ->  splitpoint.h
 *
 * Functions return 0 for success, 1 for "no" (the key is absent, or present already; the end of a walk), and -1 with
 * errno set. One thread at a time uses a store.
 *
 * Not here: names of files other than the table's (ndbm.c), the structs that programs see. */
#ifndef SPLITPOINT_COMPAT_STORE_H
#define SPLITPOINT_COMPAT_STORE_H

#include <splitpoint.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct store;

/* Bytes of the store's own, or of the caller's. */
struct span {
    const void *bytes;
    size_t len;
};

/* Opens the table in the file at `path` as open(2) would open the file: O_RDONLY or not, O_CREAT, O_EXCL, O_TRUNC,
 * O_NOFOLLOW; O_WRONLY is O_RDWR. A new file has the permissions of `mode` less the umask's. A `path` of NULL means a
 * table in memory. `shape` has the options for a new table and for the cache. Returns NULL with errno set:
 *
 *   EAGAIN     another process or handle has it open for writing
 *   EINVAL     not a table, or one of another version or hash function; options out of range
 *   EIO        the table is damaged
 *   ...        what open(2) gives */
struct store *store_open(const char *path, int flags, mode_t mode, const spt_options *shape);

/* open(2), with a descriptor above 2: messages for standard error would go into a file that has its descriptor. */
int open_above_standard(const char *path, int flags, mode_t mode);

/* Closes and frees it, also after a failure. */
int store_close(struct store *store);

/* The value of `key`. */
int store_get(struct store *store, struct span key, struct span *value);

/* Stores a pair; without `replace`, 1 if the key is present. */
int store_put(struct store *store, struct span key, struct span value, bool replace);

/* Removes a pair. */
int store_remove(struct store *store, struct span key);

/* The first pair of a walk; the next one; and the one after `key`, which need not be present any more. `value` may be
 * NULL. A key that is present all the time is given once. One that was removed is not given afterwards. */
int store_first(struct store *store, struct span *key, struct span *value);
int store_next(struct store *store, struct span *key, struct span *value);
int store_after(struct store *store, struct span after, struct span *key, struct span *value);

/* The key that the walk gave last; 1 before the first. */
int store_current(const struct store *store, struct span *key);

/* Makes all changes so far safe from a power loss, and visible to readers. */
int store_sync(struct store *store);

/* Asks the table itself, for what has no function here: `question` gets the table and `context`, and is asked again if
 * a reader's table was out of date. A reader of an empty file has no table: 1. */
int store_ask(struct store *store, spt_status (*question)(spt_table *table, void *context), void *context);

/* A descriptor of the table's file, for fstat, locks and the like; -1 with ENOENT for a table in memory. */
int store_descriptor(const struct store *store);

bool store_read_only(const struct store *store);

/* Makes a store that was opened for reading open its table for writing at the first change. */
void store_write_later(struct store *store);

#endif

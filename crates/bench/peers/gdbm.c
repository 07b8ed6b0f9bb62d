/* gdbm: extendible hashing, a directory and buckets, in a mapped file.
 *
 * Settings: "default" (the cache of buckets grows with the directory by itself), "cached" (a cache given at the start
 * for 2.2 x the payload, and no file lock: a process alone). gdbm has no hint of the size.
 * A get is gdbm's own allocation, freed at the next one: it has no other. Append is a fetch and a store.
 * Closing syncs, so the close of a gdbm costs what the sync of another peer costs. */
#include <gdbm.h>
#include <limits.h>
#include <stdlib.h>

#include "adapter.h"

struct store {
    GDBM_FILE file;
    datum found; /* the last get's */
    struct scratch joined;
};

static int failed(struct store *store, const char *what)
{
    return peer_fail("gdbm: %s: %s", what, gdbm_db_strerror(store->file));
}

static const char *version(void)
{
    return peer_version("%d.%d.%d", gdbm_version_number[0], gdbm_version_number[1], gdbm_version_number[2]);
}

static int set_cache(struct store *store, uint64_t cache_bytes)
{
    int block_bytes;
    if (gdbm_setopt(store->file, GDBM_GETBLOCKSIZE, &block_bytes, sizeof block_bytes))
        return failed(store, "read the block size");
    size_t blocks = cache_bytes / (size_t)block_bytes + 1000;
    return gdbm_setopt(store->file, GDBM_SETCACHESIZE, &blocks, sizeof blocks) ? failed(store, "set the cache") : 0;
}

static int close_store(void *opened)
{
    struct store *store = opened;
    int status = gdbm_close(store->file);
    free(store->found.dptr);
    free(store->joined.bytes);
    free(store);
    return status ? peer_fail("gdbm: close: %s", gdbm_strerror(gdbm_errno)) : 0;
}

static int open_store(const struct peer_options *options, void **opened)
{
    int cached = peer_is_set(options, "cached");
    int flags = (options->create ? GDBM_NEWDB : GDBM_WRITER) | (cached ? GDBM_NOLOCK : 0);
    *opened = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("gdbm: no memory");
    store->file = gdbm_open(options->path, 0, flags, 0644, NULL);
    if (!store->file) {
        free(store);
        return peer_fail("gdbm: open %s: %s", options->path, gdbm_strerror(gdbm_errno));
    }
    if (cached && set_cache(store, options->payload_bytes * 22 / 10)) {
        close_store(store);
        return -1;
    }
    *opened = store;
    return 0;
}

static int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct store *store = opened;
    if (key_len > INT_MAX || value_len > INT_MAX)
        return peer_fail("gdbm: key and value are at most %d bytes", INT_MAX);
    datum name = {(char *)key, (int)key_len}, data = {(char *)value, (int)value_len};
    return gdbm_store(store->file, name, data, GDBM_REPLACE) ? failed(store, "store") : 0;
}

static int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct store *store = opened;
    datum name = {(char *)key, (int)key_len};
    free(store->found.dptr);
    store->found = gdbm_fetch(store->file, name);
    if (!store->found.dptr)
        return gdbm_last_errno(store->file) == GDBM_ITEM_NOT_FOUND ? 0 : failed(store, "fetch");
    *value = store->found.dptr;
    *value_len = (size_t)store->found.dsize;
    return 1;
}

extern const struct peer peer_gdbm;

static int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len)
{
    struct store *store = opened;
    return peer_append(&peer_gdbm, store, &store->joined, key, key_len, tail, tail_len);
}

static int remove_key(void *opened, const void *key, size_t key_len)
{
    struct store *store = opened;
    datum name = {(char *)key, (int)key_len};
    if (!gdbm_delete(store->file, name))
        return 1;
    return gdbm_last_errno(store->file) == GDBM_ITEM_NOT_FOUND ? 0 : failed(store, "delete");
}

static int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
                void *context)
{
    struct store *store = opened;
    int result = 0;
    datum key = gdbm_firstkey(store->file);
    while (key.dptr && !result) {
        const void *value = NULL;
        size_t value_len = 0;
        if (with_values && get(store, key.dptr, (size_t)key.dsize, &value, &value_len) != 1)
            result = peer_fail("gdbm: scan: a key has no value");
        else
            result = each(context, key.dptr, (size_t)key.dsize, value, value_len);
        datum next = gdbm_nextkey(store->file, key);
        free(key.dptr);
        key = next;
    }
    free(key.dptr);
    if (!result && gdbm_last_errno(store->file) != GDBM_ITEM_NOT_FOUND)
        return failed(store, "scan");
    return result;
}

static int sync_store(void *opened)
{
    struct store *store = opened;
    return gdbm_sync(store->file) ? failed(store, "sync") : 0;
}

static const char *const settings[] = {"default", "cached", NULL};

const struct peer peer_gdbm = {
    .name = "gdbm", .settings = settings, .in_memory = 0, .in_file = 1, .version = version, .open = open_store,
    .put = put, .append = append, .get = get, .remove = remove_key, .scan = scan, .sync = sync_store,
    .end_of_puts = NULL, .close = close_store, .error = peer_error,
};

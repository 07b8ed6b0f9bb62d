/* LMDB: a B+ tree in a mapped file, copy on write.
 *
 * Settings: "default" writes pages with pwrite, "writemap" (MDB_WRITEMAP) through the map; its file then shows the
 * map's sparse length, so count blocks, not bytes. Both put 10,000 operations into a transaction and do not sync on
 * commit (MDB_NOSYNC): one commit an operation would measure the disk, which no other peer here does.
 * Reads share one read transaction, which ends when writing begins; otherwise old pages could not be reused.
 * A get is LMDB's pointer into the map. Append: one descent, then a write at the cursor (LMDB has no such operation).
 * A file PATH-lock is beside it. Limit: keys of 1 to 511 bytes. */
#include <lmdb.h>
#include <stdlib.h>
#include <unistd.h>

#include "adapter.h"

enum { OPERATIONS_PER_COMMIT = 10000 };

struct store {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *write;         /* NULL between transactions */
    MDB_cursor *at;         /* of `write` */
    unsigned operations;    /* in `write` */
    MDB_txn *read;          /* made once, then reset and renewed */
    int reading;            /* whether `read` is renewed */
    struct scratch joined;
};

static int failed(const char *what, int status) { return peer_fail("lmdb: %s: %s", what, mdb_strerror(status)); }

static const char *version(void)
{
    int major, minor, patch;
    mdb_version(&major, &minor, &patch);
    return peer_version("%d.%d.%d", major, minor, patch);
}

static int end_of_puts(void *opened)
{
    struct store *store = opened;
    if (!store->write)
        return 0;
    int status = mdb_txn_commit(store->write); /* frees the cursor too */
    store->write = NULL;
    store->operations = 0;
    return status ? failed("commit", status) : 0;
}

/* Opens a write transaction if none is open. */
static int begin_write(struct store *store)
{
    if (store->write)
        return 0;
    if (store->reading) {
        mdb_txn_reset(store->read);
        store->reading = 0;
    }
    int status = mdb_txn_begin(store->env, NULL, 0, &store->write);
    if (status)
        return failed("begin a write transaction", status);
    status = mdb_cursor_open(store->write, store->dbi, &store->at);
    if (!status)
        return 0;
    mdb_txn_abort(store->write);
    store->write = NULL;
    return failed("open a cursor", status);
}

/* Counts an operation of the write transaction, and commits a full one. */
static int wrote(struct store *store, const char *what, int status)
{
    if (status)
        return failed(what, status);
    return ++store->operations < OPERATIONS_PER_COMMIT ? 0 : end_of_puts(store);
}

/* The transaction for reads: the write transaction, which sees its own pairs, or the read transaction. */
static int begin_read(struct store *store, MDB_txn **transaction)
{
    int status = 0;
    *transaction = store->write;
    if (store->write)
        return 0;
    if (!store->read)
        status = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->read);
    else if (!store->reading)
        status = mdb_txn_renew(store->read);
    store->reading = status == 0;
    *transaction = store->read;
    return status ? failed("begin a read transaction", status) : 0;
}

static int close_store(void *opened)
{
    struct store *store = opened;
    int result = end_of_puts(store);
    if (store->read)
        mdb_txn_abort(store->read);
    mdb_env_close(store->env);
    free(store->joined.bytes);
    free(store);
    return result;
}

/* Pages are half full after random inserts, and values over 2 kB round up to whole pages: 8 x the payload is ample,
 * and costs address space only. */
static size_t map_bytes(const struct peer_options *options) { return 8 * options->payload_bytes + ((size_t)1 << 30); }

static int open_dbi(struct store *store)
{
    int status = mdb_txn_begin(store->env, NULL, 0, &store->write);
    if (status)
        return failed("begin", status);
    status = mdb_dbi_open(store->write, NULL, 0, &store->dbi);
    return status ? failed("open the database", status) : end_of_puts(store);
}

static int open_store(const struct peer_options *options, void **opened)
{
    unsigned flags = MDB_NOSUBDIR | MDB_NOSYNC | (peer_is_set(options, "writemap") ? MDB_WRITEMAP : 0);
    *opened = NULL;
    if (options->create)
        unlink(options->path);
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("lmdb: no memory");
    int status = mdb_env_create(&store->env);
    if (status) {
        free(store);
        return failed("create the environment", status);
    }
    status = mdb_env_set_mapsize(store->env, map_bytes(options));
    if (!status)
        status = mdb_env_open(store->env, options->path, flags, 0644);
    int result = status ? failed("open", status) : open_dbi(store);
    if (result) {
        close_store(store);
        return result;
    }
    *opened = store;
    return 0;
}

static int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct store *store = opened;
    if (begin_write(store))
        return -1;
    MDB_val name = {key_len, (void *)key}, data = {value_len, (void *)value};
    return wrote(store, "put", mdb_cursor_put(store->at, &name, &data, 0));
}

static int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len)
{
    struct store *store = opened;
    if (begin_write(store))
        return -1;
    MDB_val name = {key_len, (void *)key}, old, data = {tail_len, (void *)tail};
    int status = mdb_cursor_get(store->at, &name, &old, MDB_SET);
    if (status == MDB_NOTFOUND)
        return wrote(store, "append", mdb_cursor_put(store->at, &name, &data, 0));
    if (status)
        return failed("append", status);
    data.mv_size = old.mv_size + tail_len;
    data.mv_data = scratch_join(&store->joined, old.mv_data, old.mv_size, tail, tail_len);
    if (!data.mv_data)
        return -1;
    return wrote(store, "append", mdb_cursor_put(store->at, &name, &data, MDB_CURRENT));
}

static int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct store *store = opened;
    MDB_txn *transaction;
    MDB_val name = {key_len, (void *)key}, data;
    if (begin_read(store, &transaction))
        return -1;
    int status = mdb_get(transaction, store->dbi, &name, &data);
    if (status == MDB_NOTFOUND)
        return 0;
    if (status)
        return failed("get", status);
    *value = data.mv_data;
    *value_len = data.mv_size;
    return 1;
}

static int remove_key(void *opened, const void *key, size_t key_len)
{
    struct store *store = opened;
    if (begin_write(store))
        return -1;
    MDB_val name = {key_len, (void *)key};
    int status = mdb_del(store->write, store->dbi, &name, NULL);
    if (status == MDB_NOTFOUND)
        return 0;
    return wrote(store, "remove", status) ? -1 : 1;
}

static int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
                void *context)
{
    struct store *store = opened;
    MDB_txn *transaction;
    MDB_cursor *at;
    MDB_val key, data = {0, NULL};
    if (begin_read(store, &transaction))
        return -1;
    int result = 0, status = mdb_cursor_open(transaction, store->dbi, &at);
    if (status)
        return failed("scan", status);
    while (!result && !(status = mdb_cursor_get(at, &key, with_values ? &data : NULL, MDB_NEXT)))
        result = each(context, key.mv_data, key.mv_size, data.mv_data, data.mv_size);
    mdb_cursor_close(at);
    return status && status != MDB_NOTFOUND ? failed("scan", status) : result;
}

static int sync_store(void *opened)
{
    struct store *store = opened;
    if (end_of_puts(store))
        return -1;
    int status = mdb_env_sync(store->env, 1);
    return status ? failed("sync", status) : 0;
}

static const char *const settings[] = {"default", "writemap", NULL};

const struct peer peer_lmdb = {
    .name = "lmdb", .settings = settings, .in_memory = 0, .in_file = 1, .version = version, .open = open_store,
    .put = put, .append = append, .get = get, .remove = remove_key, .scan = scan, .sync = sync_store,
    .end_of_puts = end_of_puts, .close = close_store, .error = peer_error,
};

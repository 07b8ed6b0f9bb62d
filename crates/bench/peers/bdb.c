/* Berkeley DB 5.3, as a hash table (bdb-hash: linear hashing, our closest relative) and as a B+ tree (bdb-btree).
 *
 * Settings: "default" (only the cache is tuned) and, for the hash, "sized": set_h_nelem and set_h_ffactor, which
 * its manual requires together; the fill factor is the manual's formula for the mean pair.
 * The cache is 2.2 x the payload in a file and 4 x in memory, where what does not fit would go to a temporary file; at
 * least 64 MiB. No environment, so no log, locks or transactions: the cache is the handle's own. With "log=" there is an
 * environment with a log whose buffer has so many bytes, and each put is a transaction that is written to the system's
 * cache when it commits (DB_TXN_WRITE_NOSYNC), which is what our `os` promises; no locks, as there is one thread.
 * A get is Berkeley DB's copy in its own memory (it has no zero-copy get). Append: a get by a cursor, then a partial
 * put at its end. A scan is a bulk read (DB_MULTIPLE_KEY). Closing syncs. */
#include <db.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"

enum { CACHE_BYTES_MIN = 64 << 20, PAGE_BYTES = 4096, BULK_BYTES_MIN = 1 << 20 };

struct store {
    DB_ENV *log;  /* the environment that has it; NULL without one */
    DB *db;
    DBC *at;      /* for append */
    int in_file;
    struct scratch bulk;
};

static int failed(const char *what, int status) { return peer_fail("Berkeley DB: %s: %s", what, db_strerror(status)); }

static const char *version(void)
{
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    return peer_version("%d.%d.%d", major, minor, patch);
}

/* The number after `word` in the setting, which may be words between commas ("sized,page=1024"); -1 without that word. */
static int64_t number_of(const struct peer_options *options, const char *word)
{
    const char *at = strstr(options->setting, word);
    return at ? strtoll(at + strlen(word), NULL, 10) : -1;
}

static uint64_t cache_bytes(const struct peer_options *options)
{
    uint64_t bytes = options->path ? options->payload_bytes * 22 / 10 : options->payload_bytes * 4;
    if (bytes < CACHE_BYTES_MIN)
        bytes = CACHE_BYTES_MIN;
    if (number_of(options, "cache=") >= 0)
        bytes = (uint64_t)number_of(options, "cache=");
    if (number_of(options, "part=") > 0)
        bytes = options->payload_bytes / (uint64_t)number_of(options, "part=");
    return bytes;
}

/* The cache belongs to the environment, if there is one. */
static int set_cache(const struct store *store, const struct peer_options *options)
{
    uint64_t bytes = cache_bytes(options);
    u_int32_t gigabytes = (u_int32_t)(bytes >> 30), rest = bytes & ((1 << 30) - 1);
    int regions = 1 + (int)(bytes >> 31); /* one may have at most 4 GB */
    if (store->log)
        return store->log->set_cachesize(store->log, gigabytes, rest, regions);
    return store->db->set_cachesize(store->db, gigabytes, rest, regions);
}

/* An environment in the directory of the file, with a log and transactions, known to this process alone. */
static int open_log(struct store *store, const struct peer_options *options)
{
    char *home = strdup(options->path), *slash = home ? strrchr(home, '/') : NULL;
    if (!slash) {
        free(home);
        return EINVAL;
    }
    *slash = 0;
    u_int32_t flags = DB_CREATE | DB_PRIVATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN;
    int status = store->log->set_lg_bsize(store->log, (u_int32_t)number_of(options, "log="));
    if (!status)
        status = set_cache(store, options);
    if (!status)
        status = store->log->set_flags(store->log, DB_AUTO_COMMIT | DB_TXN_WRITE_NOSYNC, 1);
    if (!status)
        status = store->log->open(store->log, home, flags, 0644);
    free(home);
    return status;
}

/* The manual's fill factor: (page size - 32) / (mean key + mean value + 8), with the page that files have by default
 * (in memory that is twice as large). The bucket holds only a reference to a value above a quarter of the page: 64
 * bytes then count for it and the key. */
static int set_size(DB *db, const struct peer_options *options)
{
    uint64_t pairs = options->expected_len ? options->expected_len : 1;
    uint64_t pair_bytes = options->payload_bytes / pairs;
    if (pair_bytes > PAGE_BYTES / 4)
        pair_bytes = 64;
    int status = db->set_pagesize(db, PAGE_BYTES);
    if (!status)
        status = db->set_h_ffactor(db, (u_int32_t)((PAGE_BYTES - 32) / (pair_bytes + 8)));
    return status ? status : db->set_h_nelem(db, (u_int32_t)pairs);
}

/* "page=", "fill=" and "sized" with one of them: taken literally, nothing computed. */
static int set_shape(DB *db, const struct peer_options *options)
{
    int64_t page_bytes = number_of(options, "page="), fill_factor = number_of(options, "fill=");
    int status = page_bytes > 0 ? db->set_pagesize(db, (u_int32_t)page_bytes) : 0;
    if (!status && fill_factor > 0)
        status = db->set_h_ffactor(db, (u_int32_t)fill_factor);
    if (!status && strstr(options->setting, "sized"))
        status = db->set_h_nelem(db, (u_int32_t)options->expected_len);
    return status;
}

static int close_store(void *opened)
{
    struct store *store = opened;
    if (store->at)
        store->at->close(store->at);
    int status = store->db ? store->db->close(store->db, 0) : 0;
    int log_status = store->log ? store->log->close(store->log, 0) : 0;
    if (!status)
        status = log_status;
    free(store->bulk.bytes);
    free(store);
    return status ? failed("close", status) : 0;
}

static int open_store(const struct peer_options *options, void **opened, DBTYPE type)
{
    *opened = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("Berkeley DB: no memory");
    store->in_file = options->path != NULL;
    int status = 0;
    if (options->path && number_of(options, "log=") >= 0) {
        status = db_env_create(&store->log, 0);
        if (!status)
            status = open_log(store, options);
    }
    if (!status)
        status = db_create(&store->db, store->log, 0);
    if (!status && !store->log)
        status = set_cache(store, options);
    int shaped = number_of(options, "page=") > 0 || number_of(options, "fill=") > 0;
    if (!status && strstr(options->setting, "sized") && !shaped)
        status = set_size(store->db, options);
    else if (!status && shaped)
        status = set_shape(store->db, options);
    u_int32_t flags = !options->create ? 0 : options->path && !store->log ? DB_CREATE | DB_TRUNCATE : DB_CREATE;
    if (!status)
        status = store->db->open(store->db, NULL, options->path, NULL, type, flags, 0644);
    if (!status)
        status = store->db->cursor(store->db, NULL, &store->at, 0);
    if (status) {
        close_store(store);
        return failed("open", status);
    }
    *opened = store;
    return 0;
}

static int open_hash(const struct peer_options *options, void **opened)
{
    return open_store(options, opened, DB_HASH);
}

static int open_btree(const struct peer_options *options, void **opened)
{
    return open_store(options, opened, DB_BTREE);
}

static DBT dbt(const void *bytes, size_t len)
{
    DBT filled = {.data = (void *)bytes, .size = (u_int32_t)len};
    return filled;
}

static int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct store *store = opened;
    if (key_len > UINT32_MAX || value_len > UINT32_MAX)
        return peer_fail("Berkeley DB: key and value are at most %u bytes", UINT32_MAX);
    DBT name = dbt(key, key_len), data = dbt(value, value_len);
    int status = store->db->put(store->db, NULL, &name, &data, 0);
    return status ? failed("put", status) : 0;
}

static int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len)
{
    struct store *store = opened;
    DBT name = dbt(key, key_len), old = dbt(NULL, 0), data = dbt(tail, tail_len);
    int status = store->at->get(store->at, &name, &old, DB_SET);
    if (status == DB_NOTFOUND)
        return put(store, key, key_len, tail, tail_len);
    if (status)
        return failed("append", status);
    data.flags = DB_DBT_PARTIAL;
    data.doff = old.size;
    status = store->at->put(store->at, &name, &data, DB_CURRENT);
    return status ? failed("append", status) : 0;
}

static int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct store *store = opened;
    DBT name = dbt(key, key_len), data = dbt(NULL, 0);
    int status = store->db->get(store->db, NULL, &name, &data, 0);
    if (status == DB_NOTFOUND)
        return 0;
    if (status)
        return failed("get", status);
    *value = data.data;
    *value_len = data.size;
    return 1;
}

static int remove_key(void *opened, const void *key, size_t key_len)
{
    struct store *store = opened;
    DBT name = dbt(key, key_len);
    int status = store->db->del(store->db, NULL, &name, 0);
    if (status == DB_NOTFOUND)
        return 0;
    return status ? failed("remove", status) : 1;
}

/* Reads the next pairs into `store->bulk`, enlarged if a pair does not fit. */
static int next_bulk(struct store *store, DBC *at, DBT *bulk)
{
    DBT key = dbt(NULL, 0);
    size_t len = BULK_BYTES_MIN;
    for (;;) {
        bulk->data = scratch_room(&store->bulk, len);
        if (!bulk->data)
            return ENOMEM;
        bulk->ulen = (u_int32_t)(store->bulk.capacity & ~(size_t)1023);
        int status = at->get(at, &key, bulk, DB_NEXT | DB_MULTIPLE_KEY);
        if (status != DB_BUFFER_SMALL)
            return status;
        len = 2 * (size_t)bulk->ulen > bulk->size ? 2 * (size_t)bulk->ulen : bulk->size + 1024;
    }
}

static int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
                void *context)
{
    struct store *store = opened;
    DBC *at;
    DBT bulk = {.flags = DB_DBT_USERMEM};
    int result = 0, status = store->db->cursor(store->db, NULL, &at, DB_CURSOR_BULK);
    if (status)
        return failed("scan", status);
    while (!result && !(status = next_bulk(store, at, &bulk))) {
        void *place, *key, *value;
        size_t key_len, value_len;
        DB_MULTIPLE_INIT(place, &bulk);
        while (!result) {
            DB_MULTIPLE_KEY_NEXT(place, &bulk, key, key_len, value, value_len);
            if (!place)
                break;
            result = with_values ? each(context, key, key_len, value, value_len) : each(context, key, key_len, NULL, 0);
        }
    }
    at->close(at);
    return status && status != DB_NOTFOUND ? failed("scan", status) : result;
}

static int sync_store(void *opened)
{
    struct store *store = opened;
    int status = store->in_file ? store->db->sync(store->db, 0) : 0;
    return status ? failed("sync", status) : 0;
}

static const char *const hash_settings[] = {"default", "sized", "page=", "fill=", "cache=", "part=", "log=", NULL};
static const char *const btree_settings[] = {"default", NULL};

const struct peer peer_bdb_hash = {
    .name = "bdb-hash", .settings = hash_settings, .in_memory = 1, .in_file = 1, .version = version, .open = open_hash,
    .put = put, .append = append, .get = get, .remove = remove_key, .scan = scan, .sync = sync_store,
    .end_of_puts = NULL, .close = close_store, .error = peer_error,
};

const struct peer peer_bdb_btree = {
    .name = "bdb-btree", .settings = btree_settings, .in_memory = 1, .in_file = 1, .version = version,
    .open = open_btree, .put = put, .append = append, .get = get, .remove = remove_key, .scan = scan,
    .sync = sync_store, .end_of_puts = NULL, .close = close_store, .error = peer_error,
};

/* LMDB loaded in the order of its keys with MDB_APPEND, which fills its pages, and then only read.
 *
 * Settings: "default" reads with the kernel's readahead; "best" writes through the map without a sync a commit
 * (MDB_WRITEMAP) and reads without readahead (MDB_NORDAHEAD), which for reads in random order from a cold cache brings less.
 * Transactions are limited in pairs, so that memory stays bounded. All is synced at the end. Limit: keys of 1 to 511 bytes. */
#include <lmdb.h>
#include <stdlib.h>
#include <unistd.h>

#include "adapter.h"

enum { PAIRS_PER_COMMIT = 100000 };

struct build {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *write;
    MDB_cursor *at;
    unsigned pairs;
};

static int failed(const char *what, int status) { return peer_fail("lmdb: %s: %s", what, mdb_strerror(status)); }

static const char *version(void)
{
    int major, minor, patch;
    mdb_version(&major, &minor, &patch);
    return peer_version("%d.%d.%d", major, minor, patch);
}

/* Address space alone, and with MDB_WRITEMAP the length of the file, not its blocks. */
static size_t map_bytes(const struct peer_options *options)
{
    return 3 * options->payload_bytes + 128 * options->expected_len + ((size_t)64 << 20);
}

static void abandon(void *begun)
{
    struct build *build = begun;
    if (build->write)
        mdb_txn_abort(build->write);
    mdb_env_close(build->env);
    free(build);
}

static int begin_write(struct build *build)
{
    int status = mdb_txn_begin(build->env, NULL, 0, &build->write);
    if (!status && !build->dbi)
        status = mdb_dbi_open(build->write, NULL, 0, &build->dbi);
    if (!status)
        status = mdb_cursor_open(build->write, build->dbi, &build->at);
    return status ? failed("begin", status) : 0;
}

static int commit(struct build *build)
{
    int status = mdb_txn_commit(build->write); /* frees the cursor too */
    build->write = NULL;
    build->pairs = 0;
    return status ? failed("commit", status) : 0;
}

static int begin(const struct peer_options *options, void **begun)
{
    *begun = NULL;
    unlink(options->path);
    struct build *build = calloc(1, sizeof *build);
    if (!build)
        return peer_fail("lmdb: no memory");
    int status = mdb_env_create(&build->env);
    if (status) {
        free(build);
        return failed("create the environment", status);
    }
    unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC;
    if (peer_has_word(options, "best", NULL))
        flags |= MDB_WRITEMAP | MDB_NOMEMINIT;
    status = mdb_env_set_mapsize(build->env, map_bytes(options));
    if (!status)
        status = mdb_env_open(build->env, options->path, flags, 0644);
    if (status ? failed("open", status) : begin_write(build)) {
        abandon(build);
        return -1;
    }
    *begun = build;
    return 0;
}

static int add(void *begun, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct build *build = begun;
    if (!build->write && begin_write(build))
        return -1;
    MDB_val name = {key_len, (void *)key}, data = {value_len, (void *)value};
    int status = mdb_cursor_put(build->at, &name, &data, MDB_APPEND);
    if (status)
        return failed("put", status);
    return ++build->pairs < PAIRS_PER_COMMIT ? 0 : commit(build);
}

static int finish(void *begun)
{
    struct build *build = begun;
    int result = build->write ? commit(build) : 0;
    if (!result) {
        int status = mdb_env_sync(build->env, 1);
        result = status ? failed("sync", status) : 0;
    }
    abandon(build);
    return result;
}

struct store {
    MDB_env *env;
    MDB_dbi dbi;
};

static int open_store(const struct peer_options *options, void **opened)
{
    *opened = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("lmdb: no memory");
    int status = mdb_env_create(&store->env);
    if (status) {
        free(store);
        return failed("create the environment", status);
    }
    unsigned flags = MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS;
    if (peer_has_word(options, "best", NULL))
        flags |= MDB_NORDAHEAD;
    MDB_txn *read = NULL;
    status = mdb_env_open(store->env, options->path, flags, 0644);
    if (!status)
        status = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &read);
    if (!status)
        status = mdb_dbi_open(read, NULL, 0, &store->dbi);
    if (!status)
        status = mdb_txn_commit(read);
    else if (read)
        mdb_txn_abort(read);
    if (status) {
        mdb_env_close(store->env);
        free(store);
        return failed("open", status);
    }
    *opened = store;
    return 0;
}

struct reader {
    MDB_txn *read;
    MDB_dbi dbi;
};

static int make_reader(void *opened, void **made)
{
    struct store *store = opened;
    *made = NULL;
    struct reader *reader = malloc(sizeof *reader);
    if (!reader)
        return peer_fail("lmdb: no memory");
    int status = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &reader->read);
    if (status) {
        free(reader);
        return failed("begin to read", status);
    }
    reader->dbi = store->dbi;
    *made = reader;
    return 0;
}

static int get(void *made, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct reader *reader = made;
    MDB_val name = {key_len, (void *)key}, data;
    int status = mdb_get(reader->read, reader->dbi, &name, &data);
    if (status == MDB_NOTFOUND)
        return 0;
    if (status)
        return failed("get", status);
    *value = data.mv_data;
    *value_len = data.mv_size;
    return 1;
}

static void end_reader(void *made)
{
    mdb_txn_abort(((struct reader *)made)->read);
    free(made);
}

static int figure(void *opened, int i, const char **name, double *value)
{
    MDB_stat stat;
    if (i > 0 || mdb_env_stat(((struct store *)opened)->env, &stat))
        return 0;
    *name = "pairs";
    *value = (double)stat.ms_entries;
    return 1;
}

static int close_store(void *opened)
{
    struct store *store = opened;
    mdb_env_close(store->env);
    free(store);
    return 0;
}

static const char *const settings[] = {"default", "best", NULL};

const struct dictionary_peer peer_lmdb_append = {
    .name = "lmdb-append", .settings = settings, .in_order = 1, .version = version, .begin = begin, .add = add,
    .finish = finish, .abandon = abandon, .open = open_store, .reader = make_reader, .get = get,
    .end_reader = end_reader, .figure = figure, .close = close_store, .error = peer_error,
};

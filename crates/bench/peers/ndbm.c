/* ndbm: the interface of 1986, as gdbm's compatibility library gives it today (a gdbm file PATH.pag and a PATH.dir).
 *
 * Setting: "default"; the interface has no other. Values are limited by memory only, not by the page as in 1986.
 * A get is the library's own memory, good until the next fetch. Append is a fetch and a store. The interface has no
 * sync either: it is gdbm's, through the DBM's public member `file`. Closing syncs. */
#include <fcntl.h>
#include <limits.h>
#include <ndbm.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"

struct store {
    DBM *dbm;
    struct scratch joined;
};

static int failed(struct store *store, const char *what)
{
    peer_fail("ndbm: %s: %s", what, gdbm_strerror(store->dbm->_dbm_errno));
    dbm_clearerr(store->dbm);
    return -1;
}

static const char *version(void)
{
    return peer_version("gdbm %d.%d.%d", gdbm_version_number[0], gdbm_version_number[1], gdbm_version_number[2]);
}

static int open_store(const struct peer_options *options, void **opened)
{
    int flags = O_RDWR | (options->create ? O_CREAT | O_TRUNC : 0);
    *opened = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("ndbm: no memory");
    store->dbm = dbm_open((char *)options->path, flags, 0644);
    if (!store->dbm) {
        free(store);
        return peer_fail("ndbm: open %s: %s", options->path, gdbm_strerror(gdbm_errno));
    }
    *opened = store;
    return 0;
}

static int close_store(void *opened)
{
    struct store *store = opened;
    dbm_close(store->dbm);
    free(store->joined.bytes);
    free(store);
    return 0;
}

static int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct store *store = opened;
    if (key_len > INT_MAX || value_len > INT_MAX)
        return peer_fail("ndbm: key and value are at most %d bytes", INT_MAX);
    datum name = {(char *)key, (int)key_len}, data = {(char *)value, (int)value_len};
    return dbm_store(store->dbm, name, data, DBM_REPLACE) ? failed(store, "store") : 0;
}

static int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct store *store = opened;
    datum name = {(char *)key, (int)key_len};
    datum found = dbm_fetch(store->dbm, name);
    if (!found.dptr)
        return dbm_error(store->dbm) ? failed(store, "fetch") : 0;
    *value = found.dptr;
    *value_len = (size_t)found.dsize;
    return 1;
}

extern const struct peer peer_ndbm;

static int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len)
{
    struct store *store = opened;
    return peer_append(&peer_ndbm, store, &store->joined, key, key_len, tail, tail_len);
}

static int remove_key(void *opened, const void *key, size_t key_len)
{
    struct store *store = opened;
    datum name = {(char *)key, (int)key_len};
    if (!dbm_delete(store->dbm, name))
        return 1;
    return dbm_error(store->dbm) ? failed(store, "delete") : 0;
}

static int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
                void *context)
{
    struct store *store = opened;
    for (datum key = dbm_firstkey(store->dbm); key.dptr; key = dbm_nextkey(store->dbm)) {
        const void *value = NULL;
        size_t value_len = 0;
        if (with_values && get(store, key.dptr, (size_t)key.dsize, &value, &value_len) != 1)
            return peer_fail("ndbm: scan: a key has no value");
        int result = each(context, key.dptr, (size_t)key.dsize, value, value_len);
        if (result)
            return result;
    }
    return dbm_error(store->dbm) ? failed(store, "scan") : 0;
}

static int sync_store(void *opened)
{
    struct store *store = opened;
    return gdbm_sync(store->dbm->file) ? peer_fail("ndbm: sync: %s", gdbm_strerror(gdbm_errno)) : 0;
}

static const char *const settings[] = {"default", NULL};

const struct peer peer_ndbm = {
    .name = "ndbm", .settings = settings, .in_memory = 0, .in_file = 1, .version = version, .open = open_store,
    .put = put, .append = append, .get = get, .remove = remove_key, .scan = scan, .sync = sync_store,
    .end_of_puts = NULL, .close = close_store, .error = peer_error,
};

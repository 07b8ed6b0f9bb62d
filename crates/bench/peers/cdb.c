/* cdb, in Debian's tinycdb: two levels of hash tables, one file of at most 4 GiB, mapped.
 *
 * Settings: "default"; "random" (MADV_RANDOM, so that a page fault reads one page and not its neighbours). Pairs are
 * added without a search for earlier ones of the same key. */
#include <cdb.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adapter.h"

struct build {
    struct cdb_make make;
    int fd;
};

static const char *version(void) { return peer_version("tinycdb %.2f", (double)TINYCDB_VERSION); }

static int begin(const struct peer_options *options, void **begun)
{
    *begun = NULL;
    struct build *build = malloc(sizeof *build);
    if (!build)
        return peer_fail("cdb: no memory");
    build->fd = open(options->path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (build->fd < 0 || cdb_make_start(&build->make, build->fd)) {
        free(build);
        return peer_fail("cdb: cannot create %s", options->path);
    }
    *begun = build;
    return 0;
}

static int add(void *begun, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct build *build = begun;
    if (cdb_make_add(&build->make, key, (unsigned)key_len, value, (unsigned)value_len))
        return peer_fail("cdb: add failed: the file may have 4 GiB");
    return 0;
}

static int finish(void *begun)
{
    struct build *build = begun;
    int failed = cdb_make_finish(&build->make) || fsync(build->fd);
    failed |= close(build->fd);
    free(build);
    return failed ? peer_fail("cdb: finish failed") : 0;
}

/* tinycdb has no call to abandon a build; finishing it frees its memory. */
static void abandon(void *begun)
{
    struct build *build = begun;
    cdb_make_finish(&build->make);
    close(build->fd);
    free(build);
}

struct store {
    struct cdb cdb;
    int fd;
};

static int open_store(const struct peer_options *options, void **opened)
{
    *opened = NULL;
    struct store *store = malloc(sizeof *store);
    if (!store)
        return peer_fail("cdb: no memory");
    store->fd = open(options->path, O_RDONLY);
    if (store->fd < 0 || cdb_init(&store->cdb, store->fd)) {
        if (store->fd >= 0)
            close(store->fd);
        free(store);
        return peer_fail("cdb: cannot open %s", options->path);
    }
    if (peer_has_word(options, "random", NULL))
        madvise((void *)store->cdb.cdb_mem, store->cdb.cdb_fsize, MADV_RANDOM);
    *opened = store;
    return 0;
}

/* A reader is a copy that shares the mapping: a find writes into the struct where it found. */
static int reader(void *opened, void **made)
{
    struct cdb *copy = malloc(sizeof *copy);
    *made = copy;
    if (!copy)
        return peer_fail("cdb: no memory");
    *copy = ((struct store *)opened)->cdb;
    return 0;
}

static int get(void *made, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct cdb *cdb = made;
    int found = cdb_find(cdb, key, (unsigned)key_len);
    if (found < 0)
        return peer_fail("cdb: find failed");
    if (!found)
        return 0;
    *value = cdb_getdata(cdb);
    *value_len = cdb_datalen(cdb);
    return *value || !*value_len ? 1 : peer_fail("cdb: the value lies outside the file");
}

static int close_store(void *opened)
{
    struct store *store = opened;
    cdb_free(&store->cdb);
    close(store->fd);
    free(store);
    return 0;
}

static const char *const settings[] = {"default", "random", NULL};

const struct dictionary_peer peer_cdb = {
    .name = "cdb", .settings = settings, .in_order = 0, .version = version, .begin = begin, .add = add,
    .finish = finish, .abandon = abandon, .open = open_store, .reader = reader, .get = get, .end_reader = free,
    .figure = peer_no_figure, .close = close_store, .error = peer_error,
};

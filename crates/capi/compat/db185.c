/* dbopen: a store behind the struct of Berkeley DB 1.85.
 *
 * Source: dbopen(3) and hash(3) of 4.4BSD; Seltzer & Yigit 1991, "Table Parameterization". */
#define _GNU_SOURCE /* as store.c */
#include "include/db.h"

#include "store.h"
#include <errno.h>
#include <stdlib.h>

struct internal {
    struct store *store;
    uint32_t (*hash)(const void *key, size_t len);
};

static struct internal *internal_of(const DB *db) { return db->internal; }

static int invalid(void)
{
    errno = EINVAL;
    return RET_ERROR;
}

/* The program's hash has 32 bits, and buckets are chosen by the low ones. A multiplication spreads them over 64 and
 * keeps different hashes different. */
static uint64_t spread_hash(void *context, const void *key, size_t len)
{
    struct internal *internal = context;
    uint64_t hash = internal->hash(key, len) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

/* The bytes that `dbt` has; -1 for what has none. */
static int span_of(const DBT *dbt, struct span *span)
{
    if (!dbt || (!dbt->data && dbt->size > 0))
        return invalid();
    *span = (struct span){dbt->data, dbt->size};
    return 0;
}

static void give(DBT *dbt, struct span span)
{
    dbt->data = (void *)span.bytes;
    dbt->size = span.len;
}

static int get(const DB *db, const DBT *key, DBT *value, unsigned int flags)
{
    struct span name, found;
    if (flags || !value)
        return invalid();
    if (span_of(key, &name))
        return RET_ERROR;
    int result = store_get(internal_of(db)->store, name, &found);
    if (result == 0)
        give(value, found);
    return result;
}

static int put(const DB *db, DBT *key, const DBT *value, unsigned int flags)
{
    struct span name, bytes;
    if (flags && flags != R_NOOVERWRITE)
        return invalid();
    if (span_of(key, &name) || span_of(value, &bytes))
        return RET_ERROR;
    return store_put(internal_of(db)->store, name, bytes, flags != R_NOOVERWRITE);
}

static int del(const DB *db, const DBT *key, unsigned int flags)
{
    struct store *store = internal_of(db)->store;
    struct span name;
    if (flags && flags != R_CURSOR)
        return invalid();
    if (flags == R_CURSOR ? store_current(store, &name) && invalid() : span_of(key, &name))
        return RET_ERROR;
    return store_remove(store, name);
}

static int seq(const DB *db, DBT *key, DBT *value, unsigned int flags)
{
    struct store *store = internal_of(db)->store;
    struct span found_key, found_value;
    if ((flags != R_FIRST && flags != R_NEXT) || !key || !value)
        return invalid();
    int result = flags == R_FIRST ? store_first(store, &found_key, &found_value)
                                  : store_next(store, &found_key, &found_value);
    if (result == 0) {
        give(key, found_key);
        give(value, found_value);
    }
    return result;
}

static int sync_table(const DB *db, unsigned int flags)
{
    return flags ? invalid() : store_sync(internal_of(db)->store);
}

static int descriptor(const DB *db) { return store_descriptor(internal_of(db)->store); }

static int close_db(DB *db)
{
    if (!db)
        return invalid();
    struct internal *internal = internal_of(db);
    int result = store_close(internal->store);
    free(internal);
    free(db);
    return result;
}

/* The options that `info` asks for. */
static int shape_of(const HASHINFO *info, struct internal *internal, spt_options *shape)
{
    enum { PAGE_BYTES_MIN = 512, PAGE_BYTES_MAX = 65536 };
    if (!info)
        return 0;
    if (info->bsize > PAGE_BYTES_MAX || (info->lorder && info->lorder != 1234 && info->lorder != 4321))
        return invalid();
    if (info->bsize) {
        shape->page_bytes = PAGE_BYTES_MIN;
        while (shape->page_bytes < info->bsize)
            shape->page_bytes *= 2;
    }
    shape->fill_factor = info->ffactor;
    shape->expected_len = info->nelem;
    shape->cache_bytes = info->cachesize;
    if (info->hash) {
        internal->hash = info->hash;
        shape->user_hash = spread_hash;
        shape->user_context = internal;
    }
    return 0;
}

DB *dbopen(const char *name, int flags, int mode, DBTYPE type, const void *info)
{
    spt_options shape = SPT_OPTIONS_INIT;
    if (type != DB_HASH) {
        invalid();
        return NULL;
    }
    struct internal *internal = calloc(1, sizeof *internal);
    DB *db = calloc(1, sizeof *db);
    if (internal && db && shape_of(info, internal, &shape) == 0
        && (internal->store = store_open(name, flags, (mode_t)mode, &shape))) {
        *db = (DB){type, close_db, del, get, put, seq, sync_table, internal, descriptor};
        return db;
    }
    free(internal);
    free(db);
    return NULL;
}

/* The name that programs compiled with Berkeley DB 5.3's db_185.h call. */
__attribute__((alias("dbopen"))) DB *__db185_open(const char *name, int flags, int mode, DBTYPE type, const void *info);

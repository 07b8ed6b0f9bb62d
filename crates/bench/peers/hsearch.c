/* glibc's hsearch_r: open addressing in a table of fixed size, in memory.
 *
 * Setting: "sized" to 1.25 x expected_len; a full table refuses. The table holds pointers: the copies of key and value
 * are this adapter's, packed together in blocks; a value that outgrows its space moves to an allocation of its own,
 * which grows by halves.
 * hsearch compares C strings. So that keys may hold zero bytes, 00 is stored as 01 01, and 01 as 01 02.
 * hsearch's hash sees the first eight bytes of a key only: keys with a common prefix are searched linearly.
 * It has no removal and no iteration: these return an error. */
#define _GNU_SOURCE /* hsearch_r */
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"

enum { BLOCK_BYTES = 1 << 20 };

/* A pair: this header, the key with its final zero, and room for the value as first stored. */
struct item {
    uint32_t item_bytes, value_len;
    char *value; /* in the item, or an allocation */
    char key[];
};

/* A block of items. */
struct block {
    struct block *earlier;
    size_t used, capacity;
    char bytes[];
};

struct store {
    struct hsearch_data table;
    struct block *blocks; /* the latest first */
    struct scratch name;
};

static const char *version(void) { return gnu_get_libc_version(); }

static char *item_end(struct item *item) { return (char *)item + item->item_bytes; }

static int is_in_item(struct item *item) { return item->value >= item->key && item->value <= item_end(item); }

static void free_block(struct block *block)
{
    for (size_t at = 0; at < block->used;) {
        struct item *item = (struct item *)(block->bytes + at);
        if (!is_in_item(item))
            free(item->value);
        at += item->item_bytes;
    }
    free(block);
}

static int close_store(void *opened)
{
    struct store *store = opened;
    hdestroy_r(&store->table);
    while (store->blocks) {
        struct block *earlier = store->blocks->earlier;
        free_block(store->blocks);
        store->blocks = earlier;
    }
    free(store->name.bytes);
    free(store);
    return 0;
}

static int open_store(const struct peer_options *options, void **opened)
{
    *opened = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("hsearch: no memory");
    size_t places = options->expected_len + options->expected_len / 4 + 16;
    if (!hcreate_r(places, &store->table)) {
        free(store);
        return peer_fail("hsearch: no table of %zu places: %s", places, strerror(errno));
    }
    *opened = store;
    return 0;
}

/* The key as hsearch can hold it, in `store->name`. */
static char *c_string(struct store *store, const void *key, size_t key_len)
{
    const unsigned char *from = key;
    char *name = scratch_room(&store->name, 2 * key_len + 1), *to = name;
    if (!name)
        return NULL;
    for (size_t i = 0; i < key_len; i++) {
        if (from[i] > 1) {
            *to++ = (char)from[i];
        } else {
            *to++ = 1;
            *to++ = (char)(1 + from[i]);
        }
    }
    *to = 0;
    return name;
}

/* 1 with the item, 0 absent, negative an error; the key stays in `store->name`. */
static int find(struct store *store, const void *key, size_t key_len, struct item **item)
{
    ENTRY wanted = {.key = c_string(store, key, key_len)}, *found;
    if (!wanted.key)
        return -1;
    if (!hsearch_r(wanted, FIND, &found, &store->table))
        return 0;
    *item = found->data;
    return 1;
}

static void *block_room(struct store *store, size_t len)
{
    struct block *block = store->blocks;
    if (!block || block->capacity - block->used < len) {
        size_t capacity = len > BLOCK_BYTES ? len : BLOCK_BYTES;
        block = malloc(sizeof *block + capacity);
        if (!block)
            return NULL;
        *block = (struct block){.earlier = store->blocks, .capacity = capacity};
        store->blocks = block;
    }
    void *room = block->bytes + block->used;
    block->used += len;
    return room;
}

/* Enters a new pair under the key in `store->name`. */
static int enter(struct store *store, const void *value, size_t value_len)
{
    size_t name_len = strlen(store->name.bytes) + 1;
    size_t bytes = (sizeof(struct item) + name_len + value_len + 7) & ~(size_t)7;
    if (value_len > UINT32_MAX / 4 || name_len > UINT32_MAX / 4)
        return peer_fail("hsearch: this adapter's keys and values are at most 1 GiB");
    struct item *item = block_room(store, bytes);
    if (!item)
        return peer_fail("hsearch: no memory for a pair of %zu bytes", bytes);
    *item = (struct item){(uint32_t)bytes, (uint32_t)value_len, item->key + name_len};
    memcpy(item->key, store->name.bytes, name_len);
    memcpy(item->value, value, value_len);
    ENTRY entry = {item->key, item}, *entered;
    return hsearch_r(entry, ENTER, &entered, &store->table) ? 0 : peer_fail("hsearch: the table is full");
}

/* Room for `len` bytes in the item's value, keeping its contents. */
static int make_room(struct item *item, size_t len)
{
    int in_item = is_in_item(item);
    size_t capacity = in_item ? (size_t)(item_end(item) - item->value) : malloc_usable_size(item->value);
    if (len <= capacity)
        return 0;
    if (len > UINT32_MAX / 4)
        return peer_fail("hsearch: this adapter's keys and values are at most 1 GiB");
    char *value = realloc(in_item ? NULL : item->value, item->value_len ? len + len / 2 : len);
    if (!value)
        return peer_fail("hsearch: no memory for a value of %zu bytes", len);
    if (in_item)
        memcpy(value, item->value, item->value_len);
    item->value = value;
    return 0;
}

static int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct item *item;
    int found = find(opened, key, key_len, &item);
    if (found <= 0)
        return found ? found : enter(opened, value, value_len);
    if (make_room(item, value_len))
        return -1;
    memcpy(item->value, value, value_len);
    item->value_len = (uint32_t)value_len;
    return 0;
}

static int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len)
{
    struct item *item;
    int found = find(opened, key, key_len, &item);
    if (found <= 0)
        return found ? found : enter(opened, tail, tail_len);
    if (make_room(item, item->value_len + tail_len))
        return -1;
    memcpy(item->value + item->value_len, tail, tail_len);
    item->value_len += (uint32_t)tail_len;
    return 0;
}

static int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct item *item;
    int found = find(opened, key, key_len, &item);
    if (found > 0) {
        *value = item->value;
        *value_len = item->value_len;
    }
    return found;
}

static int remove_key(void *opened, const void *key, size_t key_len)
{
    (void)opened, (void)key, (void)key_len;
    return peer_fail("hsearch: it has no removal");
}

static int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
                void *context)
{
    (void)opened, (void)with_values, (void)each, (void)context;
    return peer_fail("hsearch: it has no walk over the table");
}

static const char *const settings[] = {"sized", NULL};

const struct peer peer_hsearch = {
    .name = "hsearch", .settings = settings, .in_memory = 1, .in_file = 0, .version = version, .open = open_store,
    .put = put, .append = append, .get = get, .remove = remove_key, .scan = scan, .sync = peer_nothing,
    .end_of_puts = NULL, .close = close_store, .error = peer_error,
};

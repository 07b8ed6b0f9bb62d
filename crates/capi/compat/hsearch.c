/* hsearch: linear hashing over the program's own strings.
 *
 *   address(hash)    bucket = hash & high_mask; if > max_bucket { hash & low_mask }
 *   enter            a node into its bucket's list; then one split, if there are more nodes than buckets
 *
 * The arithmetic is that of src/linear.rs. The rest is not the table of splitpoint.h: that one keeps copies of bytes in
 * pages, and this interface keeps two pointers that belong to the program and must stay where they are. Nodes come from
 * blocks and never move; lists of them are relinked by a split. How much that gains: docs/compat.md, "Figures".
 *
 * Source: Larson 1988 as dynahash has it; Seltzer & Yigit 1991, "hsearch" and "dynahash". */
#define _GNU_SOURCE /* the types of the _r functions */
#include "include/search.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct node {
    ENTRY entry; /* first: programs get its address */
    struct node *next;
    uint64_t hash;
};

/* Buckets are in segments, so that a table grows without moving them. */
enum { SEGMENT_BUCKETS = 512, FIRST_NODES = 32, MAX_BLOCK_NODES = 4096 };

/* Buckets that hcreate makes in advance at most: their memory is zeros, which cost nothing before they are used, but
 * address space. The table grows past them as past any other number. */
#define ADVANCE_BUCKETS_MAX ((size_t)1 << 26)

/* Nodes that are allocated together. */
struct block {
    struct block *earlier;
    size_t used, count;
    struct node nodes[];
};

struct table {
    struct node ***segments;
    size_t segment_count, segment_capacity;
    struct node **advance; /* the segments that hcreate has made, in one piece */
    size_t advance_segments;
    size_t max_bucket, high_mask, low_mask;
    size_t entries;
    struct block *blocks; /* the latest first */
};

/* The bytes up to the zero, eight at a time. Every bit of the result depends on every byte. */
static uint64_t hash_of(const char *key)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    size_t len = strlen(key);
    uint64_t hash = len * odd, word;
    for (; len >= 8; key += 8, len -= 8) {
        memcpy(&word, key, 8);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    if (len >= 4) {
        uint32_t first, last;
        memcpy(&first, key, 4);
        memcpy(&last, key + len - 4, 4);
        hash = (hash ^ ((uint64_t)first << 32 | last)) * odd;
    } else if (len > 0) {
        const unsigned char *bytes = (const unsigned char *)key;
        hash = (hash ^ (bytes[0] | (uint64_t)bytes[len / 2] << 8 | (uint64_t)bytes[len - 1] << 16)) * odd;
    }
    hash ^= hash >> 32;
    hash *= odd;
    return hash ^ hash >> 29;
}

static size_t bucket_of(const struct table *table, uint64_t hash)
{
    size_t bucket = hash & table->high_mask;
    return bucket > table->max_bucket ? hash & table->low_mask : bucket;
}

static struct node **bucket_at(const struct table *table, size_t bucket)
{
    return &table->segments[bucket / SEGMENT_BUCKETS][bucket % SEGMENT_BUCKETS];
}

static struct node *find(const struct table *table, const char *key, uint64_t hash)
{
    struct node *node = *bucket_at(table, bucket_of(table, hash));
    while (node && (node->hash != hash || strcmp(node->entry.key, key)))
        node = node->next;
    return node;
}

/* Makes the segment of the next bucket, if it is the first in it. */
static int make_segment(struct table *table)
{
    size_t next = table->max_bucket + 1;
    if (next / SEGMENT_BUCKETS < table->segment_count)
        return 1;
    if (table->segment_count == table->segment_capacity) {
        size_t capacity = 2 * table->segment_capacity;
        struct node ***segments = realloc(table->segments, capacity * sizeof *segments);
        if (!segments)
            return 0;
        table->segments = segments;
        table->segment_capacity = capacity;
    }
    struct node **segment = calloc(SEGMENT_BUCKETS, sizeof *segment);
    if (!segment)
        return 0;
    table->segments[table->segment_count++] = segment;
    return 1;
}

/* Divides the next bucket in line between itself and a new one. */
static void split(struct table *table)
{
    if (!make_segment(table))
        return; /* lists get longer; the next entry tries again */
    size_t new_bucket = ++table->max_bucket;
    if (new_bucket > table->high_mask) {
        table->low_mask = table->high_mask;
        table->high_mask = table->high_mask << 1 | 1;
    }
    struct node **old = bucket_at(table, new_bucket & table->low_mask), **moved = bucket_at(table, new_bucket);
    while (*old) {
        struct node *node = *old;
        if ((node->hash & table->high_mask) == new_bucket) {
            *old = node->next;
            *moved = node;
            moved = &node->next;
        } else {
            old = &node->next;
        }
    }
    *moved = NULL;
}

static struct node *new_node(struct table *table)
{
    struct block *block = table->blocks;
    if (!block || block->used == block->count) {
        size_t count = block ? 2 * block->count : FIRST_NODES;
        if (count > MAX_BLOCK_NODES)
            count = MAX_BLOCK_NODES;
        struct block *larger = malloc(sizeof *larger + count * sizeof *larger->nodes);
        if (!larger)
            return NULL;
        larger->earlier = block;
        larger->used = 0;
        larger->count = count;
        table->blocks = block = larger;
    }
    return &block->nodes[block->used++];
}

static void destroy(struct table *table)
{
    for (size_t i = table->advance_segments; i < table->segment_count; i++)
        free(table->segments[i]);
    while (table->blocks) {
        struct block *earlier = table->blocks->earlier;
        free(table->blocks);
        table->blocks = earlier;
    }
    free(table->advance);
    free(table->segments);
    free(table);
}

static struct table *create(size_t buckets)
{
    struct table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    size_t segments = 1;
    while (segments * SEGMENT_BUCKETS < buckets && segments * SEGMENT_BUCKETS < ADVANCE_BUCKETS_MAX)
        segments *= 2;
    /* The next power of two, as dynahash; but a part of the first segment only, if that is enough. */
    size_t made = segments > 1 ? segments * SEGMENT_BUCKETS : 4;
    while (made < buckets && made < SEGMENT_BUCKETS)
        made *= 2;
    table->segments = malloc(segments * sizeof *table->segments);
    table->advance = calloc(segments * SEGMENT_BUCKETS, sizeof *table->advance);
    if (!table->segments || !table->advance) {
        destroy(table);
        return NULL;
    }
    for (size_t i = 0; i < segments; i++)
        table->segments[i] = table->advance + i * SEGMENT_BUCKETS;
    table->segment_count = table->segment_capacity = table->advance_segments = segments;
    table->max_bucket = made - 1;
    table->high_mask = made - 1;
    table->low_mask = made / 2 - 1;
    return table;
}

static unsigned int in_an_int(size_t number) { return number > UINT_MAX ? UINT_MAX : (unsigned int)number; }

static struct table *table_of(const struct hsearch_data *htab)
{
    return htab ? (struct table *)(void *)htab->table : NULL;
}

int hcreate_r(size_t nel, struct hsearch_data *htab)
{
    if (!htab) {
        errno = EINVAL;
        return 0;
    }
    if (htab->table)
        return 0; /* it is in use; errno stays, as in the C library */
    if (nel > UINT_MAX - 2) {
        errno = ENOMEM; /* a negative number, most likely */
        return 0;
    }
    struct table *table = create(nel);
    if (!table)
        return 0;
    htab->table = (struct _ENTRY *)(void *)table;
    htab->size = in_an_int(table->max_bucket + 1);
    htab->filled = 0;
    return 1;
}

void hdestroy_r(struct hsearch_data *htab)
{
    if (!htab) {
        errno = EINVAL;
        return;
    }
    struct table *table = table_of(htab);
    htab->table = NULL;
    if (table)
        destroy(table);
}

int hsearch_r(ENTRY item, ACTION action, ENTRY **retval, struct hsearch_data *htab)
{
    struct table *table = table_of(htab);
    if (!table || !item.key || !retval) {
        if (retval)
            *retval = NULL;
        errno = EINVAL;
        return 0;
    }
    uint64_t hash = hash_of(item.key);
    struct node *node = find(table, item.key, hash);
    *retval = node ? &node->entry : NULL;
    if (node)
        return 1;
    if (action != ENTER) {
        errno = ESRCH;
        return 0;
    }
    node = new_node(table);
    if (!node)
        return 0;
    struct node **bucket = bucket_at(table, bucket_of(table, hash));
    *node = (struct node){item, *bucket, hash};
    *bucket = node;
    *retval = &node->entry;
    if (++table->entries > table->max_bucket + 1)
        split(table);
    htab->size = in_an_int(table->max_bucket + 1);
    htab->filled = in_an_int(table->entries);
    return 1;
}

/* The one table of the forms without _r. */
static struct hsearch_data the_table;

int hcreate(size_t nel) { return hcreate_r(nel, &the_table); }

void hdestroy(void) { hdestroy_r(&the_table); }

ENTRY *hsearch(ENTRY item, ACTION action)
{
    ENTRY *found;
    hsearch_r(item, action, &found, &the_table);
    return found;
}

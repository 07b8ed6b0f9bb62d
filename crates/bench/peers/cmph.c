/* cmph: minimal perfect hash functions, and a dictionary made from one.
 *
 * Settings: the function, "brz" (External Perfect Hashing, the peer in the paper on batch-updatable hashing; its
 * buckets are made on the disk in bounded memory, "memory=" bytes) or "chd" (hash, displace and compress; all keys in
 * memory); "brz-best" and "chd-best" use the fewest bits possible in acceptable time.
 *
 * A function alone ("brz,function") returns a rank for any key, known or not. A dictionary adds a file of slots by
 * rank, each with the key, padded to the longest, and a value of fixed size; a get reads one slot and compares the
 * key. During the build the keys are in memory and the pairs in a file, from which each goes to its slot with one
 * access. The paper's own EPH, which moved whole buckets, is not available. */
#include <cmph.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter.h"

struct head {
    uint64_t pairs, key_bytes, value_bytes;   /* of a slot: the longest key, every value */
};

/* A slot: the key's length, the key and what pads it, the value. */
static size_t slot_bytes(const struct head *head) { return 2 + head->key_bytes + head->value_bytes; }

struct build {
    char *path, *setting;
    int function_alone;
    struct scratch keys;     /* each: its length in 2 bytes, its bytes */
    size_t keys_len, next;   /* bytes in use, and where the function reads next */
    FILE *pairs;             /* keys and values as they came, without a name; NULL for a function alone */
    struct head head;
};

static const char *version(void) { return peer_version("2.0.2"); }

static FILE *open_beside(const char *path, const char *name, const char *mode)
{
    char *whole = peer_path(path, name);
    FILE *file = whole ? fopen(whole, mode) : NULL;
    free(whole);
    return file;
}

static void abandon(void *begun)
{
    struct build *build = begun;
    if (build->pairs)
        fclose(build->pairs);
    free(build->keys.bytes);
    free(build->setting);
    free(build->path);
    free(build);
}

static int begin(const struct peer_options *options, void **begun)
{
    *begun = NULL;
    if (mkdir(options->path, 0755) && errno != EEXIST)
        return peer_fail("cmph: cannot create %s", options->path);
    struct build *build = calloc(1, sizeof *build);
    if (!build)
        return peer_fail("cmph: no memory");
    build->path = peer_path(options->path, "");
    build->setting = peer_path(options->setting, "");
    build->function_alone = peer_has_word(options, "function", NULL);
    if (!build->function_alone && (build->pairs = open_beside(options->path, "/pairs", "w+"))) {
        char *name = peer_path(options->path, "/pairs");
        if (name)
            unlink(name);
        free(name);
        setvbuf(build->pairs, NULL, _IOFBF, 1 << 20);
    }
    if (!build->path || !build->setting || (!build->function_alone && !build->pairs)) {
        abandon(build);
        return peer_fail("cmph: cannot create a file in %s", options->path);
    }
    *begun = build;
    return 0;
}

static int add(void *begun, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct build *build = begun;
    uint16_t len = (uint16_t)key_len;
    if (key_len > UINT16_MAX)
        return peer_fail("cmph: a key of %zu bytes", key_len);
    if (build->head.pairs && value_len != build->head.value_bytes)
        return peer_fail("cmph: values of %llu and of %zu bytes", (unsigned long long)build->head.value_bytes, value_len);
    if (!scratch_room(&build->keys, build->keys_len + sizeof len + key_len))
        return -1;
    memcpy(build->keys.bytes + build->keys_len, &len, sizeof len);
    memcpy(build->keys.bytes + build->keys_len + sizeof len, key, key_len);
    build->keys_len += sizeof len + key_len;
    build->head.pairs++;
    build->head.value_bytes = value_len;
    if (key_len > build->head.key_bytes)
        build->head.key_bytes = key_len;
    if (build->pairs && fwrite(value, 1, value_len, build->pairs) != value_len)
        return peer_fail("cmph: cannot write the pairs");
    return 0;
}

static int read_key(void *data, char **key, cmph_uint32 *len)
{
    struct build *build = data;
    uint16_t own;
    memcpy(&own, build->keys.bytes + build->next, sizeof own);
    *key = build->keys.bytes + build->next + sizeof own;
    *len = own;
    build->next += sizeof own + own;
    return own;
}

static void dispose_key(void *data, char *key, cmph_uint32 len) { (void)data, (void)key, (void)len; }

static void rewind_keys(void *data) { ((struct build *)data)->next = 0; }

/* Builds the function and writes it to its file; gives it. */
static cmph_t *made_function(struct build *build)
{
    struct peer_options options = {.setting = build->setting};
    uint64_t memory = 0;
    cmph_io_adapter_t keys = {build, (cmph_uint32)build->head.pairs, read_key, dispose_key, rewind_keys};
    FILE *file = open_beside(build->path, "/function", "w+");
    char *temporary = peer_path(build->path, "/");
    cmph_config_t *config = cmph_config_new(&keys);
    if (peer_has_word(&options, "chd", NULL) || peer_has_word(&options, "chd-best", NULL)) {
        cmph_config_set_algo(config, CMPH_CHD);
        if (peer_has_word(&options, "chd-best", NULL)) {
            cmph_config_set_graphsize(config, 0.99);
            cmph_config_set_b(config, 5);
        }
    } else {
        cmph_config_set_algo(config, CMPH_BRZ);
        cmph_config_set_mphf_fd(config, file);
        cmph_config_set_tmp_dir(config, (cmph_uint8 *)temporary);
        if (peer_has_word(&options, "brz-best", NULL))
            cmph_config_set_graphsize(config, 2.6);
        if (peer_has_word(&options, "memory=", &memory))
            cmph_config_set_memory_availability(config, (cmph_uint32)(memory >> 20));
    }
    cmph_t *function = file && temporary ? cmph_new(config) : NULL;
    if (function) {
        cmph_dump(function, file);
        cmph_destroy(function);
        function = NULL;
        /* The function returned by BRZ cannot be queried; the one in the file can. */
        if (!fflush(file) && !fsync(fileno(file))) {
            rewind(file);
            function = cmph_load(file);
        }
    }
    cmph_config_destroy(config);
    if (file)
        fclose(file);
    free(temporary);
    return function;
}

/* Every pair to the slot of its rank. */
static int fill_slots(struct build *build, cmph_t *function)
{
    size_t slot = slot_bytes(&build->head), bytes = sizeof build->head + slot * build->head.pairs;
    FILE *file = open_beside(build->path, "/slots", "w+");
    char *map = MAP_FAILED;
    if (file && !ftruncate(fileno(file), (off_t)bytes))
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (map == MAP_FAILED) {
        if (file)
            fclose(file);
        return peer_fail("cmph: cannot make the slots");
    }
    memcpy(map, &build->head, sizeof build->head);
    rewind(build->pairs);
    rewind_keys(build);
    int failed = 0;
    for (uint64_t i = 0; i < build->head.pairs && !failed; i++) {
        char *key;
        cmph_uint32 len;
        read_key(build, &key, &len);
        uint64_t rank = cmph_search(function, key, len);
        char *to = map + sizeof build->head + rank * slot;
        uint16_t own = (uint16_t)len;
        if (rank >= build->head.pairs) {
            failed = peer_fail("cmph: a rank beyond the last");
            break;
        }
        memcpy(to, &own, sizeof own);
        memcpy(to + sizeof own, key, len);
        if (fread(to + sizeof own + build->head.key_bytes, 1, build->head.value_bytes, build->pairs) !=
            build->head.value_bytes)
            failed = peer_fail("cmph: cannot read the pairs");
    }
    if (munmap(map, bytes) || fsync(fileno(file)))
        failed = peer_fail("cmph: cannot write the slots");
    fclose(file);
    return failed;
}

static int finish(void *begun)
{
    struct build *build = begun;
    cmph_t *function = made_function(build);
    int failed = function ? 0 : peer_fail("cmph: found no function");
    if (!failed && !build->function_alone)
        failed = fill_slots(build, function);
    if (function)
        cmph_destroy(function);
    abandon(build);
    return failed;
}

struct store {
    cmph_t *function;
    FILE *slots;             /* NULL for a function alone */
    uint64_t function_bytes;
    struct head head;
};

static int close_store(void *opened)
{
    struct store *store = opened;
    if (store->function)
        cmph_destroy(store->function);
    if (store->slots)
        fclose(store->slots);
    free(store);
    return 0;
}

static int open_store(const struct peer_options *options, void **opened)
{
    *opened = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return peer_fail("cmph: no memory");
    FILE *file = open_beside(options->path, "/function", "r");
    if (file) {
        store->function = cmph_load(file);
        fseek(file, 0, SEEK_END);
        store->function_bytes = (uint64_t)ftell(file);
        fclose(file);
    }
    int failed = !store->function;
    if (!failed && !peer_has_word(options, "function", NULL)) {
        store->slots = open_beside(options->path, "/slots", "r");
        failed = !store->slots || fread(&store->head, sizeof store->head, 1, store->slots) != 1;
    } else if (!failed) {
        store->head.pairs = cmph_size(store->function);
    }
    if (failed) {
        close_store(store);
        return peer_fail("cmph: cannot open %s", options->path);
    }
    *opened = store;
    return 0;
}

struct reader {
    struct store *store;
    uint64_t rank;
    char slot[];
};

static int make_reader(void *opened, void **made)
{
    struct store *store = opened;
    struct reader *reader = malloc(sizeof *reader + (store->slots ? slot_bytes(&store->head) : 0));
    *made = reader;
    if (!reader)
        return peer_fail("cmph: no memory");
    reader->store = store;
    return 0;
}

static int get(void *made, const void *key, size_t key_len, const void **value, size_t *value_len)
{
    struct reader *reader = made;
    struct store *store = reader->store;
    uint16_t own;
    reader->rank = cmph_search(store->function, key, (cmph_uint32)key_len);
    if (!store->slots) {
        *value = &reader->rank;
        *value_len = sizeof reader->rank;
        return 1;
    }
    size_t slot = slot_bytes(&store->head);
    if (reader->rank >= store->head.pairs)
        return 0;
    if (pread(fileno(store->slots), reader->slot, slot, (off_t)(sizeof store->head + reader->rank * slot)) !=
        (ssize_t)slot)
        return peer_fail("cmph: cannot read a slot");
    memcpy(&own, reader->slot, sizeof own);
    if (own != key_len || memcmp(reader->slot + sizeof own, key, key_len))
        return 0;
    *value = reader->slot + sizeof own + store->head.key_bytes;
    *value_len = store->head.value_bytes;
    return 1;
}

static int figure(void *opened, int i, const char **name, double *value)
{
    struct store *store = opened;
    double pairs = (double)store->head.pairs;
    *name = i == 0 ? "pairs" : "bits_per_key";
    *value = i == 0 ? pairs : 8.0 * (double)store->function_bytes / (pairs > 0 ? pairs : 1);
    return i < 2;
}

static const char *const settings[] = {"brz",  "chd",  "memory=", "+brz,function", "+brz-best,function", "+chd,function",
                                       "+chd-best,function", "+brz-best", "+chd-best", NULL};

const struct dictionary_peer peer_cmph = {
    .name = "cmph", .settings = settings, .in_order = 0, .version = version, .begin = begin, .add = add,
    .finish = finish, .abandon = abandon, .open = open_store, .reader = make_reader, .get = get, .end_reader = free,
    .figure = figure, .close = close_store, .error = peer_error,
};

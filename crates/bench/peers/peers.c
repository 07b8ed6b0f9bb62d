/* The list of peers, and the functions of adapter.h. A new peer: its file, a line here, one in libraries.txt. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"

extern const struct peer peer_absl_map, peer_absl_u64_map, peer_bdb_btree, peer_bdb_hash, peer_gdbm, peer_hsearch,
    peer_kyoto_hash,
    peer_kyoto_proto, peer_kyoto_stash, peer_lmdb, peer_ndbm, peer_rocksdb, peer_std_map, peer_tkrzw_hash,
    peer_tkrzw_tiny;

const struct peer *const peers[] = {
    &peer_bdb_hash, &peer_bdb_btree, &peer_gdbm, &peer_ndbm, &peer_kyoto_hash, &peer_tkrzw_hash, &peer_lmdb,
    &peer_rocksdb, &peer_hsearch, &peer_kyoto_stash, &peer_kyoto_proto, &peer_tkrzw_tiny, &peer_std_map,
    &peer_absl_map, &peer_absl_u64_map, NULL,
};

extern const struct dictionary_peer peer_cdb, peer_cmph, peer_lmdb_append, peer_rocksdb_ingest;

const struct dictionary_peer *const dictionary_peers[] = {
    &peer_cdb, &peer_lmdb_append, &peer_rocksdb_ingest, &peer_cmph, NULL,
};

static _Thread_local char error_text[512], version_text[64];

int peer_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return -1;
}

const char *peer_error(void *store)
{
    (void)store;
    return error_text;
}

const char *peer_version(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(version_text, sizeof version_text, format, arguments);
    va_end(arguments);
    return version_text;
}

int peer_is_set(const struct peer_options *options, const char *setting)
{
    return strcmp(options->setting, setting) == 0;
}

int peer_has_word(const struct peer_options *options, const char *word, uint64_t *number)
{
    size_t len = strlen(word);
    for (const char *at = options->setting; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, word, len))
            continue;
        if (number && word[len - 1] == '=')
            return sscanf(at + len, "%" SCNu64, number) == 1;
        if (!at[len] || at[len] == ',')
            return 1;
    }
    return 0;
}

int peer_no_figure(void *store, int i, const char **name, double *value)
{
    (void)store, (void)i, (void)name, (void)value;
    return 0;
}

char *peer_path(const char *path, const char *suffix)
{
    size_t len = strlen(path) + strlen(suffix) + 1;
    char *copy = malloc(len);
    if (copy)
        snprintf(copy, len, "%s%s", path, suffix);
    return copy;
}

int peer_nothing(void *store)
{
    (void)store;
    return 0;
}

char *scratch_room(struct scratch *scratch, size_t len)
{
    if (len <= scratch->capacity && scratch->bytes)
        return scratch->bytes;
    size_t capacity = len + len / 2 + 256;
    char *bytes = realloc(scratch->bytes, capacity);
    if (!bytes) {
        peer_fail("no memory for a value of %zu bytes", len);
        return NULL;
    }
    scratch->bytes = bytes;
    scratch->capacity = capacity;
    return bytes;
}

char *scratch_join(struct scratch *scratch, const void *head, size_t head_len, const void *tail, size_t tail_len)
{
    char *bytes = scratch_room(scratch, head_len + tail_len);
    if (bytes) {
        memcpy(bytes, head, head_len);
        memcpy(bytes + head_len, tail, tail_len);
    }
    return bytes;
}

int peer_append(const struct peer *peer, void *store, struct scratch *joined, const void *key, size_t key_len,
                const void *tail, size_t tail_len)
{
    const void *old;
    size_t old_len;
    int found = peer->get(store, key, key_len, &old, &old_len);
    if (found <= 0)
        return found ? found : peer->put(store, key, key_len, tail, tail_len);
    char *both = scratch_join(joined, old, old_len, tail, tail_len);
    return both ? peer->put(store, key, key_len, both, old_len + tail_len) : -1;
}

/* What the adapters share: texts of errors and versions, a buffer that grows, an append for those that have none. Not for the harness: see peer.h. */
#ifndef SPLITPOINT_ADAPTER_H
#define SPLITPOINT_ADAPTER_H

#include "dictionary.h"
#include "peer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the text for peer_error and returns -1. */
int peer_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As `peer.error` wants it. */
const char *peer_error(void *store);
/* As `peer.version` wants it. */
const char *peer_version(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether `options` names the setting. */
int peer_is_set(const struct peer_options *options, const char *setting);
/* Whether one of the words of the setting is this one; with "name=", its number is put there. */
int peer_has_word(const struct peer_options *options, const char *word, uint64_t *number);
/* As `dictionary_peer.figure` wants it, where there is none. */
int peer_no_figure(void *store, int i, const char **name, double *value);
/* The store's or the build's own copy of a path, with `suffix` behind it; NULL without memory. */
char *peer_path(const char *path, const char *suffix);
/* As `peer.sync` and `peer.end_of_puts` want it, where there is nothing to do. */
int peer_nothing(void *store);

/* Bytes an adapter reuses from call to call; starts as zeros, ends with free(bytes). */
struct scratch {
    char *bytes;
    size_t capacity;
};
/* Room for `len` bytes, or NULL and an error kept. What was there stays. */
char *scratch_room(struct scratch *scratch, size_t len);
/* Room for `head` followed by `tail`, with both copied in. */
char *scratch_join(struct scratch *scratch, const void *head, size_t head_len, const void *tail, size_t tail_len);
/* An append by the peer's get and put, joined in between. */
int peer_append(const struct peer *peer, void *store, struct scratch *joined, const void *key, size_t key_len,
                const void *tail, size_t tail_len);

#ifdef __cplusplus
}
#endif
#endif

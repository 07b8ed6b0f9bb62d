/* Shared by the adapters: error and version strings, a growing buffer, an append by get and put. */
#ifndef SPLITPOINT_ADAPTER_H
#define SPLITPOINT_ADAPTER_H

#include "dictionary.h"
#include "peer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the text for peer_error and returns -1. */
int peer_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An implementation of `peer.error`. */
const char *peer_error(void *store);
/* Formats the string for `peer.version`. */
const char *peer_version(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether `options` names the setting. */
int peer_is_set(const struct peer_options *options, const char *setting);
/* Whether the setting has this word; for "name=", its number is stored. */
int peer_has_word(const struct peer_options *options, const char *word, uint64_t *number);
/* An implementation of `dictionary_peer.figure` without figures. */
int peer_no_figure(void *store, int i, const char **name, double *value);
/* An allocated copy of a path with `suffix` appended; NULL without memory. */
char *peer_path(const char *path, const char *suffix);
/* An implementation of `peer.sync` and `peer.end_of_puts` that does nothing. */
int peer_nothing(void *store);

/* Bytes reused from call to call; initialized with zeros, released with free(bytes). */
struct scratch {
    char *bytes;
    size_t capacity;
};
/* Room for `len` bytes, keeping the contents; NULL, with an error set, without memory. */
char *scratch_room(struct scratch *scratch, size_t len);
/* Room for `head` followed by `tail`, with both copied in. */
char *scratch_join(struct scratch *scratch, const void *head, size_t head_len, const void *tail, size_t tail_len);
/* An append by get, concatenation and put. */
int peer_append(const struct peer *peer, void *store, struct scratch *joined, const void *key, size_t key_len,
                const void *tail, size_t tail_len);

#ifdef __cplusplus
}
#endif
#endif

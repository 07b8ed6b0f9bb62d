/* The interface of a peer's adapter. One adapter per peer, in NAME.c or NAME.cc; the list is in peers.c.
 *
 * Every function that returns an int: 0 or more is fine, negative an error, described by error().
 * A store is used by one thread, the one that opened it. No C++ exception leaves an adapter.
 * Code shared by adapters is in adapter.h (C) and adapter.hh (C++). */
#ifndef SPLITPOINT_PEER_H
#define SPLITPOINT_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peer_options {
    const char *path;        /* where the file (or directory, where the peer needs one) will be; NULL: in memory */
    const char *setting;     /* "default" | "sized" (uses expected_len) | others in a peer's file, e.g. "writemap" */
    uint64_t expected_len;   /* pairs to come; only for settings that take the pair count in advance */
    uint64_t payload_bytes;  /* bytes of all keys and values, for sizing caches and maps at the best settings */
    int create;              /* 1: a new store, replacing one at that path; 0: open the existing one */
};

struct peer {
    const char *name;
    const char *const *settings;                 /* NULL-terminated */
    int in_memory, in_file;                      /* which it can do */
    const char *(*version)(void);                /* good until this thread asks another peer */
    int (*open)(const struct peer_options *, void **store);  /* failing leaves *store NULL; see error(NULL) */
    int (*put)(void *, const void *key, size_t, const void *value, size_t);      /* replaces */
    int (*append)(void *, const void *key, size_t, const void *tail, size_t);    /* creates an absent key */
    /* 1 found, 0 absent; the value is good until the next call. */
    int (*get)(void *, const void *key, size_t, const void **value, size_t *);
    int (*remove)(void *, const void *key, size_t);                              /* 1 present, 0 absent */
    /* Each pair once, in the peer's order. Without values, `each` gets NULL and 0 for the value. What `each` returns
     * other than 0 ends the scan and is the scan's answer; else that is 0. `each` calls no function of the store. */
    int (*scan)(void *, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t), void *);
    int (*sync)(void *);                         /* on the disk when it returns */
    int (*end_of_puts)(void *);                  /* commits what is batched, so that it is visible; may be NULL */
    int (*close)(void *);                        /* the store is gone afterwards, also after an error */
    const char *(*error)(void *);                /* the last error of this thread, of any store */
    size_t key_bytes;                            /* the only length of keys that it takes; 0: any */
};

extern const struct peer *const peers[];         /* NULL-terminated, in peers.c */

#ifdef __cplusplus
}
#endif
#endif

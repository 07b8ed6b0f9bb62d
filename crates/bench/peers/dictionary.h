/* The interface of a peer that makes dictionaries: files that are written once, then read by any number of
 * threads. One adapter a peer; the list is in peers.c.
 *
 * Functions that return an int: 0 or more is fine, negative an error, described by error() to the thread that
 * got it. One thread uses a build; several use a store, each through a reader that it made itself. */
#ifndef SPLITPOINT_DICTIONARY_H
#define SPLITPOINT_DICTIONARY_H

#include "peer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dictionary_peer {
    const char *name;
    const char *const *settings;   /* NULL-terminated: those to measure, then words ("memory=") and, after a "+", whole
                                    * settings that are known and measured only where they are named */
    int in_order;                  /* add() wants its pairs in the order of their keys, as memcmp has it */
    const char *(*version)(void);
    /* A new dictionary at options->path. Failing leaves *build NULL. */
    int (*begin)(const struct peer_options *, void **build);
    int (*add)(void *build, const void *key, size_t, const void *value, size_t);
    int (*finish)(void *build);    /* on the disk when it returns; the build is gone, also after an error */
    void (*abandon)(void *build);  /* the build is gone */
    int (*open)(const struct peer_options *, void **store);
    int (*reader)(void *store, void **reader);
    /* 1 found, 0 absent; the value is good until the reader's next call. Of a function, the rank in 8 bytes, lowest first. */
    int (*get)(void *reader, const void *key, size_t, const void **value, size_t *);
    void (*end_reader)(void *reader);
    /* Figure `i` of the store, from 0: 1, or 0 where there are no more. */
    int (*figure)(void *store, int i, const char **name, double *value);
    int (*close)(void *store);
    const char *(*error)(void *);
};

extern const struct dictionary_peer *const dictionary_peers[];   /* NULL-terminated, in peers.c */

#ifdef __cplusplus
}
#endif
#endif

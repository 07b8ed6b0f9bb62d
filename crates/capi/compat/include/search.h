/* hsearch without its limits: libsplitpoint_hsearch.so has the functions of <search.h> for hash tables.
 *
 * The types are those of the C library, so a program that is compiled already runs with this library too:
 * LD_PRELOAD=libsplitpoint_hsearch.so program. Differences: a table grows past `nel` without an end; keys with a common
 * prefix do not slow it down. As in the C library, the table keeps the pointers of an ENTRY and copies no bytes, and an
 * ENTRY stays at its place until the table is destroyed.
 *
 * Compile with -I.../include/splitpoint, link with -lsplitpoint_hsearch. The rest of <search.h> is the system's. */
#ifndef SPLITPOINT_SEARCH_H
#define SPLITPOINT_SEARCH_H

#pragma GCC system_header /* include_next is an extension */

#ifdef __has_include_next
#if __has_include_next(<search.h>)
#include_next <search.h>
#endif
#endif
#ifdef _SEARCH_H /* the guard of glibc and musl */
#define SPLITPOINT_SEARCH_IS_THE_SYSTEMS
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SPLITPOINT_SEARCH_IS_THE_SYSTEMS
typedef struct entry {
    char *key;
    void *data;
} ENTRY;

typedef enum { FIND, ENTER } ACTION;

int hcreate(size_t nel);
void hdestroy(void);
ENTRY *hsearch(ENTRY item, ACTION action);
#endif

/* Tables of the program's own, of which several may be in use at once: all zeros before hcreate_r. Any number of
 * threads may FIND in one table as long as none ENTERs. */
#if !defined(SPLITPOINT_SEARCH_IS_THE_SYSTEMS) || !defined(__USE_GNU)
struct hsearch_data {
    struct _ENTRY *table;
    unsigned int size;   /* buckets */
    unsigned int filled; /* entries */
};

int hcreate_r(size_t nel, struct hsearch_data *htab);
void hdestroy_r(struct hsearch_data *htab);
int hsearch_r(ENTRY item, ACTION action, ENTRY **retval, struct hsearch_data *htab);
#endif

#ifdef __cplusplus
}
#endif

#endif

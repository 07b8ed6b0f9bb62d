/* What the tests share: checks that name their line, and a directory of their own. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <splitpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* `call` returns `status`. */
#define EXPECT(status, call) expect(__FILE__, __LINE__, #call, status, call)
#define OK(call) EXPECT(SPT_OK, call)

static inline void expect(const char *file, int line, const char *text, spt_status expected, spt_status got)
{
    if (got == expected)
        return;
    fprintf(stderr, "%s:%d: %s is %d (%s), expected %d (%s)\n", file, line, text, got, spt_strerror(got), expected,
            spt_strerror(expected));
    fprintf(stderr, "the last failure of the thread: %s\n", spt_error_message(NULL));
    exit(1);
}

/* `text` as a key or value: a pointer and its length. */
#define B(text) (text), strlen(text)

/* The path of a file in the directory of the test; the last eight results are valid. */
static inline const char *path_of(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    const char *directory = getenv("TEST_DIRECTORY");
    char *path = paths[next++ % 8];

    CHECK(directory != NULL);
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* Whether the table has `value` under `key`. */
static inline int has(spt_table *table, const char *key, const char *value)
{
    char buffer[4096];
    size_t len = 0;
    spt_status status = spt_get(table, B(key), buffer, sizeof buffer, &len);

    return status == SPT_OK && len == strlen(value) && memcmp(buffer, value, len) == 0;
}

static inline uint64_t len_of(spt_table *table)
{
    uint64_t len = 0;

    OK(spt_len(table, &len));
    return len;
}

#endif

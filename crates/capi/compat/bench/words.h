/* What the measurements have in common: the words, the clock. */
#ifndef WORDS_H
#define WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUIRE(fact)                                                                                                  \
    do {                                                                                                               \
        if (!(fact)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #fact);                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static struct {
    int count;
    struct {
        char *key;
        int key_len, value_len;
        char value[8];
    } * pair;
} words;

/* The time, or with CLOCK=cpu the processor time of this process: on a busy machine only that can be compared, but it
 * has no waits for the disk in it. */
static inline double now_ms(void)
{
    struct timespec now;
    const char *clock = getenv("CLOCK");
    clock_gettime(clock && !strcmp(clock, "cpu") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* `count` words, spread evenly over the file. */
static inline void read_words(const char *path, int count)
{
    char **all = NULL, line[256];
    long lines = 0;
    FILE *file = fopen(path, "r");
    REQUIRE(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (lines % 1024 == 0)
            REQUIRE((all = realloc(all, (size_t)(lines + 1024) * sizeof *all)));
        REQUIRE((all[lines++] = strdup(line)));
    }
    fclose(file);
    REQUIRE(count > 0 && count <= lines);
    words.count = count;
    REQUIRE((words.pair = calloc((size_t)count, sizeof *words.pair)));
    for (int i = 0; i < count; i++) {
        words.pair[i].key = all[i * lines / count];
        words.pair[i].key_len = (int)strlen(words.pair[i].key);
        words.pair[i].value_len = sprintf(words.pair[i].value, "%d", i + 1);
    }
}

#endif

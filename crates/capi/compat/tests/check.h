/* The few tools of the tests in C: report a failure with its line and go on, print bytes, a folder for the files.
 *
 * A test of one implementation calls CHECK. A test that is compiled against two of them prints what it sees, and the
 * script `run` compares the two outputs. Both forms end with `return finish();`. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failures;

#define CHECK(fact)                                                                                                    \
    do {                                                                                                               \
        if (!(fact)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, #fact, errno, strerror(errno));  \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

/* For what the rest of the test cannot go on without. */
#define REQUIRE(fact)                                                                                                  \
    do {                                                                                                               \
        if (!(fact)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, #fact, errno, strerror(errno));  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static inline int finish(void)
{
    if (failures)
        fprintf(stderr, "%d facts do not hold\n", failures);
    return failures != 0;
}

/* Enters the folder that the first argument names; each test gets an empty one. */
static inline void enter_folder(int argc, char **argv)
{
    if (argc < 2 || chdir(argv[1])) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        exit(2);
    }
}

static inline int exists(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0;
}

static inline int permissions(const char *path)
{
    struct stat found;
    return stat(path, &found) ? -1 : (int)(found.st_mode & 07777);
}

#endif

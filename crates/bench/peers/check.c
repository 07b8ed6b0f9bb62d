/* Checks the adapters: every peer with every setting, in memory and in a file, against an array of expected values.
 *
 * check [NAME...]   all peers, or those named. Prints a line each; exit status 1 where one failed.
 *
 * 20,000 pairs, of binary keys (4 to 40 bytes, all begin differently) and values of 0 to 6,000 bytes, go through put,
 * replace, append, get, miss, remove, scan, sync, close and reopen; or, with values of one size, into a dictionary and,
 * by two readers, out of it. Files are made in the working directory, and removed.
 * Not here: speed, and whether a sync reaches the disk (strace shows it). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dictionary.h"
#include "peer.h"

enum { PAIRS = 20000, LATE_PAIRS = 500, KEYS = PAIRS + LATE_PAIRS, KEY_BYTES_MAX = 40, VALUE_BYTES_MAX = 6000 };

struct expected {
    char *value; /* NULL: absent */
    size_t len;
    int scanned;
};

struct run {
    const struct peer *peer;
    void *store;
    struct expected expected[KEYS];
    const char *scan_fault;
    int has_removal, has_scan;
};

/* A failure ends a run: the step, and the peer's text or what was wrong. */
#define REQUIRE(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("FAILED at line %d: ", __LINE__);                                                                   \
            printf(__VA_ARGS__);                                                                                       \
            putchar('\n');                                                                                             \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)

#define SUCCEED(call)                                                                                                  \
    do {                                                                                                               \
        if ((call) < 0)                                                                                                \
            REQUIRE(0, "%s: %s", #call, run->peer->error(run->store));                                                 \
    } while (0)

/* The length of all keys of the peer that is checked; 0: all lengths. */
static size_t key_bytes;

/* Key i: a bijection of i, so that keys differ in their first bytes, then filler by i. Zero bytes occur. */
static size_t make_key(uint32_t i, char *key)
{
    size_t len = key_bytes ? key_bytes : 4 + i % (KEY_BYTES_MAX - 3);
    uint32_t first = i * 2654435761u;
    memcpy(key, &first, 4);
    for (size_t at = 4; at < len; at++)
        key[at] = (char)(first >> (at % 4 * 8)) ^ (char)at;
    return len;
}

/* The i of a key, or KEYS. 244002641 is the inverse of make_key's factor modulo 2^32. */
static uint32_t key_number(const void *key, size_t len)
{
    char made[KEY_BYTES_MAX];
    uint32_t first;
    if (len < 4)
        return KEYS;
    memcpy(&first, key, 4);
    uint32_t i = first * 244002641u;
    return i < KEYS && make_key(i, made) == len && memcmp(made, key, len) == 0 ? i : KEYS;
}

/* The value of pair i in its nth version: every thousandth long, some empty. */
static size_t make_value(uint32_t i, unsigned version, char *value)
{
    size_t len = i % 1000 == 7 ? 5000 + i % 1000 : (i * 31 + version * 101) % 300;
    for (size_t at = 0; at < len; at++)
        value[at] = (char)(i * 7 + version * 13 + at * 3);
    return len;
}

static int expect(struct run *run, uint32_t i, const char *value, size_t len)
{
    free(run->expected[i].value);
    run->expected[i].value = malloc(len + 1);
    REQUIRE(run->expected[i].value, "no memory");
    memcpy(run->expected[i].value, value, len);
    run->expected[i].len = len;
    return 0;
}

static int put_one(struct run *run, uint32_t i, unsigned version)
{
    char key[KEY_BYTES_MAX], value[VALUE_BYTES_MAX];
    size_t key_len = make_key(i, key), len = make_value(i, version, value);
    SUCCEED(run->peer->put(run->store, key, key_len, value, len));
    return expect(run, i, value, len);
}

static int append_one(struct run *run, uint32_t i)
{
    char key[KEY_BYTES_MAX], value[2 * VALUE_BYTES_MAX];
    size_t key_len = make_key(i, key), old_len = run->expected[i].value ? run->expected[i].len : 0;
    if (old_len)
        memcpy(value, run->expected[i].value, old_len);
    size_t tail_len = make_value(i, 3, value + old_len) % 64;
    SUCCEED(run->peer->append(run->store, key, key_len, value + old_len, tail_len));
    return expect(run, i, value, old_len + tail_len);
}

static int remove_one(struct run *run, uint32_t i)
{
    char key[KEY_BYTES_MAX];
    size_t key_len = make_key(i, key);
    int was_there = run->expected[i].value != NULL, answer = run->peer->remove(run->store, key, key_len);
    SUCCEED(answer);
    REQUIRE(answer == was_there, "remove of key %" PRIu32 " answered %d", i, answer);
    free(run->expected[i].value);
    run->expected[i].value = NULL;
    return 0;
}

static int check_get(struct run *run, uint32_t i)
{
    char key[KEY_BYTES_MAX];
    const void *value = NULL;
    size_t key_len = make_key(i, key), len = 0;
    int answer = run->peer->get(run->store, key, key_len, &value, &len);
    const struct expected *expected = &run->expected[i];
    SUCCEED(answer);
    REQUIRE(answer == (expected->value != NULL), "get of key %" PRIu32 " answered %d", i, answer);
    if (answer)
        REQUIRE(len == expected->len && memcmp(value, expected->value, len) == 0,
                "key %" PRIu32 " has a value of %zu bytes, expected %zu, or other bytes", i, len, expected->len);
    return 0;
}

/* In an order that is not that of the puts. */
static int check_gets(struct run *run)
{
    for (uint32_t i = 0; i < KEYS; i++)
        if (check_get(run, (uint32_t)((uint64_t)i * 7919 % KEYS)))
            return -1;
    return 0;
}

static int scanned_key(struct run *run, const void *key, size_t key_len, struct expected **expected)
{
    uint32_t i = key_number(key, key_len);
    if (i == KEYS || !run->expected[i].value)
        run->scan_fault = "gave a key that is not there";
    else if (run->expected[i].scanned++)
        run->scan_fault = "gave a key twice";
    *expected = &run->expected[i == KEYS ? 0 : i];
    return run->scan_fault ? 17 : 0;
}

static int each_pair(void *context, const void *key, size_t key_len, const void *value, size_t len)
{
    struct run *run = context;
    struct expected *expected;
    if (scanned_key(run, key, key_len, &expected))
        return 17;
    if (len != expected->len || memcmp(value, expected->value, len))
        run->scan_fault = "gave another value";
    return run->scan_fault ? 17 : 0;
}

static int each_key(void *context, const void *key, size_t key_len, const void *value, size_t len)
{
    struct run *run = context;
    struct expected *expected;
    if (value || len)
        run->scan_fault = "gave a value that was not asked for";
    return scanned_key(run, key, key_len, &expected);
}

static int each_until_third(void *context, const void *key, size_t key_len, const void *value, size_t len)
{
    (void)key, (void)key_len, (void)value, (void)len;
    return ++*(int *)context == 3 ? 33 : 0;
}

static int check_scan(struct run *run, int with_values)
{
    run->scan_fault = NULL;
    for (uint32_t i = 0; i < KEYS; i++)
        run->expected[i].scanned = 0;
    int answer = run->peer->scan(run->store, with_values, with_values ? each_pair : each_key, run);
    SUCCEED(answer);
    REQUIRE(!run->scan_fault, "scan %s", run->scan_fault);
    REQUIRE(answer == 0, "scan answered %d", answer);
    for (uint32_t i = 0; i < KEYS; i++)
        REQUIRE(run->expected[i].scanned == (run->expected[i].value != NULL), "scan left out key %" PRIu32, i);
    return 0;
}

static int check_scans(struct run *run)
{
    if (!run->has_scan) {
        int answer = run->peer->scan(run->store, 1, each_pair, run);
        REQUIRE(answer < 0 && *run->peer->error(run->store), "a scan that is not there answered %d", answer);
        return 0;
    }
    return check_scan(run, 1) || check_scan(run, 0) ? -1 : 0;
}

static int check_scan_ended(struct run *run)
{
    int calls = 0;
    if (!run->has_scan)
        return 0;
    int answer = run->peer->scan(run->store, 1, each_until_third, &calls);
    REQUIRE(answer == 33 && calls == 3, "a scan ended by the third pair answered %d after %d pairs", answer, calls);
    return 0;
}

static int check_all(struct run *run)
{
    if (run->peer->end_of_puts)
        SUCCEED(run->peer->end_of_puts(run->store));
    return check_gets(run) || check_scans(run) ? -1 : 0;
}

static int remove_fifths(struct run *run)
{
    if (!run->has_removal) {
        int answer = run->peer->remove(run->store, "abcd", 4);
        REQUIRE(answer < 0 && *run->peer->error(run->store), "a removal that is not there answered %d", answer);
        return 0;
    }
    for (uint32_t i = 0; i < KEYS; i += 5)
        if (remove_one(run, i) || (i % 10 == 0 && remove_one(run, i)))
            return -1;
    return 0;
}

static int change_store(struct run *run)
{
    for (uint32_t i = 0; i < PAIRS; i++)
        if (put_one(run, i, 1) || (i % 3 == 0 && check_get(run, i)))
            return -1;
    if (check_all(run))
        return -1;
    for (uint32_t i = 0; i < PAIRS; i += 3)
        if (put_one(run, i, 2))
            return -1;
    for (uint32_t i = 0; i < KEYS; i += i < PAIRS ? 2 : 1)
        if (append_one(run, i) || append_one(run, i))
            return -1;
    if (check_all(run) || remove_fifths(run) || check_all(run))
        return -1;
    for (uint32_t i = 0; i < PAIRS; i += 15) /* removed keys and others come back */
        if (put_one(run, i, 4))
            return -1;
    SUCCEED(run->peer->sync(run->store));
    return check_all(run) || check_scan_ended(run) ? -1 : 0;
}

static int reopen(struct run *run, struct peer_options *options, int create)
{
    SUCCEED(run->peer->close(run->store));
    run->store = NULL;
    options->create = create;
    SUCCEED(run->peer->open(options, &run->store));
    REQUIRE(run->store, "open left no store");
    return 0;
}

static void expect_nothing(struct run *run)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        free(run->expected[i].value);
        run->expected[i].value = NULL;
    }
}

/* A closed store opens with its contents, can be changed, and is gone after a new store replaces it. */
static int check_reopening(struct run *run, struct peer_options *options)
{
    if (reopen(run, options, 0) || check_all(run) || append_one(run, 1) || put_one(run, 2, 5))
        return -1;
    if (reopen(run, options, 0) || check_all(run) || reopen(run, options, 1))
        return -1;
    expect_nothing(run);
    return check_all(run) || put_one(run, 3, 1) || check_all(run) ? -1 : 0;
}

/* Opening a missing store in a missing directory gives an error and no store. */
static int check_open_failure(struct run *run, const struct peer_options *options)
{
    struct peer_options wrong = *options;
    void *store = run;
    wrong.path = "/nonexistent/folder/store";
    wrong.create = 0;
    int answer = run->peer->open(&wrong, &store);
    REQUIRE(answer < 0 && !store && *run->peer->error(NULL), "an open that cannot be answered %d", answer);
    return 0;
}

static int check_run(struct run *run, struct peer_options *options)
{
    if (options->path && check_open_failure(run, options))
        return -1;
    SUCCEED(run->peer->open(options, &run->store));
    REQUIRE(run->store, "open left no store");
    if (change_store(run) || (options->path && check_reopening(run, options)))
        return -1;
    void *store = run->store;
    run->store = NULL;
    SUCCEED(run->peer->close(store));
    return 0;
}

/* Prints one line; returns 0 on success. */
static int check_setting(const struct peer *peer, const char *setting, const char *path)
{
    struct run *run = calloc(1, sizeof *run);
    struct peer_options options = {path, setting, KEYS, (uint64_t)KEYS * 200, 1};
    if (!run)
        return 1;
    int is_hsearch = strcmp(peer->name, "hsearch") == 0;
    run->peer = peer;
    key_bytes = peer->key_bytes;
    run->has_removal = run->has_scan = !is_hsearch;
    printf("%-20s %-24s %-15s %-7s", peer->name, peer->version(), setting, path ? "file" : "memory");
    fflush(stdout);
    int result = check_run(run, &options);
    if (!result)
        puts("ok");
    if (run->store)
        peer->close(run->store);
    expect_nothing(run);
    free(run);
    fflush(stdout);
    return result != 0;
}

static int is_wanted(const char *name, char **names)
{
    int wanted = !*names;
    while (*names)
        wanted |= strcmp(*names++, name) == 0;
    return wanted;
}

/* A key of PAIRS that is in a dictionary, and where its value begins in `filler`. */
struct pair {
    char key[KEY_BYTES_MAX];
    size_t len;
};

enum { DICTIONARY_VALUE_BYTES = 100 };

static int order_of_pairs(const void *a, const void *b)
{
    const struct pair *one = a, *other = b;
    int order = memcmp(one->key, other->key, one->len < other->len ? one->len : other->len);
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

/* Byte `at` of the value of pair `i`. */
static char value_byte(size_t i, size_t at) { return (char)(i * 2654435761u >> (at % 4 * 8)) ^ (char)at; }

#define DONE(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) < 0)                                                                                                \
            REQUIRE(0, "%s: %s", #call, peer->error(NULL));                                                            \
    } while (0)

static int check_reader(const struct dictionary_peer *peer, void *reader, const struct pair *pairs, int is_function,
                        char *taken)
{
    memset(taken, 0, PAIRS);
    for (size_t i = 0; i < PAIRS; i++) {
        const void *value = NULL;
        size_t len = 0;
        int found = peer->get(reader, pairs[i].key, pairs[i].len, &value, &len);
        REQUIRE(found == 1, "pair %zu: %s", i, found < 0 ? peer->error(NULL) : "not found");
        if (is_function) {
            uint64_t rank;
            REQUIRE(len == sizeof rank, "a rank of %zu bytes", len);
            memcpy(&rank, value, sizeof rank);
            REQUIRE(rank < PAIRS && !taken[rank]++, "pair %zu has rank %" PRIu64, i, rank);
            continue;
        }
        REQUIRE(len == DICTIONARY_VALUE_BYTES, "pair %zu: a value of %zu bytes", i, len);
        for (size_t at = 0; at < len; at++)
            REQUIRE(((const char *)value)[at] == value_byte(i, at), "pair %zu: byte %zu of its value", i, at);
    }
    for (uint32_t i = PAIRS; i < KEYS && !is_function; i++) {
        char key[KEY_BYTES_MAX];
        const void *value;
        size_t key_len = make_key(i, key), len;
        REQUIRE(peer->get(reader, key, key_len, &value, &len) == 0, "an absent key was found");
    }
    return 0;
}

static int check_made(const struct dictionary_peer *peer, struct peer_options *options, const struct pair *pairs,
                      char *taken)
{
    void *build, *store, *readers[2];
    const char *name;
    double number, figures = 0;
    int is_function = strstr(options->setting, "function") != NULL;
    DONE(peer->begin(options, &build));
    peer->abandon(build); /* and again */
    DONE(peer->begin(options, &build));
    for (size_t i = 0; i < PAIRS; i++) {
        char value[DICTIONARY_VALUE_BYTES];
        for (size_t at = 0; at < sizeof value; at++)
            value[at] = value_byte(i, at);
        DONE(peer->add(build, pairs[i].key, pairs[i].len, value, sizeof value));
    }
    DONE(peer->finish(build));
    options->create = 0;
    DONE(peer->open(options, &store));
    DONE(peer->reader(store, &readers[0]));
    DONE(peer->reader(store, &readers[1]));
    for (int i = 0; peer->figure(store, i, &name, &number) == 1; i++)
        figures += strcmp(name, "pairs") == 0 && number != PAIRS;
    REQUIRE(figures == 0, "a wrong number of pairs");
    for (int i = 0; i < 2; i++)
        if (check_reader(peer, readers[i], pairs, is_function, taken))
            return -1;
    peer->end_reader(readers[0]);
    peer->end_reader(readers[1]);
    DONE(peer->close(store));
    return 0;
}

static int check_dictionary(const struct dictionary_peer *peer, const char *setting, const char *path)
{
    struct pair *pairs = calloc(PAIRS, sizeof *pairs);
    char *taken = calloc(PAIRS, 1);
    struct peer_options options = {path, setting, PAIRS, (uint64_t)PAIRS * (KEY_BYTES_MAX + DICTIONARY_VALUE_BYTES), 1};
    if (!pairs || !taken)
        return 1;
    for (uint32_t i = 0; i < PAIRS; i++)
        pairs[i].len = make_key(i, pairs[i].key);
    qsort(pairs, PAIRS, sizeof *pairs, order_of_pairs);
    printf("%-20s %-24s %-19s dictionary ", peer->name, peer->version(), setting);
    fflush(stdout);
    int result = check_made(peer, &options, pairs, taken);
    if (!result)
        puts("ok");
    fflush(stdout);
    free(taken);
    free(pairs);
    return result != 0;
}

int main(int count, char **arguments)
{
    char folder[40], path[200], clean_up[200];
    int failures = 0, runs = 0;
    (void)count;
    snprintf(folder, sizeof folder, "peers-check-%ld", (long)getpid());
    if (mkdir(folder, 0700)) {
        perror(folder);
        return 1;
    }
    for (const struct peer *const *peer = peers; *peer; peer++) {
        if (!is_wanted((*peer)->name, arguments + 1))
            continue;
        for (const char *const *setting = (*peer)->settings; *setting; setting++) {
            snprintf(path, sizeof path, "%s/%s-%s", folder, (*peer)->name, *setting);
            if ((*peer)->in_memory)
                runs++, failures += check_setting(*peer, *setting, NULL);
            if ((*peer)->in_file)
                runs++, failures += check_setting(*peer, *setting, path);
        }
    }
    key_bytes = 0;
    for (const struct dictionary_peer *const *peer = dictionary_peers; *peer; peer++) {
        if (!is_wanted((*peer)->name, arguments + 1))
            continue;
        for (const char *const *setting = (*peer)->settings; *setting; setting++) {
            if (strchr(*setting, '='))
                continue;
            snprintf(path, sizeof path, "%s/%s-%s", folder, (*peer)->name, *setting);
            runs++, failures += check_dictionary(*peer, *setting + (**setting == '+'), path);
        }
    }
    printf("%d of %d ok\n", runs - failures, runs);
    snprintf(clean_up, sizeof clean_up, "rm -rf '%s'", folder);
    if (system(clean_up))
        fprintf(stderr, "could not remove %s\n", folder);
    return failures || !runs;
}

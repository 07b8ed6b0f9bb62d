/* Times lookups, as examples/lookups.rs does in Rust: lookups KEY_LEN VALUE_LEN LOOKUPS. See tests/cost. */
#include <splitpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 20000, LEN_MAX = 256 };

static void key_of(unsigned number, unsigned char *key, size_t len)
{
    memset(key, 'k', len);
    memcpy(key, &number, sizeof number < len ? sizeof number : len);
}

int main(int count, char **arguments)
{
    const size_t key_len = count == 4 ? strtoul(arguments[1], NULL, 10) : 8;
    const size_t value_len = count == 4 ? strtoul(arguments[2], NULL, 10) : 16;
    const unsigned long lookups = count == 4 ? strtoul(arguments[3], NULL, 10) : 100000;
    const uint64_t seed = 1;
    spt_options options = SPT_OPTIONS_INIT;
    unsigned char key[LEN_MAX], value[LEN_MAX] = {0};
    unsigned number = 1;
    spt_table *table = NULL;
    size_t len = 0, found = 0;
    struct timespec start, end;

    if (key_len < 4 || key_len > LEN_MAX || value_len > LEN_MAX)
        return 2;
    options.seed = &seed;
    if (spt_open_in_memory(&options, &table) != SPT_OK)
        return 1;
    for (unsigned i = 0; i < PAIRS; i++) {
        key_of(i, key, key_len);
        if (spt_put(table, key, key_len, value, value_len) != SPT_OK)
            return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned long i = 0; i < lookups; i++) {
        number = number * 1664525u + 1013904223u;
        key_of((number >> 8) % PAIRS, key, key_len);
        if (spt_get(table, key, key_len, value, sizeof value, &len) == SPT_OK)
            found += len;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%zu bytes found, %.1f ns a lookup\n", found,
           ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / (double)lookups);
    return spt_close(table) == SPT_OK && found == lookups * value_len ? 0 : 1;
}

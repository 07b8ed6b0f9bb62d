/* What our hsearch does beyond the C library's: it grows without an end, entries stay where they are, and what would
 * crash there is an error. */
#define _GNU_SOURCE
#include <search.h>

#include "check.h"

#define COUNT 200000

static char keys[COUNT][12];
static ENTRY *entries[COUNT];

static void a_table_grows_past_what_it_was_made_for(size_t nel)
{
    struct hsearch_data table = {0};
    ENTRY *found;
    REQUIRE(hcreate_r(nel, &table));
    for (int i = 0; i < COUNT; i++) {
        sprintf(keys[i], "%d", i);
        REQUIRE(hsearch_r((ENTRY){keys[i], NULL}, ENTER, &entries[i], &table));
        entries[i]->data = entries[i];
        /* All earlier ones are there after every split. */
        if (i < 2000)
            for (int j = 0; j <= i; j += 1 + i / 50)
                CHECK(hsearch_r((ENTRY){keys[j], NULL}, FIND, &found, &table) && found == entries[j]);
    }
    CHECK(table.filled == COUNT);
    CHECK(table.size >= COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK(hsearch_r((ENTRY){keys[i], NULL}, FIND, &found, &table));
        CHECK(found == entries[i] && found->data == entries[i] && found->key == keys[i]);
    }
    hdestroy_r(&table);
}

/* The C library's hash sees the ends of a key only in some bits; a common prefix or suffix must not matter. */
static void similar_keys_are_spread(void)
{
    struct hsearch_data table = {0};
    ENTRY *found;
    static char similar[20000][64];
    REQUIRE(hcreate_r(0, &table));
    for (int i = 0; i < 20000; i++) {
        sprintf(similar[i], "/usr/share/doc/a-long-prefix/%05d/and-a-suffix", i);
        REQUIRE(hsearch_r((ENTRY){similar[i], NULL}, ENTER, &found, &table));
    }
    for (int i = 0; i < 20000; i++)
        CHECK(hsearch_r((ENTRY){similar[i], NULL}, FIND, &found, &table) && found->key == similar[i]);
    hdestroy_r(&table);
}

static void wrong_calls_are_errors(void)
{
    struct hsearch_data table = {0};
    ENTRY *found = (ENTRY *)&table;
    errno = 0;
    CHECK(!hsearch((ENTRY){"key", NULL}, FIND) && errno == EINVAL); /* before hcreate */
    errno = 0;
    CHECK(!hsearch((ENTRY){"key", NULL}, ENTER) && errno == EINVAL);
    errno = 0;
    CHECK(!hsearch_r((ENTRY){"key", NULL}, ENTER, &found, &table) && !found && errno == EINVAL);
    errno = 0;
    CHECK(!hsearch_r((ENTRY){"key", NULL}, ENTER, &found, NULL) && errno == EINVAL);
    REQUIRE(hcreate_r(3, &table));
    errno = 0;
    CHECK(!hsearch_r((ENTRY){NULL, NULL}, ENTER, &found, &table) && !found && errno == EINVAL);
    errno = 0;
    CHECK(!hsearch_r((ENTRY){"key", NULL}, ENTER, NULL, &table) && errno == EINVAL);
    hdestroy_r(&table);
    errno = 0;
    CHECK(!hcreate((size_t)-1) && errno == ENOMEM);
}

static void keys_of_every_length_are_told_apart(void)
{
    struct hsearch_data table = {0};
    ENTRY *found;
    static char same[300][300];
    REQUIRE(hcreate_r(1, &table));
    for (int i = 0; i < 300; i++) {
        memset(same[i], 'a', (size_t)i);
        REQUIRE(hsearch_r((ENTRY){same[i], same[i]}, ENTER, &found, &table));
        CHECK(found->data == same[i]);
    }
    CHECK(table.filled == 300);
    /* One byte differs, at every place. */
    for (int i = 0; i < 299; i++) {
        same[299][i] = 'b';
        CHECK(!hsearch_r((ENTRY){same[299], NULL}, FIND, &found, &table));
        same[299][i] = 'a';
    }
    hdestroy_r(&table);
}

int main(void)
{
    a_table_grows_past_what_it_was_made_for(0);
    a_table_grows_past_what_it_was_made_for(1000);
    a_table_grows_past_what_it_was_made_for(COUNT);
    similar_keys_are_spread();
    wrong_calls_are_errors();
    keys_of_every_length_are_told_apart();
    return finish();
}

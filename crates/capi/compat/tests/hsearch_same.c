/* What every hsearch must do: compiled against the C library's and against ours, with the same output. */
#define _GNU_SOURCE
#include <search.h>

#include "check.h"
#include <limits.h>

#define WORDS 10000

static char words[WORDS][16];

static void the_one_table(void)
{
    int one = 1, two = 2;
    printf("create %d\n", !!hcreate(20));
    printf("create again %d\n", !!hcreate(20));
    ENTRY *first = hsearch((ENTRY){"one", &one}, ENTER);
    REQUIRE(first);
    printf("entered %s %d\n", first->key, *(int *)first->data);
    ENTRY *again = hsearch((ENTRY){"one", &two}, ENTER);
    printf("entered again: same entry %d, data %d\n", again == first, *(int *)again->data);
    first->data = &two;
    ENTRY *found = hsearch((ENTRY){"one", NULL}, FIND);
    printf("found: same entry %d, data %d\n", found == first, *(int *)found->data);
    errno = 0;
    printf("absent: %d", !!hsearch((ENTRY){"three", NULL}, FIND));
    printf(", errno ESRCH %d\n", errno == ESRCH);
    printf("empty key: %d\n", !!hsearch((ENTRY){"", &one}, ENTER));
    printf("found empty key: %d\n", !!hsearch((ENTRY){"", NULL}, FIND));
    hdestroy();
    hdestroy();
    printf("create after destroy %d\n", !!hcreate(0));
    printf("empty: %d\n", !!hsearch((ENTRY){"one", NULL}, FIND));
    hdestroy();
}

/* The key is not copied. */
static void pointers_are_kept(void)
{
    char key[] = "key";
    struct hsearch_data table;
    ENTRY *found;
    memset(&table, 0, sizeof table);
    printf("create_r %d\n", hcreate_r(10, &table));
    printf("create_r again %d\n", hcreate_r(10, &table));
    printf("enter %d\n", hsearch_r((ENTRY){key, key + 1}, ENTER, &found, &table));
    printf("the program's pointers %d %d\n", found->key == key, found->data == key + 1);
    printf("filled %u\n", table.filled);
    errno = 0;
    found = (ENTRY *)key;
    printf("absent %d %d", hsearch_r((ENTRY){"kez", NULL}, FIND, &found, &table), !found);
    printf(" ESRCH %d\n", errno == ESRCH);
    hdestroy_r(&table);
    printf("destroyed %d\n", !table.table);
    errno = 0;
    printf("create_r without a table %d", hcreate_r(10, NULL));
    printf(" EINVAL %d\n", errno == EINVAL);
    errno = 0;
    hdestroy_r(NULL);
    printf("destroy_r without a table: EINVAL %d\n", errno == EINVAL);
    errno = 0;
    printf("too large %d", hcreate_r((size_t)UINT_MAX + 1, &table));
    printf(" ENOMEM %d\n", errno == ENOMEM);
}

static void several_tables(void)
{
    static struct hsearch_data tables[4];
    ENTRY *entries[WORDS], *found;
    int entered = 0, right = 0, stayed = 0, absent = 0;
    for (int t = 0; t < 4; t++)
        hcreate_r(WORDS, &tables[t]);
    for (int i = 0; i < WORDS; i++) {
        sprintf(words[i], "word%d", i);
        entered += hsearch_r((ENTRY){words[i], words[i] + 4}, ENTER, &entries[i], &tables[i % 4]);
    }
    for (int i = 0; i < WORDS; i++) {
        right += hsearch_r((ENTRY){words[i], NULL}, FIND, &found, &tables[i % 4]) && found->key == words[i];
        stayed += found == entries[i];
        absent += !hsearch_r((ENTRY){words[i], NULL}, FIND, &found, &tables[(i + 1) % 4]);
    }
    for (int t = 0; t < 4; t++) {
        printf("filled %u\n", tables[t].filled);
        hdestroy_r(&tables[t]);
    }
    printf("entered %d right %d stayed %d absent %d\n", entered, right, stayed, absent);
}

int main(void)
{
    the_one_table();
    pointers_are_kept();
    several_tables();
    return finish();
}

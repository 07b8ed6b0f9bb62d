/* The dictionary in memory, through hsearch_r: search.c FILE COUNT NEL ROUNDS prints one line a round, in ms: create,
 * read, both with the destruction. NEL is the argument of hcreate_r; the keys of the lookups are copies. */
#define _GNU_SOURCE
#include <search.h>

#include "words.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 5);
    read_words(argv[1], atoi(argv[2]));
    char **copies = calloc((size_t)words.count, sizeof *copies);
    REQUIRE(copies);
    for (int i = 0; i < words.count; i++)
        REQUIRE((copies[i] = strdup(words.pair[i].key)));
    for (int round = atoi(argv[4]); round > 0; round--) {
        struct hsearch_data table;
        ENTRY *found;
        memset(&table, 0, sizeof table);
        double start = now_ms();
        REQUIRE(hcreate_r((size_t)atol(argv[3]), &table));
        for (int i = 0; i < words.count; i++)
            REQUIRE(hsearch_r((ENTRY){words.pair[i].key, words.pair[i].value}, ENTER, &found, &table));
        double created = now_ms();
        for (int i = 0; i < words.count; i++)
            REQUIRE(hsearch_r((ENTRY){copies[i], NULL}, FIND, &found, &table) && found->data == words.pair[i].value);
        double read = now_ms();
        hdestroy_r(&table);
        printf("%.3f %.3f %.3f\n", created - start, read - created, now_ms() - start);
    }
    return 0;
}

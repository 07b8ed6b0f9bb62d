/* What every dbm must do: compiled against the system's and against ours, with the same output. */
#define _GNU_SOURCE /* the system's headers */
#include <dbm.h>

#include "check.h"
#include <fcntl.h>

#define PAIRS 2000

static datum bytes(const char *data, size_t len)
{
    datum made = {(char *)data, (int)len};
    return made;
}

static datum text(const char *string) { return bytes(string, strlen(string)); }

static void show(const char *what, datum found)
{
    if (!found.dptr)
        printf("%s: none\n", what);
    else
        printf("%s: %d bytes \"%.*s\"\n", what, found.dsize, found.dsize, found.dptr);
}

static void make_empty(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    REQUIRE(file >= 0 && !close(file));
}

int main(int argc, char **argv)
{
    char key[20], value[20];
    int stored = 0, found = 0, walked = 0, deleted = 0;
    static char seen[PAIRS];
    enter_folder(argc, argv);
    printf("absent: %d\n", dbminit("absent") < 0);
    make_empty("first.pag");
    make_empty("first.dir");
    make_empty("second.pag");
    make_empty("second.dir");
    printf("init %d\n", dbminit("first"));
    show("fetch", fetch(text("key")));
    show("firstkey", firstkey());
    printf("delete %d\n", delete(text("key")) < 0);
    printf("store %d\n", store(text("key"), text("value")));
    printf("store again %d\n", store(text("key"), text("another")));
    show("fetch", fetch(text("key")));
    show("firstkey", firstkey());
    show("nextkey", nextkey(text("key")));
    printf("delete %d\n", delete(text("key")));
    show("fetch", fetch(text("key")));
    printf("store %d\n", store(text("left"), text("here")));
    /* Another database takes its place. */
    printf("init %d\n", dbminit("second"));
    show("fetch", fetch(text("left")));
    for (int i = 0; i < PAIRS; i++) {
        size_t key_len = (size_t)sprintf(key, "key %d", i), value_len = (size_t)sprintf(value, "%d", i * i);
        stored += store(bytes(key, key_len), bytes(value, value_len)) == 0;
    }
    dbmclose();
    printf("init %d\n", dbminit("second"));
    for (int i = 0; i < PAIRS; i++) {
        size_t key_len = (size_t)sprintf(key, "key %d", i), value_len = (size_t)sprintf(value, "%d", i * i);
        datum got = fetch(bytes(key, key_len));
        found += got.dptr && (size_t)got.dsize == value_len && !memcmp(got.dptr, value, value_len);
    }
    /* The key given to nextkey is the program's own copy. */
    for (datum at = firstkey(); at.dptr; walked++) {
        int number = -1;
        char copy[20] = "";
        memcpy(copy, at.dptr, (size_t)at.dsize);
        sscanf(copy, "key %d", &number);
        if (number >= 0 && number < PAIRS)
            seen[number]++;
        at = nextkey(text(copy));
    }
    int once = 0;
    for (int i = 0; i < PAIRS; i++)
        once += seen[i] == 1;
    for (int i = 0; i < PAIRS; i += 2)
        deleted += delete(bytes(key, (size_t)sprintf(key, "key %d", i))) == 0;
    printf("stored %d found %d walked %d once %d deleted %d\n", stored, found, walked, once, deleted);
    dbmclose();
    printf("init %d\n", dbminit("first"));
    show("fetch", fetch(text("left")));
    dbmclose();
    return finish();
}

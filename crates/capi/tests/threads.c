/* Threads on one table and one dictionary; views, messages and cursors across threads. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, KEYS = 200 };

static spt_table *table;
static spt_dictionary *dictionary;

static int rounds(void)
{
    const char *text = getenv("ROUNDS");

    return text ? atoi(text) : 20000;
}

static int add_one(void *context, const spt_bytes *old, spt_bytes *value)
{
    uint64_t *count = context;

    *count = 0;
    if (old != NULL) {
        CHECK(old->len == sizeof *count);
        memcpy(count, old->data, sizeof *count);
    }
    ++*count;
    value->data = count;
    value->len = sizeof *count;
    return SPT_UPDATE_STORE;
}

static void *work(void *argument)
{
    const int thread = (int)(intptr_t)argument, all = rounds();
    uint64_t random = 0x9E3779B97F4A7C15u * (thread + 1), count = 0;
    char key[16], value[64], expected[64];
    size_t len = 0;
    void *memory;
    spt_view view;

    for (int i = 0; i < all; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        snprintf(key, sizeof key, "%d", (int)(random % KEYS));
        switch (random >> 32 & 7) {
        case 0:
            OK(spt_update(table, B("sum"), add_one, &count));
            break;
        case 1:
            snprintf(value, sizeof value, "%s=%d", key, thread);
            OK(spt_put(table, B(key), B(value)));
            break;
        case 2:
            (void)spt_remove(table, B(key));
            break;
        case 3:
            if (spt_get_view(table, B(key), &view) == SPT_OK) {
                CHECK(view.len > strlen(key) && memcmp(view.data, key, strlen(key)) == 0);
                OK(spt_view_release(&view));
            }
            break;
        case 4:
            if (spt_get_alloc(table, B(key), &memory, &len) == SPT_OK) {
                CHECK(len > strlen(key) && memcmp(memory, key, strlen(key)) == 0);
                spt_free(memory);
            }
            break;
        case 5:
            snprintf(expected, sizeof expected, "%s!", key);
            OK(spt_dict_get(dictionary, B(key), value, sizeof value, &len));
            CHECK(len == strlen(expected) && memcmp(value, expected, len) == 0);
            break;
        default:
            if (spt_get(table, B(key), value, sizeof value, &len) == SPT_OK)
                CHECK(len > strlen(key) && memcmp(value, key, strlen(key)) == 0);
        }
    }
    return NULL;
}

static int next(void *context, spt_bytes *key, spt_bytes *value)
{
    static char texts[2][16];
    int *at = context;

    if (*at == KEYS)
        return 1;
    snprintf(texts[0], sizeof texts[0], "%d", *at);
    snprintf(texts[1], sizeof texts[1], "%d!", (*at)++);
    key->data = texts[0];
    key->len = strlen(texts[0]);
    value->data = texts[1];
    value->len = strlen(texts[1]);
    return 0;
}

static spt_view lent;
static spt_cursor *cursor;
static spt_batch *batch;

static void *other_thread(void *argument)
{
    spt_view view = lent;

    (void)argument;
    CHECK(strcmp(spt_error_message(NULL), "") == 0);
    EXPECT(SPT_WRONG_THREAD, spt_view_release(&view));
    CHECK(view.data == lent.data && strstr(spt_error_message(NULL), "thread that made it") != NULL);
    /* Cursors and batches may be handed on. */
    OK(spt_cursor_next(cursor, NULL, NULL));
    OK(spt_batch_put(batch, B("from"), B("another thread")));
    /* A view that a thread leaves behind is released with it. */
    OK(spt_get_view(table, B("sum"), &view));
    return NULL;
}

static void *hammer_cursor(void *argument)
{
    int *refused = argument;

    for (int i = 0; i < rounds(); i++) {
        spt_status status = spt_cursor_next(cursor, NULL, NULL);

        CHECK(status == SPT_OK || status == SPT_END || status == SPT_IN_USE);
        *refused += status == SPT_IN_USE;
    }
    return NULL;
}

static int refused_inside;

/* A hash function that may not do what it does: call a cursor that is calling it. */
static uint64_t intruder(void *context, const void *key, size_t key_len)
{
    (void)context, (void)key;
    if (cursor != NULL) {
        EXPECT(SPT_IN_USE, spt_cursor_next(cursor, NULL, NULL));
        EXPECT(SPT_IN_USE, spt_cursor_close(cursor));
        refused_inside++;
    }
    return key_len;
}

static void a_cursor_in_use_is_refused(void)
{
    spt_options options = SPT_OPTIONS_INIT;
    spt_table *own;

    options.user_hash = intruder;
    cursor = NULL;
    OK(spt_open_in_memory(&options, &own));
    OK(spt_put(own, B("k"), B("v")));
    OK(spt_scan(own, 0, &cursor));
    OK(spt_cursor_next(cursor, NULL, NULL));
    CHECK(refused_inside > 0);
    OK(spt_cursor_close(cursor));
    cursor = NULL;
    OK(spt_close(own));
}

static void *close_it(void *argument)
{
    spt_status status = spt_close(argument);

    CHECK(status == SPT_OK || status == SPT_INVALID_HANDLE || status == SPT_IN_USE);
    return (void *)(intptr_t)(status == SPT_OK);
}

int main(void)
{
    pthread_t threads[THREADS];
    uint64_t sum = 0, faults = 0;
    size_t len = 0;
    int at = 0, refused[2] = {0, 0};

    OK(spt_open(path_of("threads.spt"), NULL, &table));
    OK(spt_dict_build(path_of("threads.spd"), NULL, next, &at, NULL));
    OK(spt_dict_open(path_of("threads.spd"), NULL, &dictionary));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(spt_get(table, B("sum"), &sum, sizeof sum, &len));
    printf("%d increments by %d threads\n", (int)sum, THREADS);
    CHECK(sum > (uint64_t)rounds() * THREADS / 16);
    OK(spt_check(table, NULL, NULL, &faults));

    OK(spt_put(table, B("lent"), B("value")));
    EXPECT(SPT_INVALID_ARGUMENT, spt_put(table, NULL, 1, NULL, 0));
    OK(spt_get_view(table, B("lent"), &lent));
    OK(spt_scan(table, 0, &cursor));
    OK(spt_batch_begin(table, &batch));
    CHECK(pthread_create(&threads[0], NULL, other_thread, NULL) == 0 && pthread_join(threads[0], NULL) == 0);
    OK(spt_view_release(&lent));
    OK(spt_batch_commit(batch));
    CHECK(has(table, "from", "another thread"));
    OK(spt_put(table, B("sum"), B("the thread's view is gone")));

    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer_cursor, &refused[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d and %d calls of a cursor in use refused\n", refused[0], refused[1]);
    OK(spt_cursor_close(cursor));
    OK(spt_dict_close(dictionary));
    OK(spt_close(table));
    a_cursor_in_use_is_refused();

    for (int i = 0; i < 50; i++) {
        spt_table *twice;
        void *closed[4];
        intptr_t closes = 0;

        OK(spt_open_in_memory(NULL, &twice));
        for (int t = 0; t < 4; t++)
            CHECK(pthread_create(&threads[t], NULL, close_it, twice) == 0);
        for (int t = 0; t < 4; t++) {
            CHECK(pthread_join(threads[t], &closed[t]) == 0);
            closes += (intptr_t)closed[t];
        }
        CHECK(closes == 1);
    }
    puts("threads: passed");
    return 0;
}

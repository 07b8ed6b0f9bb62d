/* Random sequences of calls against a model, good and bad ones mixed: answers, codes and contents must agree, whatever
 * the order. The seed is printed; `random_calls SEED` runs one again; SECONDS=60 is how long they are tried, from that of
 * the environment's SEED or a new one on. */
#include "check.h"
#include <time.h>

enum { KEYS = 64, VALUE_MAX = 9000, CURSORS = 4, VIEWS = 4, BATCHES = 2, BATCH_CHANGES = 16 };

/* The model: the value of each key, or -1 for its length. */
struct model {
    int lens[KEYS];
    unsigned char values[KEYS][VALUE_MAX];
};

enum change { PUT, INSERT, APPEND, REMOVE };

struct planned {
    enum change change;
    int key, len;
    unsigned char fill;
};

static uint64_t state;
static spt_table *table;
static const char *path;
static struct model model;
static spt_cursor *cursors[CURSORS];
static spt_view views[VIEWS];
static int viewed[VIEWS];
static spt_batch *batches[BATCHES];
static struct planned plans[BATCHES][BATCH_CHANGES];
static int planned[BATCHES];
static void *closed[8];
static unsigned closed_count;
static int read_only;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % below;
}

static size_t key_of(int number, char *key)
{
    /* Some long keys, one empty. */
    int len = number == 0 ? 0 : sprintf(key, "key %d", number);

    if (number % 16 == 15) {
        memset(key + len, 'k', 700);
        len += 700;
    }
    return (size_t)len;
}

static int len_drawn(void)
{
    switch (draw(8)) {
    case 0:
        return 0;
    case 1:
        return (int)draw(900);
    case 2:
        return (int)draw(4500);
    default:
        return (int)draw(40);
    }
}

static void remember_closed(void *handle)
{
    closed[closed_count++ % 8] = handle;
}

static int open_children(void)
{
    int count = 0;

    for (int i = 0; i < CURSORS; i++)
        count += cursors[i] != NULL;
    for (int i = 0; i < VIEWS; i++)
        count += views[i].data != NULL;
    for (int i = 0; i < BATCHES; i++)
        count += batches[i] != NULL;
    return count;
}

static int views_open(void)
{
    int count = 0;

    for (int i = 0; i < VIEWS; i++)
        count += views[i].data != NULL;
    return count;
}

static void open_table(void)
{
    static const uint64_t seed = 42;
    spt_options options = SPT_OPTIONS_INIT;

    options.page_bytes = 512;
    options.fill_factor = 2;
    options.seed = &seed;
    options.durability = SPT_DURABILITY_NONE + (uint32_t)draw(2);
    options.cache_bytes = draw(2) ? 0 : 300 * 1024;
    options.log_bytes = 1 << 20;
    read_only = path != NULL && draw(8) == 0;
    if (path == NULL) {
        OK(spt_open_in_memory(&options, &table));
        return;
    }
    if (read_only) {
        options.flags = SPT_READ_ONLY;
        if (spt_open(path, &options, &table) == SPT_OK)
            return;
        read_only = 0;
        options.flags = 0;
    }
    OK(spt_open(path, &options, &table));
}

/* The length that an append may reach, for the model's sake. */
static int fits(int key, int len)
{
    return (model.lens[key] < 0 ? 0 : model.lens[key]) + len <= VALUE_MAX;
}

static void apply(const struct planned *plan)
{
    int *len = &model.lens[plan->key];

    switch (plan->change) {
    case INSERT:
        if (*len >= 0)
            return;
        /* fall through */
    case PUT:
        *len = plan->len;
        memset(model.values[plan->key], plan->fill, (size_t)plan->len);
        return;
    case APPEND:
        if (*len < 0)
            *len = 0;
        memset(model.values[plan->key] + *len, plan->fill, (size_t)plan->len);
        *len += plan->len;
        return;
    case REMOVE:
        *len = -1;
    }
}

static struct planned plan_drawn(void)
{
    struct planned plan = {(enum change)draw(4), (int)draw(KEYS), len_drawn(), (unsigned char)draw(256)};

    return plan;
}

static int check_value(int key, const void *value, size_t len)
{
    return model.lens[key] >= 0 && len == (size_t)model.lens[key]
           && (len == 0 || memcmp(value, model.values[key], len) == 0);
}

static int updated(void *context, const spt_bytes *old, spt_bytes *value)
{
    struct planned *plan = context;
    static unsigned char bytes[VALUE_MAX];

    CHECK((old == NULL) == (model.lens[plan->key] < 0));
    CHECK(old == NULL || check_value(plan->key, old->data, old->len));
    if (draw(4) == 0) /* a table in use is not closed */
        EXPECT(SPT_IN_USE, spt_close(table));
    memset(bytes, plan->fill, (size_t)plan->len);
    value->data = bytes;
    value->len = (size_t)plan->len;
    return (int)plan->change;
}

static void change_one(void)
{
    static unsigned char bytes[VALUE_MAX];
    struct planned plan = plan_drawn();
    char key[800];
    const size_t key_len = key_of(plan.key, key), len = (size_t)plan.len;
    size_t new_len = 0;
    const int present = model.lens[plan.key] >= 0;
    spt_status expected = SPT_OK, got;

    memset(bytes, plan.fill, len);
    switch (plan.change) {
    case PUT:
        got = spt_put(table, key, key_len, bytes, len);
        break;
    case INSERT:
        expected = present ? SPT_EXISTS : SPT_OK;
        got = spt_insert_new(table, key, key_len, bytes, len);
        break;
    case APPEND:
        if (!fits(plan.key, plan.len))
            return;
        got = spt_append(table, key, key_len, bytes, len, &new_len);
        break;
    default:
        expected = present ? SPT_OK : SPT_NOT_FOUND;
        got = spt_remove(table, key, key_len);
    }
    if (read_only) {
        EXPECT(SPT_IS_READ_ONLY, got);
        return;
    }
    if (got == SPT_WOULD_DEADLOCK && views_open())
        return;
    EXPECT(expected, got);
    apply(&plan);
    if (plan.change == APPEND)
        CHECK(new_len == (size_t)model.lens[plan.key]);
}

static void update_one(void)
{
    struct planned plan = plan_drawn();
    char key[800];
    const size_t key_len = key_of(plan.key, key);
    const int present = model.lens[plan.key] >= 0, answer = (int)draw(4);
    spt_status got;

    plan.change = (enum change)answer;
    got = spt_update(table, key, key_len, updated, &plan);
    if (answer == SPT_UPDATE_STOP) {
        EXPECT(SPT_STOPPED, got);
        return;
    }
    if (read_only) {
        EXPECT(SPT_IS_READ_ONLY, got);
        return;
    }
    if (got == SPT_WOULD_DEADLOCK && views_open())
        return;
    if (answer == SPT_UPDATE_STORE) {
        plan.change = PUT;
        apply(&plan);
        EXPECT(SPT_OK, got);
    } else if (answer == SPT_UPDATE_REMOVE) {
        model.lens[plan.key] = -1;
        EXPECT(SPT_NOT_FOUND, got);
    } else {
        EXPECT(present ? SPT_OK : SPT_NOT_FOUND, got);
    }
}

static void look_up(void)
{
    unsigned char buffer[VALUE_MAX];
    char key[800];
    const int number = (int)draw(KEYS);
    const size_t key_len = key_of(number, key), capacity = draw(2) ? sizeof buffer : (size_t)draw(100);
    size_t len = 0;
    void *memory = NULL;
    const int present = model.lens[number] >= 0;
    spt_status got = spt_get(table, key, key_len, buffer, capacity, &len);

    if (!present) {
        EXPECT(SPT_NOT_FOUND, got);
        EXPECT(SPT_NOT_FOUND, spt_contains(table, key, key_len));
        EXPECT(SPT_NOT_FOUND, spt_get_alloc(table, key, key_len, &memory, &len));
        return;
    }
    CHECK(len == (size_t)model.lens[number]);
    EXPECT(len <= capacity ? SPT_OK : SPT_TOO_SMALL, got);
    CHECK(got != SPT_OK || check_value(number, buffer, len));
    OK(spt_contains(table, key, key_len));
    OK(spt_get_alloc(table, key, key_len, &memory, &len));
    CHECK(check_value(number, memory, len));
    spt_free(memory);
}

static void look_up_many(void)
{
    static char keys[KEYS][800];
    spt_bytes names[KEYS], values[KEYS];
    int numbers[KEYS];
    const size_t count = (size_t)draw(KEYS);
    void *memory = NULL;

    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int)draw(KEYS);
        names[i].len = key_of(numbers[i], keys[i]);
        names[i].data = keys[i];
    }
    OK(spt_get_many(table, names, count, values, &memory));
    for (size_t i = 0; i < count; i++) {
        CHECK((values[i].data == NULL) == (model.lens[numbers[i]] < 0));
        CHECK(values[i].data == NULL || check_value(numbers[i], values[i].data, values[i].len));
    }
    spt_free(memory);
}

static void use_view(void)
{
    const int i = (int)draw(VIEWS);
    char key[800];

    if (views[i].data != NULL) {
        CHECK(views[i].len == 0 || ((const unsigned char *)views[i].data)[0] == viewed[i]);
        OK(spt_view_release(&views[i]));
        OK(spt_view_release(&views[i]));
        return;
    }
    const int number = (int)draw(KEYS);
    const size_t key_len = key_of(number, key);
    EXPECT(model.lens[number] >= 0 ? SPT_OK : SPT_NOT_FOUND, spt_get_view(table, key, key_len, &views[i]));
    if (views[i].data != NULL) {
        CHECK(check_value(number, views[i].data, views[i].len));
        viewed[i] = views[i].len > 0 ? ((const unsigned char *)views[i].data)[0] : 0;
    }
}

static void use_cursor(void)
{
    const int i = (int)draw(CURSORS);
    spt_bytes key, value;
    uint64_t position = 0, at = 0;
    int boundary = 0;

    if (cursors[i] == NULL) {
        OK(draw(2) ? spt_scan(table, draw(2) ? 0 : state, &cursors[i])
                   : spt_scan_prefix(table, state, (uint32_t)draw(65), &cursors[i]));
        return;
    }
    if (draw(16) == 0) {
        OK(spt_cursor_close(cursors[i]));
        remember_closed(cursors[i]);
        cursors[i] = NULL;
        return;
    }
    spt_status status = spt_cursor_next(cursors[i], &key, draw(2) ? &value : NULL);
    CHECK(status == SPT_OK || status == SPT_END);
    if (status == SPT_OK) {
        OK(spt_position(table, key.data, key.len, &at));
        status = spt_cursor_position(cursors[i], &position, &boundary);
        CHECK(status == SPT_END || (status == SPT_OK && (boundary == 0 || position > at)));
    }
}

static void use_batch(void)
{
    static unsigned char bytes[VALUE_MAX];
    const int i = (int)draw(BATCHES);
    char key[800];
    uint64_t len = 0;

    if (batches[i] == NULL) {
        OK(spt_batch_begin(table, &batches[i]));
        planned[i] = 0;
        return;
    }
    if (planned[i] == BATCH_CHANGES || draw(8) == 0) {
        const int commit = draw(4) != 0;
        spt_status status = commit ? spt_batch_commit(batches[i]) : spt_batch_discard(batches[i]);

        remember_closed(batches[i]);
        batches[i] = NULL;
        if (commit && read_only && planned[i] > 0) {
            EXPECT(SPT_IS_READ_ONLY, status);
            return;
        }
        if (commit && status == SPT_WOULD_DEADLOCK && views_open())
            return;
        EXPECT(SPT_OK, status);
        for (int p = 0; commit && p < planned[i]; p++)
            apply(&plans[i][p]);
        return;
    }
    struct planned plan = plan_drawn();
    const size_t key_len = key_of(plan.key, key);
    if (plan.change == APPEND) /* the length when it is committed is not known yet */
        plan.change = PUT;
    memset(bytes, plan.fill, (size_t)plan.len);
    OK(plan.change == PUT      ? spt_batch_put(batches[i], key, key_len, bytes, (size_t)plan.len)
       : plan.change == INSERT ? spt_batch_insert_new(batches[i], key, key_len, bytes, (size_t)plan.len)
                               : spt_batch_remove(batches[i], key, key_len));
    plans[i][planned[i]++] = plan;
    OK(spt_batch_len(batches[i], &len));
    CHECK(len == (uint64_t)planned[i]);
}

/* Closed handles, handles of other kinds, numbers. */
static void wrong_call(void)
{
    void *handle = draw(2) ? closed[draw(8)] : (void *)(uintptr_t)(state >> draw(60));
    spt_bytes key;
    size_t len = 0;
    char buffer[8];

    if (handle == table || handle == NULL)
        return;
    switch (draw(8)) {
    case 0:
        EXPECT(SPT_INVALID_HANDLE, spt_put(handle, "k", 1, "v", 1));
        return;
    case 1:
        EXPECT(SPT_INVALID_HANDLE, spt_get(handle, "k", 1, buffer, sizeof buffer, &len));
        return;
    case 2:
        for (int i = 0; i < CURSORS; i++)
            if (handle == cursors[i])
                return;
        EXPECT(SPT_INVALID_HANDLE, spt_cursor_next(handle, &key, NULL));
        EXPECT(SPT_INVALID_HANDLE, spt_cursor_close(handle));
        return;
    case 3:
        for (int i = 0; i < BATCHES; i++)
            if (handle == batches[i])
                return;
        EXPECT(SPT_INVALID_HANDLE, spt_batch_commit(handle));
        return;
    case 4:
        EXPECT(SPT_INVALID_HANDLE, spt_close(handle));
        return;
    case 5:
        EXPECT(SPT_INVALID_ARGUMENT, spt_put(table, NULL, 1 + draw(100), "v", 1));
        return;
    case 6:
        EXPECT(SPT_INVALID_ARGUMENT, spt_put(table, "k", 1, "v", (size_t)-1 - draw(100)));
        return;
    default: /* a handle of another kind */
        EXPECT(cursors[0] == NULL ? SPT_OK : SPT_INVALID_HANDLE, spt_close((spt_table *)(void *)cursors[0]));
        EXPECT(batches[0] == NULL ? SPT_OK : SPT_INVALID_HANDLE, spt_cursor_close((spt_cursor *)(void *)batches[0]));
    }
}

/* The whole table is the model, and has no fault. */
static void compare(void)
{
    char key[800];
    spt_bytes found, value;
    spt_cursor *cursor;
    uint64_t count = 0, seen = 0, faults = 0;
    void *memory;
    size_t len;

    for (int i = 0; i < KEYS; i++) {
        const size_t key_len = key_of(i, key);

        count += model.lens[i] >= 0;
        EXPECT(model.lens[i] >= 0 ? SPT_OK : SPT_NOT_FOUND, spt_get_alloc(table, key, key_len, &memory, &len));
        CHECK(memory == NULL || check_value(i, memory, len));
        spt_free(memory);
    }
    CHECK(len_of(table) == count);
    OK(spt_scan(table, 0, &cursor));
    while (spt_cursor_next(cursor, &found, &value) == SPT_OK)
        seen++;
    OK(spt_cursor_close(cursor));
    CHECK(seen == count);
    OK(spt_check(table, NULL, NULL, &faults));
}

static void reopen(void)
{
    if (open_children() > 0) {
        EXPECT(SPT_IN_USE, spt_close(table));
        return;
    }
    if (path == NULL || draw(4) != 0)
        return;
    OK(spt_close(table));
    remember_closed(table);
    open_table();
}

static void maintain(void)
{
    if (views_open()) /* some of these wait for latches */
        return;
    switch (draw(5)) {
    case 0:
        compare();
        return;
    case 1:
        OK(spt_sync(table));
        return;
    case 2:
        if (!read_only)
            OK(spt_checkpoint(table));
        return;
    case 3:
        if (!read_only)
            OK(spt_compact(table, NULL, NULL));
        return;
    default:
        if (!read_only && draw(8) == 0) {
            OK(spt_clear(table));
            for (int i = 0; i < KEYS; i++)
                model.lens[i] = -1;
        }
    }
}

static void run(uint64_t seed, int steps)
{
    state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < KEYS; i++)
        model.lens[i] = -1;
    path = seed % 3 == 0 ? NULL : path_of("random.spt");
    if (path != NULL)
        unlink(path);
    open_table();
    for (int step = 0; step < steps; step++) {
        const uint64_t what = draw(100);

        if (what < 40)
            change_one();
        else if (what < 45)
            update_one();
        else if (what < 60)
            look_up();
        else if (what < 63)
            look_up_many();
        else if (what < 70)
            use_view();
        else if (what < 80)
            use_cursor();
        else if (what < 88)
            use_batch();
        else if (what < 94)
            wrong_call();
        else if (what < 98)
            reopen();
        else
            maintain();
    }
    for (int i = 0; i < CURSORS; i++)
        OK(spt_cursor_close(cursors[i])), cursors[i] = NULL;
    for (int i = 0; i < VIEWS; i++)
        OK(spt_view_release(&views[i]));
    for (int i = 0; i < BATCHES; i++)
        OK(spt_batch_discard(batches[i])), batches[i] = NULL;
    compare();
    OK(spt_close(table));
    remember_closed(table);
}

int main(int count, char **arguments)
{
    const char *seconds = getenv("SECONDS"), *first = count > 1 ? arguments[1] : getenv("SEED");
    const time_t end = time(NULL) + (seconds ? atoi(seconds) : 5);
    uint64_t seed = first && *first ? strtoull(first, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    uint64_t runs = 0;

    do {
        /* Printed first: a crash has no time for it. Seeds follow each other, so a log needs few of them. */
        if (isatty(STDERR_FILENO) || runs % 100 == 0)
            fprintf(stderr, "%srandom_calls %llu ", isatty(STDERR_FILENO) ? "\r" : "", (unsigned long long)seed);
        run(seed++, 3000);
        runs++;
    } while (count <= 1 && time(NULL) < end);
    fprintf(stderr, "\n");
    printf("random_calls: passed, %llu runs of 3,000 calls\n", (unsigned long long)runs);
    return 0;
}

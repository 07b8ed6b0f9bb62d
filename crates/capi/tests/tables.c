/* Every function of tables, with what it returns when all is well and when it is not. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void versions_and_codes(void)
{
    CHECK(spt_version() == SPT_VERSION);
    CHECK(strcmp(spt_version_string(), "0.1.0") == 0);
    CHECK(strcmp(spt_strerror(SPT_OK), "success") == 0);
    for (int status = 1; status <= SPT_WRONG_TYPES; status++)
        CHECK(strcmp(spt_strerror(status), "an unknown code") != 0);
    CHECK(strcmp(spt_strerror(SPT_INTERNAL), "an unknown code") != 0);
    CHECK(strcmp(spt_strerror(-1), "an unknown code") == 0);
    CHECK(strcmp(spt_strerror(100), "an unknown code") == 0);
    CHECK(strcmp(spt_error_message(NULL), "") == 0);
    CHECK(spt_error_errno(NULL) == 0);
}

static void open_and_close(void)
{
    spt_table *table, *second;
    spt_options options = SPT_OPTIONS_INIT;

    options.flags = SPT_NO_CREATE;
    EXPECT(SPT_IO, spt_open(path_of("absent.spt"), &options, &table));
    CHECK(table == NULL && spt_error_errno(NULL) == 2);
    CHECK(strstr(spt_error_message(NULL), "absent.spt") != NULL);
    EXPECT(SPT_IO, spt_open(path_of("no such directory/a.spt"), NULL, &table));
    options.flags = SPT_CREATE_NEW | SPT_READ_ONLY;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open(path_of("a.spt"), &options, &table));
    options.flags = SPT_CREATE_NEW;
    options.durability = SPT_DURABILITY_SYNC;
    options.page_bytes = 512;
    options.fill_factor = 4;
    options.expected_len = 1000;
    options.cache_bytes = 1 << 20;
    options.log_bytes = 1 << 20;
    options.hash = "siphash13";
    options.seed = &(const uint64_t){7};
    OK(spt_open(path_of("a.spt"), &options, &table));
    EXPECT(SPT_LOCKED, spt_open(path_of("a.spt"), NULL, &second));
    OK(spt_put(table, B("alice"), B("admin")));
    OK(spt_close(table));
    EXPECT(SPT_IO, spt_open(path_of("a.spt"), &options, &table));

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.hash = "xxh3";
    EXPECT(SPT_WRONG_HASH, spt_open(path_of("a.spt"), &options, &table));
    options.hash = "siphash13";
    options.seed = &(const uint64_t){8};
    EXPECT(SPT_WRONG_HASH, spt_open(path_of("a.spt"), &options, &table));
    options.hash = "no such function";
    EXPECT(SPT_INVALID_ARGUMENT, spt_open(path_of("a.spt"), &options, &table));
    CHECK(strstr(spt_error_message(NULL), "no such function") && strstr(spt_error_message(NULL), "rapidhash"));
    options.hash = NULL;
    options.seed = NULL;
    options.flags = SPT_READ_ONLY;
    OK(spt_open(path_of("a.spt"), &options, &table));
    CHECK(has(table, "alice", "admin"));
    EXPECT(SPT_IS_READ_ONLY, spt_put(table, B("bob"), B("x")));
    EXPECT(SPT_IS_READ_ONLY, spt_remove(table, B("alice")));
    EXPECT(SPT_IS_READ_ONLY, spt_clear(table));
    OK(spt_sync(table));
    OK(spt_checkpoint(table));
    OK(spt_close(table));
    OK(spt_close(NULL));
    EXPECT(SPT_INVALID_ARGUMENT, spt_open(NULL, NULL, &table));
    EXPECT(SPT_INVALID_ARGUMENT, spt_open(path_of("b.spt"), NULL, NULL));
    EXPECT(SPT_NOT_A_TABLE, spt_open(path_of("."), NULL, &table));

    FILE *file = fopen(path_of("text.spt"), "w");
    CHECK(file && fputs("not a table, but longer than nothing\n", file) >= 0 && fclose(file) == 0);
    EXPECT(SPT_NOT_A_TABLE, spt_open(path_of("text.spt"), NULL, &table));

    options.flags = 0;
    options.user_hash = NULL;
    options.page_bytes = 1000;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open_in_memory(&options, &table));
    CHECK(strstr(spt_error_message(NULL), "page_bytes is 1000") != NULL);
}

static void permissions(void)
{
    spt_table *table;
    spt_options options = SPT_OPTIONS_INIT;
    struct stat stat_of;

    options.mode = 0640;
    options.flags = SPT_NO_CREATE;
    EXPECT(SPT_IO, spt_open(path_of("mode.spt"), &options, &table));
    options.flags = SPT_CREATE_NEW;
    umask(027);
    OK(spt_open(path_of("mode.spt"), &options, &table));
    OK(spt_close(table));
    CHECK(stat(path_of("mode.spt"), &stat_of) == 0 && (stat_of.st_mode & 0777) == 0640);
    EXPECT(SPT_IO, spt_open(path_of("mode.spt"), &options, &table));
    options.flags = 0;
    options.mode = 0606;
    OK(spt_open(path_of("mode.spt"), &options, &table));
    OK(spt_close(table));
    CHECK(stat(path_of("mode.spt"), &stat_of) == 0 && (stat_of.st_mode & 0777) == 0640);
    umask(022);
    options.mode = 01000;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open(path_of("mode2.spt"), &options, &table));
    options.mode = 0600;
    options.page_bytes = 3;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open(path_of("mode2.spt"), &options, &table));
    CHECK(access(path_of("mode2.spt"), F_OK) != 0);
    options.page_bytes = 0;
    EXPECT(SPT_IO, spt_open(path_of("no such directory/mode.spt"), &options, &table));
}

/* A struct of another version: shorter, longer, unset. */
static void options_of_other_versions(void)
{
    spt_table *table;
    struct {
        spt_options known;
        uint64_t newer;
    } longer = {SPT_OPTIONS_INIT, 0};
    union {
        size_t size;
        char bytes[64];
    } shorter = {sizeof(size_t) + 2 * sizeof(uint32_t)};
    spt_options options = SPT_OPTIONS_INIT;
    const uint32_t only_known = SPT_DURABILITY_NONE;

    longer.known.size = sizeof longer;
    OK(spt_open_in_memory(&longer.known, &table));
    OK(spt_close(table));
    longer.newer = 1;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open_in_memory(&longer.known, &table));
    CHECK(strstr(spt_error_message(NULL), "newer library") != NULL);
    memcpy(shorter.bytes + sizeof(size_t) + sizeof(uint32_t), &only_known, sizeof only_known);
    memset(shorter.bytes + sizeof(size_t) + 2 * sizeof(uint32_t), 0xFF, 40);
    OK(spt_open_in_memory((const spt_options *)&shorter, &table));
    OK(spt_close(table));
    options.size = 0;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open_in_memory(&options, &table));
    options.size = (size_t)-1;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open_in_memory(&options, &table));
    options.size = sizeof options;
    options.flags = 1u << 31;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open_in_memory(&options, &table));
    options.flags = 0;
    options.durability = 4;
    EXPECT(SPT_INVALID_ARGUMENT, spt_open_in_memory(&options, &table));
}

static void lookups(spt_table *table)
{
    char buffer[16];
    size_t len = 99;
    void *value = buffer;
    spt_view view, copy;

    OK(spt_put(table, B("alice"), B("admin")));
    OK(spt_put(table, B("empty"), NULL, 0));
    OK(spt_put(table, NULL, 0, B("of the empty key")));
    memset(buffer, '#', sizeof buffer);
    OK(spt_get(table, B("alice"), buffer, 5, &len));
    CHECK(len == 5 && memcmp(buffer, "admin#", 6) == 0);
    len = 0;
    memset(buffer, '#', sizeof buffer);
    EXPECT(SPT_TOO_SMALL, spt_get(table, B("alice"), buffer, 4, &len));
    CHECK(len == 5 && buffer[4] == '#');
    EXPECT(SPT_TOO_SMALL, spt_get(table, B("alice"), NULL, 0, &len));
    EXPECT(SPT_TOO_SMALL, spt_get(table, B("alice"), NULL, 100, &len));
    OK(spt_get(table, B("empty"), NULL, 0, &len));
    CHECK(len == 0);
    OK(spt_get(table, NULL, 0, buffer, sizeof buffer, &len));
    CHECK(len == 16 && memcmp(buffer, "of the empty key", 16) == 0);
    len = 99;
    EXPECT(SPT_NOT_FOUND, spt_get(table, B("bob"), buffer, sizeof buffer, &len));
    CHECK(len == 0);
    EXPECT(SPT_INVALID_ARGUMENT, spt_get(table, B("alice"), buffer, sizeof buffer, NULL));

    OK(spt_get_alloc(table, B("alice"), &value, &len));
    CHECK(len == 5 && strcmp((char *)value, "admin") == 0);
    spt_free(value);
    OK(spt_get_alloc(table, B("empty"), &value, &len));
    CHECK(value != NULL && len == 0);
    spt_free(value);
    EXPECT(SPT_NOT_FOUND, spt_get_alloc(table, B("bob"), &value, &len));
    CHECK(value == NULL && len == 0);
    spt_free(NULL);

    OK(spt_contains(table, B("alice")));
    EXPECT(SPT_NOT_FOUND, spt_contains(table, B("bob")));

    OK(spt_get_view(table, B("alice"), &view));
    CHECK(view.len == 5 && memcmp(view.data, "admin", 5) == 0);
    EXPECT(SPT_WOULD_DEADLOCK, spt_put(table, B("alice"), B("x")));
    EXPECT(SPT_IN_USE, spt_close(table));
    copy = view;
    OK(spt_view_release(&view));
    CHECK(view.data == NULL);
    OK(spt_view_release(&view));
    EXPECT(SPT_INVALID_HANDLE, spt_view_release(&copy));
    OK(spt_view_release(NULL));
    EXPECT(SPT_NOT_FOUND, spt_get_view(table, B("bob"), &view));
    CHECK(view.data == NULL && view.len == 0);
    OK(spt_view_release(&view));
    for (int i = 0; i < 1000; i++) {
        spt_view other;

        OK(spt_get_view(table, B("alice"), &view));
        OK(spt_get_view(table, B("empty"), &other));
        CHECK(other.data != NULL && other.len == 0);
        OK(spt_view_release(&view));
        OK(spt_view_release(&other));
    }
}

static void many(spt_table *table)
{
    enum { COUNT = 1000 };
    char keys[COUNT][8];
    spt_pair pairs[COUNT];
    spt_bytes names[COUNT + 1], values[COUNT + 1];
    size_t lens[COUNT];
    void *memory = NULL;

    for (int i = 0; i < COUNT; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        names[i].data = keys[i];
        names[i].len = strlen(keys[i]);
        pairs[i].key = pairs[i].value = names[i];
        pairs[i].value.len = i % 5;
    }
    names[COUNT].data = "absent";
    names[COUNT].len = 6;
    for (int i = 0; i < COUNT; i++)
        pairs[i].value.len = pairs[i].value.len > names[i].len ? names[i].len : pairs[i].value.len;
    OK(spt_put_many(table, pairs, COUNT));
    OK(spt_get_many(table, names, COUNT + 1, values, &memory));
    for (int i = 0; i < COUNT; i++) {
        CHECK(values[i].data != NULL && values[i].len == pairs[i].value.len);
        CHECK(memcmp(values[i].data, keys[i], values[i].len) == 0);
        CHECK(((const char *)values[i].data)[values[i].len] == 0);
    }
    CHECK(values[COUNT].data == NULL && values[COUNT].len == 0);
    spt_free(memory);
    OK(spt_append_many(table, pairs, COUNT, lens));
    for (int i = 0; i < COUNT; i++)
        CHECK(lens[i] == 2 * pairs[i].value.len);
    OK(spt_append_many(table, pairs, COUNT, NULL));
    OK(spt_put_many(table, NULL, 0));
    OK(spt_get_many(table, NULL, 0, NULL, &memory));
    spt_free(memory);
    EXPECT(SPT_INVALID_ARGUMENT, spt_put_many(table, NULL, 1));
    EXPECT(SPT_INVALID_ARGUMENT, spt_put_many(table, pairs, (size_t)-1));
    EXPECT(SPT_INVALID_ARGUMENT, spt_put_many(table, pairs, (size_t)-1 / sizeof pairs[0]));
    EXPECT(SPT_INVALID_ARGUMENT, spt_get_many(table, names, 1, NULL, &memory));
    EXPECT(SPT_INVALID_ARGUMENT, spt_get_many(table, names, 1, values, NULL));
    names[1].data = NULL;
    EXPECT(SPT_INVALID_ARGUMENT, spt_get_many(table, names, 2, values, &memory));
    CHECK(memory == NULL);
    for (int i = 0; i < COUNT; i++)
        OK(spt_remove(table, B(keys[i])));
}

static void changes(spt_table *table)
{
    size_t len = 0;
    void *old = NULL;
    spt_bytes one = {"one", 3}, two = {"two", 3}, empty = {NULL, 0};

    OK(spt_insert_new(table, B("carol"), B("1")));
    EXPECT(SPT_EXISTS, spt_insert_new(table, B("carol"), B("2")));
    CHECK(has(table, "carol", "1"));
    OK(spt_append(table, B("carol"), B("23"), &len));
    CHECK(len == 3 && has(table, "carol", "123"));
    OK(spt_append(table, B("carol"), NULL, 0, NULL));
    OK(spt_append(table, B("dave"), B("new"), &len));
    CHECK(len == 3);
    OK(spt_remove(table, B("dave")));
    EXPECT(SPT_NOT_FOUND, spt_remove(table, B("dave")));
    OK(spt_replace(table, B("carol"), B("one"), &old, &len));
    CHECK(len == 3 && strcmp((char *)old, "123") == 0);
    spt_free(old);
    OK(spt_replace(table, B("dave"), B("one"), &old, &len));
    CHECK(old == NULL && len == 0);

    OK(spt_compare_and_set(table, B("dave"), &one, &two));
    EXPECT(SPT_DIFFERS, spt_compare_and_set(table, B("dave"), &one, &two));
    EXPECT(SPT_DIFFERS, spt_compare_and_set(table, B("dave"), NULL, &two));
    OK(spt_compare_and_set(table, B("dave"), &two, &empty));
    OK(spt_compare_and_set(table, B("dave"), &empty, NULL));
    EXPECT(SPT_NOT_FOUND, spt_contains(table, B("dave")));
    OK(spt_compare_and_set(table, B("dave"), NULL, NULL));
    EXPECT(SPT_DIFFERS, spt_compare_and_set(table, B("dave"), &empty, NULL));
    OK(spt_remove(table, B("carol")));

    EXPECT(SPT_TOO_LONG, spt_put(table, "k", 1, "v", (size_t)1 << 32));
    EXPECT(SPT_TOO_LONG, spt_put(table, "k", (size_t)1 << 32, "v", 1));
    EXPECT(SPT_TOO_LONG, spt_get(table, "k", (size_t)1 << 40, NULL, 0, &len));
    EXPECT(SPT_INVALID_ARGUMENT, spt_put(table, "k", (size_t)-1, "v", 1));
    EXPECT(SPT_INVALID_ARGUMENT, spt_put(table, NULL, 1, "v", 1));
    EXPECT(SPT_INVALID_ARGUMENT, spt_put(table, "k", 1, NULL, 1));
    CHECK(strcmp(spt_error_message(table), "the value is NULL, its length is 1") == 0);
}

struct edit {
    int answer;
    spt_bytes value;
    int calls;
    char old[16];
    spt_table *table;
};

static int edit(void *context, const spt_bytes *old, spt_bytes *value)
{
    struct edit *edit = context;

    edit->calls++;
    CHECK(value->data == NULL && value->len == 0);
    snprintf(edit->old, sizeof edit->old, "%.*s", old ? (int)old->len : 6, old ? (const char *)old->data : "absent");
    if (edit->table != NULL) {
        /* It may use the table, but not close it. */
        OK(spt_put(edit->table, B("side"), B("effect")));
        EXPECT(SPT_IN_USE, spt_close(edit->table));
    }
    *value = edit->value;
    return edit->answer;
}

static void updates(spt_table *table)
{
    struct edit context = {SPT_UPDATE_STORE, {"1", 1}, 0, "", table};

    OK(spt_update(table, B("erin"), edit, &context));
    CHECK(context.calls == 1 && strcmp(context.old, "absent") == 0 && has(table, "erin", "1"));
    context.table = NULL;
    context.value.data = "22";
    context.value.len = 2;
    OK(spt_update(table, B("erin"), edit, &context));
    CHECK(strcmp(context.old, "1") == 0 && has(table, "erin", "22"));
    context.answer = SPT_UPDATE_KEEP;
    OK(spt_update(table, B("erin"), edit, &context));
    CHECK(has(table, "erin", "22"));
    context.answer = SPT_UPDATE_STOP;
    EXPECT(SPT_STOPPED, spt_update(table, B("erin"), edit, &context));
    CHECK(has(table, "erin", "22"));
    context.answer = 17;
    EXPECT(SPT_INVALID_ARGUMENT, spt_update(table, B("erin"), edit, &context));
    CHECK(strstr(spt_error_message(table), "17") != NULL);
    context.answer = SPT_UPDATE_STORE;
    context.value.data = NULL;
    EXPECT(SPT_INVALID_ARGUMENT, spt_update(table, B("erin"), edit, &context));
    context.answer = SPT_UPDATE_REMOVE;
    EXPECT(SPT_NOT_FOUND, spt_update(table, B("erin"), edit, &context));
    context.answer = SPT_UPDATE_KEEP;
    EXPECT(SPT_NOT_FOUND, spt_update(table, B("erin"), edit, &context));
    EXPECT(SPT_INVALID_ARGUMENT, spt_update(table, B("erin"), NULL, &context));
    OK(spt_remove(table, B("side")));
}

static void batches(spt_table *table)
{
    spt_batch *batch;
    uint64_t len = 0, before = len_of(table);
    struct edit context = {SPT_UPDATE_STORE, {"90", 2}, 0, "", NULL};

    OK(spt_batch_begin(table, &batch));
    OK(spt_batch_put(batch, B("b1"), B("put")));
    OK(spt_batch_append(batch, B("b1"), B("+")));
    OK(spt_batch_insert_new(batch, B("b1"), B("ignored")));
    OK(spt_batch_insert_new(batch, B("b2"), B("inserted")));
    OK(spt_batch_remove(batch, B("absent")));
    OK(spt_batch_update(batch, B("b3"), edit, &context));
    OK(spt_batch_len(batch, &len));
    CHECK(len == 6 && len_of(table) == before && context.calls == 0);
    EXPECT(SPT_IN_USE, spt_close(table));
    OK(spt_batch_commit(batch));
    CHECK(has(table, "b1", "put+") && has(table, "b2", "inserted") && has(table, "b3", "90") && context.calls == 1);

    /* Of a durability of its own. */
    for (uint32_t durability = 0; durability <= SPT_DURABILITY_SYNC; durability++) {
        OK(spt_batch_begin_with(table, durability, &batch));
        OK(spt_batch_put(batch, B("b4"), durability % 2 ? "odd" : "even", durability % 2 ? 3 : 4));
        OK(spt_batch_commit(batch));
        CHECK(has(table, "b4", durability % 2 ? "odd" : "even"));
    }
    OK(spt_remove(table, B("b4")));
    EXPECT(SPT_INVALID_HANDLE, spt_batch_commit(batch));
    EXPECT(SPT_INVALID_HANDLE, spt_batch_put(batch, B("b1"), B("x")));
    EXPECT(SPT_INVALID_HANDLE, spt_batch_discard(batch));

    OK(spt_batch_begin(table, &batch));
    OK(spt_batch_put(batch, B("b1"), B("never")));
    EXPECT(SPT_TOO_LONG, spt_batch_put(batch, "k", 1, "v", (size_t)1 << 32));
    EXPECT(SPT_INVALID_ARGUMENT, spt_batch_update(batch, B("b1"), NULL, NULL));
    OK(spt_batch_discard(batch));
    OK(spt_batch_discard(NULL));
    CHECK(has(table, "b1", "put+"));

    OK(spt_batch_begin(table, &batch));
    OK(spt_batch_put(batch, B("b1"), B("never")));
    context.answer = SPT_UPDATE_STOP;
    OK(spt_batch_update(batch, B("b2"), edit, &context));
    EXPECT(SPT_STOPPED, spt_batch_commit(batch));
    EXPECT(SPT_INVALID_HANDLE, spt_batch_commit(batch));
    CHECK(has(table, "b1", "put+"));

    OK(spt_batch_begin(table, &batch));
    OK(spt_batch_remove(batch, B("b1")));
    OK(spt_batch_remove(batch, B("b2")));
    OK(spt_batch_remove(batch, B("b3")));
    OK(spt_batch_commit(batch));
    CHECK(len_of(table) == before);
}

static void scans(spt_table *table)
{
    spt_cursor *cursor;
    spt_bytes key, value;
    uint64_t position = 0, at = 0, all = len_of(table), seen = 0;
    int boundary = 7;
    spt_status status;

    OK(spt_scan(table, 0, &cursor));
    OK(spt_cursor_position(cursor, &position, &boundary));
    CHECK(position == 0 && boundary == 1);
    while ((status = spt_cursor_next(cursor, &key, &value)) == SPT_OK)
        seen++;
    CHECK(status == SPT_END && seen == all && key.data == NULL && value.len == 0);
    EXPECT(SPT_END, spt_cursor_next(cursor, &key, &value));
    EXPECT(SPT_END, spt_cursor_position(cursor, &position, NULL));
    EXPECT(SPT_IN_USE, spt_close(table));
    OK(spt_cursor_close(cursor));
    EXPECT(SPT_INVALID_HANDLE, spt_cursor_close(cursor));
    EXPECT(SPT_INVALID_HANDLE, spt_cursor_next(cursor, &key, &value));
    OK(spt_cursor_close(NULL));

    /* One pair a cursor, resumed by position. */
    for (seen = 0, position = 0;; seen++) {
        OK(spt_scan(table, position, &cursor));
        status = spt_cursor_next(cursor, &key, NULL);
        if (status == SPT_OK) {
            OK(spt_position(table, key.data, key.len, &at));
            CHECK(at >= position);
        }
        if (status == SPT_OK)
            status = spt_cursor_position(cursor, &position, &boundary);
        OK(spt_cursor_close(cursor));
        if (status != SPT_OK)
            break;
        CHECK(position > at);
    }
    CHECK(status == SPT_END && seen + (all > 0) == all);

    for (uint64_t part = seen = 0; part < 4; part++) {
        OK(spt_scan_prefix(table, part << 62, 2, &cursor));
        while (spt_cursor_next(cursor, &key, &value) == SPT_OK)
            seen++;
        OK(spt_cursor_close(cursor));
    }
    CHECK(seen == all);
    EXPECT(SPT_INVALID_ARGUMENT, spt_scan_prefix(table, 0, 65, &cursor));
    CHECK(cursor == NULL);
    EXPECT(SPT_INVALID_ARGUMENT, spt_scan(table, 0, NULL));

    /* Removing what is returned empties the table, and each pair is returned once. */
    OK(spt_scan(table, 0, &cursor));
    for (seen = 0; spt_cursor_next(cursor, &key, NULL) == SPT_OK; seen++)
        OK(spt_remove(table, key.data, key.len));
    OK(spt_cursor_close(cursor));
    CHECK(seen == all && len_of(table) == 0);
    OK(spt_put(table, B("alice"), B("admin")));
    OK(spt_clear(table));
    CHECK(len_of(table) == 0);
}

static int count_calls(void *context, uint64_t done, uint64_t all)
{
    CHECK(done <= all);
    ++*(int *)context;
    return 0;
}

static int cancel(void *context, uint64_t done, uint64_t all)
{
    (void)context, (void)done, (void)all;
    return 1;
}

static int count_faults(void *context, const char *place, const char *what)
{
    CHECK(place[0] != 0 && what[0] != 0);
    return ++*(int *)context >= 2;
}

static int take_found(void *context, const spt_found *found)
{
    spt_table *table = context;

    if (found->kind == SPT_FOUND_PAIR)
        OK(spt_put(table, found->key.data, found->key.len, found->value.data, found->value.len));
    else if (found->kind == SPT_FOUND_FAULT)
        CHECK(found->place[0] != 0 && found->what[0] != 0);
    else
        CHECK(found->kind == SPT_FOUND_PROGRESS && found->done <= found->all);
    return 0;
}

static int stop_salvage(void *context, const spt_found *found)
{
    (void)context, (void)found;
    return 1;
}

static int found_types(void *context, const spt_found *found)
{
    if (found->kind == SPT_FOUND_TYPES)
        strcpy(context, found->what);
    return 0;
}

/* A reader moves on to the next checkpoint, and whatever is made of a typed table keeps its types. */
static void readers_and_types(void)
{
    spt_table *table, *reader, *newer;
    spt_dictionary *dictionary;
    spt_options options = SPT_OPTIONS_INIT;
    spt_salvage_report report;
    char types[65] = "?";
    size_t len = 9;

    OK(spt_open(path_of("typed.spt"), NULL, &table));
    OK(spt_types(table, types, sizeof types, &len));
    CHECK(len == 0 && types[0] == 0);
    options.flags = SPT_READ_ONLY;
    OK(spt_open(path_of("typed.spt"), &options, &reader));
    OK(spt_newer(reader, &newer));
    CHECK(newer == NULL);
    OK(spt_put(table, B("k"), B("v")));
    OK(spt_record_types(table, "bytes -> bytes"));
    EXPECT(SPT_WRONG_TYPES, spt_record_types(table, "str -> bytes"));
    OK(spt_newer(table, &newer));
    CHECK(newer == NULL);
    EXPECT(SPT_NOT_FOUND, spt_contains(reader, B("k")));
    OK(spt_newer(reader, &newer));
    OK(spt_close(reader));
    OK(spt_contains(newer, B("k")));
    OK(spt_types(newer, types, sizeof types, &len));
    CHECK(len == 14 && strcmp(types, "bytes -> bytes") == 0);
    EXPECT(SPT_TOO_SMALL, spt_types(newer, types, len, &len));
    OK(spt_close(newer));
    OK(spt_freeze(table, path_of("typed.spd"), NULL, NULL));
    OK(spt_close(table));
    OK(spt_open_in_memory(NULL, &table));
    OK(spt_dict_open(path_of("typed.spd"), NULL, &dictionary));
    OK(spt_thaw(dictionary, table, NULL));
    OK(spt_dict_close(dictionary));
    EXPECT(SPT_WRONG_TYPES, spt_record_types(table, "str -> bytes"));
    OK(spt_close(table));
    memset(types, 0, sizeof types);
    OK(spt_salvage(path_of("typed.spt"), NULL, found_types, types, &report, sizeof report));
    CHECK(report.verified == 1 && strcmp(types, "bytes -> bytes") == 0);
}

/* Damages a frame of pairs in a copy: there the frames, of which the first one has none, begin with block 4. */
static void damage(const char *path)
{
    int file = open(path, O_RDWR);

    CHECK(file >= 0 && lseek(file, 0, SEEK_END) > 7 * 4096);
    CHECK(pwrite(file, "damaged!", 8, 6 * 4096 + 100) == 8 && close(file) == 0);
}

static void upkeep(void)
{
    spt_table *table, *reader, *rescued;
    spt_options options = SPT_OPTIONS_INIT;
    spt_counters counters;
    spt_survey survey;
    spt_publisher publisher;
    spt_bucket_count *histogram;
    spt_salvage_report report;
    size_t len = 0;
    uint64_t faults = 99, pairs = 0, buckets = 0;
    int calls = 0;
    char key[16];

    options.flags = SPT_PUBLISH_COUNTERS;
    OK(spt_open(path_of("upkeep.spt"), &options, &table));
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        OK(spt_put(table, B(key), "0123456789012345678901234567890123456789", i % 40));
    }
    OK(spt_sync(table));
    OK(spt_checkpoint(table));
    memset(&counters, 0xFF, sizeof counters);
    OK(spt_read_counters(table, &counters, sizeof counters));
    CHECK(counters.pairs == 3000 && counters.puts == 3000 && counters.checkpoints >= 1 && counters.replayed == 0);
    memset(&counters, 0xFF, sizeof counters);
    OK(spt_read_counters(table, &counters, 16));
    CHECK(counters.pairs == 3000 && counters.buckets == (uint64_t)-1);
    EXPECT(SPT_INVALID_ARGUMENT, spt_read_counters(table, &counters, 0));
    EXPECT(SPT_INVALID_ARGUMENT, spt_read_counters(table, &counters, (size_t)-1));
    EXPECT(SPT_INVALID_ARGUMENT, spt_read_counters(table, NULL, sizeof counters));
    for (int tries = 0; tries < 300; tries++) { /* published twice a second, later where the machine is busy */
        usleep(100 * 1000);
        OK(spt_read_published(path_of("upkeep.spt"), &counters, sizeof counters, &publisher, sizeof publisher));
        if (counters.pairs == 3000) break;
    }
    CHECK(counters.pairs == 3000 && publisher.is_open == 1 && publisher.process == (uint32_t)getpid());
    EXPECT(SPT_NOT_FOUND, spt_read_published(path_of("a.spt"), &counters, sizeof counters, &publisher, sizeof publisher));

    OK(spt_survey_table(table, &survey, sizeof survey, &histogram, &len));
    CHECK(survey.pairs == 3000 && survey.page_bytes == 1024 && strcmp(survey.hash, "xxh3") == 0);
    CHECK(survey.fill_target_percent == 92 && survey.fill_percent > 10 && survey.largest_bucket > 0);
    for (size_t i = 0; i < len; i++) {
        pairs += histogram[i].pairs * histogram[i].buckets;
        buckets += histogram[i].buckets;
    }
    CHECK(pairs == 3000 && buckets == survey.buckets);
    spt_free(histogram);
    OK(spt_survey_table(table, &survey, sizeof survey, NULL, NULL));

    OK(spt_check(table, count_faults, &calls, &faults));
    CHECK(calls == 0 && faults == 0);
    OK(spt_check(table, NULL, NULL, NULL));
    EXPECT(SPT_STOPPED, spt_compact(table, cancel, NULL));
    OK(spt_compact(table, count_calls, &calls));
    CHECK(calls > 0);
    OK(spt_compact(table, NULL, NULL));

    OK(spt_backup(table, path_of("copy.spt"), 0, count_calls, &calls));
    EXPECT(SPT_INVALID_ARGUMENT, spt_backup(table, path_of("copy.spt"), 0, NULL, NULL));
    EXPECT(SPT_INVALID_ARGUMENT, spt_backup(table, path_of("copy.spt"), 6, NULL, NULL));
    OK(spt_backup(table, path_of("copy.spt"), SPT_OVERWRITE, NULL, NULL));
    EXPECT(SPT_STOPPED, spt_backup(table, path_of("copy.spt"), SPT_OVERWRITE, cancel, NULL));
    OK(spt_backup_file(path_of("upkeep.spt"), path_of("copy2.spt"), NULL, 0, NULL, NULL));
    options.flags = SPT_READ_ONLY;
    OK(spt_open(path_of("copy2.spt"), &options, &reader));
    CHECK(len_of(reader) == 3000);
    OK(spt_close(reader));

    /* A reader beside the writer keeps its checkpoint. */
    options.cache_bytes = 1;
    OK(spt_open(path_of("upkeep.spt"), &options, &reader));
    CHECK(has(reader, "key 41", "0"));
    OK(spt_put(table, B("key 41"), B("changed")));
    OK(spt_checkpoint(table));
    spt_status status = SPT_OK;
    for (int i = 0; i < 3000 && status == SPT_OK; i++) {
        snprintf(key, sizeof key, "key %d", i);
        status = spt_contains(reader, B(key));
    }
    EXPECT(SPT_OK, status);
    CHECK(has(reader, "key 41", "0"));
    OK(spt_close(reader));
    OK(spt_close(table));

    OK(spt_restore(path_of("copy.spt"), path_of("upkeep.spt"), NULL, SPT_OVERWRITE, NULL, NULL));
    EXPECT(SPT_INVALID_ARGUMENT, spt_restore(path_of("copy.spt"), path_of("upkeep.spt"), NULL, 0, NULL, NULL));

    damage(path_of("copy.spt"));
    EXPECT(SPT_CORRUPT, spt_restore(path_of("copy.spt"), path_of("upkeep.spt"), NULL, SPT_OVERWRITE, NULL, NULL));
    OK(spt_open(path_of("copy.spt"), NULL, &table));
    faults = calls = 0;
    EXPECT(SPT_CORRUPT, spt_check(table, count_faults, &calls, &faults));
    CHECK(faults > 0 && calls >= 1 && calls <= 2 && strstr(spt_error_message(table), "faults, the first: ") != NULL);
    status = SPT_OK;
    for (int i = 0; i < 3000 && status == SPT_OK; i++) {
        snprintf(key, sizeof key, "key %d", i);
        status = spt_contains(table, B(key));
    }
    EXPECT(SPT_CORRUPT, status);
    OK(spt_close(table));
    OK(spt_open_in_memory(NULL, &rescued));
    OK(spt_salvage(path_of("copy.spt"), NULL, take_found, rescued, &report, sizeof report));
    CHECK(report.is_counted && report.counted == 3000 && !report.is_whole && report.losses > 0);
    CHECK(report.verified + report.unverified == len_of(rescued) && len_of(rescued) > 2000);
    EXPECT(SPT_STOPPED, spt_salvage(path_of("copy.spt"), NULL, stop_salvage, NULL, &report, sizeof report));
    EXPECT(SPT_INVALID_ARGUMENT, spt_salvage(path_of("copy.spt"), NULL, NULL, NULL, &report, sizeof report));
    EXPECT(SPT_NOT_A_TABLE, spt_salvage(path_of("text.spt"), NULL, take_found, rescued, &report, sizeof report));
    OK(spt_close(rescued));
}

static uint64_t first_byte(void *context, const void *key, size_t key_len)
{
    ++*(uint64_t *)context;
    return key_len == 0 ? 0 : *(const unsigned char *)key;
}

static uint64_t constant(void *context, const void *key, size_t key_len)
{
    (void)context, (void)key, (void)key_len;
    return 0;
}

static void own_hash_function(void)
{
    spt_table *table;
    spt_options options = SPT_OPTIONS_INIT;
    uint64_t calls = 0, hash = 0, position = 0;
    spt_survey survey;
    char key[16];

    options.user_hash = first_byte;
    options.user_context = &calls;
    options.hash = "first byte";
    OK(spt_open(path_of("own.spt"), &options, &table));
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%c%d", 'a' + i % 26, i);
        OK(spt_put(table, B(key), B(key)));
    }
    CHECK(calls >= 500);
    OK(spt_position(table, "a", 1, &position));
    CHECK(position == (uint64_t)0x86 << 56); /* 'a' with its bits reversed */
    OK(spt_survey_table(table, &survey, sizeof survey, NULL, NULL));
    CHECK(strcmp(survey.hash, "first byte") == 0);
    OK(spt_close(table));
    EXPECT(SPT_WRONG_HASH, spt_open(path_of("own.spt"), NULL, &table));
    options.user_hash = constant;
    EXPECT(SPT_WRONG_HASH, spt_open(path_of("own.spt"), &options, &table));
    options.user_hash = first_byte;
    OK(spt_open(path_of("own.spt"), &options, &table));
    CHECK(has(table, "b1", "b1") && len_of(table) == 500);
    OK(spt_close(table));

    CHECK(strcmp(spt_hash_name(0), "xxh3") == 0 && spt_hash_name(11) == NULL && spt_hash_name((size_t)-1) == NULL);
    for (size_t i = 0; spt_hash_name(i) != NULL; i++)
        OK(spt_hash(spt_hash_name(i), 1, B("key"), &hash));
    OK(spt_hash("crc32c", 0, B("123456789"), &hash));
    CHECK(hash == 0xe3069283);
    OK(spt_hash(NULL, 0, NULL, 0, &hash));
    EXPECT(SPT_INVALID_ARGUMENT, spt_hash("user", 0, B("key"), &hash));
    EXPECT(SPT_INVALID_ARGUMENT, spt_hash("\xFF", 0, B("key"), &hash));
    EXPECT(SPT_INVALID_ARGUMENT, spt_hash("xxh3", 0, B("key"), NULL));
}

/* A version of the file that no library has yet. */
static void other_version(void)
{
    spt_table *table;
    int file;

    OK(spt_open(path_of("version.spt"), NULL, &table));
    OK(spt_close(table));
    file = open(path_of("version.spt"), O_RDWR);
    /* In both headers: if one is whole, the other one is only damaged. */
    CHECK(file >= 0 && pwrite(file, "\x63", 1, 8) == 1 && pwrite(file, "\x63", 1, 4096 + 8) == 1 && close(file) == 0);
    EXPECT(SPT_OTHER_VERSION, spt_open(path_of("version.spt"), NULL, &table));
    OK(spt_open(path_of("corrupt.spt"), NULL, &table));
    OK(spt_close(table));
    CHECK(truncate(path_of("corrupt.spt"), 6000) == 0);
    EXPECT(SPT_CORRUPT, spt_open(path_of("corrupt.spt"), NULL, &table));
}

/* A process that dies leaves its log; the next open replays it. */
static void crash(void)
{
    spt_table *table;
    spt_counters counters;
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        OK(spt_open(path_of("crash.spt"), NULL, &table));
        OK(spt_put(table, B("kept"), B("yes")));
        raise(SIGSTOP); /* valgrind looks for leaks, for minutes, in a program that kills itself */
    }
    CHECK(child > 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && !kill(child, SIGKILL));
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    OK(spt_open(path_of("crash.spt"), NULL, &table));
    CHECK(has(table, "kept", "yes"));
    OK(spt_read_counters(table, &counters, sizeof counters));
    CHECK(counters.replayed == 1);
    OK(spt_close(table));
}

/* In a child, where the limit harms nothing else. */
static void out_of_memory(void)
{
    int status = 0;
    pid_t child;

    if (getenv("NO_LIMITS") != NULL) /* a sanitizer or valgrind needs address space itself */
        return;
    child = fork();
    if (child == 0) {
        /* Less than a table takes, given the memory in use. */
        size_t pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        struct rlimit limit;
        spt_table *table;

        CHECK(file && fscanf(file, "%zu", &pages) == 1 && fclose(file) == 0 && getrlimit(RLIMIT_AS, &limit) == 0);
        limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + (1 << 20);
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        EXPECT(SPT_OUT_OF_MEMORY, spt_open_in_memory(NULL, &table));
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Every call that any table supports. */
static void all(spt_table *table)
{
    lookups(table);
    many(table);
    changes(table);
    updates(table);
    batches(table);
    scans(table);
    OK(spt_close(table));
}

int main(void)
{
    spt_table *table;
    spt_options options = SPT_OPTIONS_INIT;

    versions_and_codes();
    open_and_close();
    permissions();
    options_of_other_versions();
    OK(spt_open_in_memory(NULL, &table));
    all(table);
    OK(spt_open(path_of("all.spt"), NULL, &table));
    all(table);
    options.page_bytes = 512;
    options.fill_percent = 200;
    options.cache_bytes = 1 << 20;
    OK(spt_open_in_memory(&options, &table));
    all(table);
    upkeep();
    readers_and_types();
    own_hash_function();
    other_version();
    crash();
    out_of_memory();
    puts("tables: passed");
    return 0;
}

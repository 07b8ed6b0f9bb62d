/* Whatever a caller passes instead of a handle, a length or a pointer that may not be NULL: a code, and no crash. */
#include "check.h"

static int never(void *context, uint64_t done, uint64_t all)
{
    (void)context, (void)done, (void)all;
    return 0;
}

static int never_update(void *context, const spt_bytes *old, spt_bytes *value)
{
    (void)context, (void)old, (void)value;
    return SPT_UPDATE_KEEP;
}

static int never_next(void *context, spt_bytes *key, spt_bytes *value)
{
    (void)context, (void)key, (void)value;
    return 1;
}

static int never_fault(void *context, const char *place, const char *what)
{
    (void)context, (void)place, (void)what;
    return 0;
}

static int never_found(void *context, const spt_found *found)
{
    (void)context, (void)found;
    return 0;
}

/* Every function that takes a handle, with `handle`, which is not a handle. */
static void wrong_handle(void *handle)
{
    char buffer[8];
    size_t len = 0;
    uint64_t number = 0;
    void *memory = NULL;
    int boundary = 0;
    spt_bytes bytes = {"k", 1}, value = {NULL, 0};
    spt_pair pair = {{"k", 1}, {"v", 1}};
    spt_view view = {NULL, 0, 0};
    spt_counters counters;
    spt_survey survey;
    spt_dict_sizes sizes;
    spt_cursor *cursor = NULL;
    spt_batch *batch = NULL;
    spt_table *newer = NULL;
    spt_diff *diff = NULL;
    spt_change change = {SPT_CHANGE_ADDED, {"k", 1}, {NULL, 0}, {"v", 1}};
    const spt_status wrong = SPT_INVALID_HANDLE, closed = handle == NULL ? SPT_OK : SPT_INVALID_HANDLE;

    EXPECT(closed, spt_close(handle));
    EXPECT(closed, spt_cursor_close(handle));
    EXPECT(closed, spt_batch_discard(handle));
    EXPECT(closed, spt_dict_close(handle));
    EXPECT(closed, spt_build_discard(handle));
    EXPECT(closed, spt_dict_update_discard(handle));
    EXPECT(closed, spt_diff_close(handle));
    EXPECT(wrong, spt_get(handle, "k", 1, buffer, sizeof buffer, &len));
    EXPECT(wrong, spt_get_alloc(handle, "k", 1, &memory, &len));
    EXPECT(wrong, spt_contains(handle, "k", 1));
    EXPECT(wrong, spt_get_view(handle, "k", 1, &view));
    EXPECT(wrong, spt_get_many(handle, &bytes, 1, &value, &memory));
    EXPECT(wrong, spt_put(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_insert_new(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_append(handle, "k", 1, "v", 1, &len));
    EXPECT(wrong, spt_remove(handle, "k", 1));
    EXPECT(wrong, spt_replace(handle, "k", 1, "v", 1, &memory, &len));
    EXPECT(wrong, spt_compare_and_set(handle, "k", 1, NULL, NULL));
    EXPECT(wrong, spt_update(handle, "k", 1, never_update, NULL));
    EXPECT(wrong, spt_put_many(handle, &pair, 1));
    EXPECT(wrong, spt_append_many(handle, &pair, 1, &len));
    EXPECT(wrong, spt_len(handle, &number));
    EXPECT(wrong, spt_clear(handle));
    EXPECT(wrong, spt_sync(handle));
    EXPECT(wrong, spt_checkpoint(handle));
    EXPECT(wrong, spt_scan(handle, 0, &cursor));
    EXPECT(wrong, spt_scan_prefix(handle, 0, 2, &cursor));
    EXPECT(wrong, spt_cursor_next(handle, &bytes, &value));
    EXPECT(wrong, spt_cursor_position(handle, &number, &boundary));
    EXPECT(wrong, spt_batch_begin(handle, &batch));
    EXPECT(wrong, spt_batch_begin_with(handle, SPT_DURABILITY_SYNC, &batch));
    EXPECT(wrong, spt_batch_put(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_batch_insert_new(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_batch_append(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_batch_remove(handle, "k", 1));
    EXPECT(wrong, spt_batch_update(handle, "k", 1, never_update, NULL));
    EXPECT(wrong, spt_batch_len(handle, &number));
    EXPECT(wrong, spt_batch_commit(handle));
    EXPECT(wrong, spt_compact(handle, never, NULL));
    EXPECT(wrong, spt_backup(handle, path_of("backup.spt"), 0, never, NULL));
    EXPECT(wrong, spt_check(handle, never_fault, NULL, &number));
    EXPECT(wrong, spt_read_counters(handle, &counters, sizeof counters));
    EXPECT(wrong, spt_survey_table(handle, &survey, sizeof survey, NULL, NULL));
    EXPECT(wrong, spt_position(handle, "k", 1, &number));
    EXPECT(wrong, spt_newer(handle, &newer));
    EXPECT(wrong, spt_types(handle, buffer, sizeof buffer, &len));
    EXPECT(wrong, spt_record_types(handle, "u64 -> str"));
    EXPECT(wrong, spt_freeze(handle, path_of("frozen.spd"), NULL, &number));
    EXPECT(wrong, spt_dict_reload(handle, &boundary));
    EXPECT(wrong, spt_dict_get(handle, "k", 1, buffer, sizeof buffer, &len));
    EXPECT(wrong, spt_dict_get_alloc(handle, "k", 1, &memory, &len));
    EXPECT(wrong, spt_dict_contains(handle, "k", 1));
    EXPECT(wrong, spt_dict_get_many(handle, &bytes, 1, &value, &memory));
    EXPECT(wrong, spt_dict_len(handle, &number));
    EXPECT(wrong, spt_dict_scan(handle, &cursor));
    EXPECT(wrong, spt_dict_range(handle, 0, 1, &cursor));
    EXPECT(wrong, spt_dict_position(handle, "k", 1, &number));
    EXPECT(wrong, spt_dict_diff(handle, handle, never, NULL, &diff));
    EXPECT(wrong, spt_dict_diff_range(handle, handle, 0, 1, &diff));
    EXPECT(wrong, spt_diff_next(handle, &change));
    EXPECT(wrong, spt_dict_check_with(handle, 1, never, NULL, never_fault, NULL, &number));
    EXPECT(wrong, spt_dict_stat(handle, &sizes, sizeof sizes));
    EXPECT(wrong, spt_dict_check(handle, never_fault, NULL, &number));
    EXPECT(wrong, spt_thaw(handle, handle, &number));
    EXPECT(wrong, spt_build_push(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_build_push_at(handle, "k", 1, "v", 1, 1));
    EXPECT(wrong, spt_build_resumed(handle, NULL, NULL, NULL));
    EXPECT(wrong, spt_build_save(handle));
    EXPECT(wrong, spt_build_finish(handle, &number));
    EXPECT(wrong, spt_dict_update_put(handle, "k", 1, "v", 1));
    EXPECT(wrong, spt_dict_update_remove(handle, "k", 1));
    EXPECT(wrong, spt_dict_update_apply(handle, &change));
    EXPECT(wrong, spt_dict_update_finish(handle, &number));
    CHECK(memory == NULL && cursor == NULL && diff == NULL && batch == NULL && view.data == NULL);
    CHECK(spt_error_message(handle) != NULL && spt_error_errno(handle) == 0);
}

/* Every function with an open handle and NULL where that is not allowed. */
static void null_pointers(void)
{
    spt_table *table;
    spt_dictionary *dictionary;
    spt_build *build;
    spt_dict_update *update;
    spt_batch *batch;
    spt_cursor *cursor;
    spt_diff *diff;
    spt_change change = {0, {NULL, 0}, {NULL, 0}, {NULL, 0}};
    size_t len = 0;
    uint64_t number = 0;
    void *memory = NULL;
    char buffer[8];
    spt_view view;
    spt_bytes bytes = {"k", 1};
    spt_counters counters;
    spt_publisher publisher;
    const spt_status invalid = SPT_INVALID_ARGUMENT;

    OK(spt_open(path_of("nulls.spt"), NULL, &table));
    OK(spt_put(table, "k", 1, "v", 1));
    EXPECT(invalid, spt_open(NULL, NULL, &table));
    OK(spt_open_in_memory(NULL, &table));
    EXPECT(invalid, spt_open_in_memory(NULL, NULL));
    OK(spt_put(table, "k", 1, "v", 1));
    EXPECT(invalid, spt_get(table, NULL, 1, buffer, sizeof buffer, &len));
    EXPECT(invalid, spt_get(table, "k", 1, buffer, sizeof buffer, NULL));
    EXPECT(SPT_TOO_SMALL, spt_get(table, "k", 1, NULL, sizeof buffer, &len));
    EXPECT(invalid, spt_get_alloc(table, "k", 1, NULL, &len));
    EXPECT(invalid, spt_get_alloc(table, "k", 1, &memory, NULL));
    EXPECT(invalid, spt_get_view(table, "k", 1, NULL));
    EXPECT(invalid, spt_get_view(table, NULL, 1, &view));
    EXPECT(invalid, spt_get_many(table, NULL, 1, &bytes, &memory));
    EXPECT(invalid, spt_get_many(table, &bytes, 1, NULL, &memory));
    EXPECT(invalid, spt_get_many(table, &bytes, 1, &bytes, NULL));
    EXPECT(invalid, spt_replace(table, "k", 1, "v", 1, NULL, &len));
    EXPECT(invalid, spt_replace(table, "k", 1, "v", 1, &memory, NULL));
    EXPECT(invalid, spt_compare_and_set(table, NULL, 1, NULL, NULL));
    EXPECT(invalid, spt_append(table, "k", 1, NULL, 1, NULL));
    EXPECT(invalid, spt_insert_new(table, NULL, 7, "v", 1));
    EXPECT(invalid, spt_remove(table, NULL, 7));
    EXPECT(invalid, spt_contains(table, NULL, 7));
    EXPECT(invalid, spt_len(table, NULL));
    EXPECT(invalid, spt_scan(table, 0, NULL));
    EXPECT(invalid, spt_scan_prefix(table, 0, 1, NULL));
    EXPECT(invalid, spt_batch_begin(table, NULL));
    EXPECT(invalid, spt_batch_begin_with(table, SPT_DURABILITY_SYNC, NULL));
    EXPECT(invalid, spt_batch_begin_with(table, 4, &batch));
    EXPECT(invalid, spt_position(table, "k", 1, NULL));
    EXPECT(invalid, spt_newer(table, NULL));
    EXPECT(invalid, spt_types(table, NULL, 0, NULL));
    EXPECT(SPT_TOO_SMALL, spt_types(table, NULL, 0, &len));
    EXPECT(invalid, spt_record_types(table, NULL));
    EXPECT(invalid, spt_record_types(table, "\xFF"));
    EXPECT(invalid, spt_record_types(table, "a name that is longer than the sixty-four bytes of the header's field"));
    EXPECT(invalid, spt_backup(table, NULL, 0, NULL, NULL));
    EXPECT(invalid, spt_backup_file(NULL, path_of("x"), NULL, 0, NULL, NULL));
    EXPECT(invalid, spt_backup_file(path_of("nulls.spt"), NULL, NULL, 0, NULL, NULL));
    EXPECT(invalid, spt_restore(NULL, path_of("x"), NULL, 0, NULL, NULL));
    EXPECT(invalid, spt_restore(path_of("nulls.spt"), NULL, NULL, 0, NULL, NULL));
    EXPECT(invalid, spt_freeze(table, NULL, NULL, &number));
    EXPECT(invalid, spt_read_counters(table, NULL, sizeof counters));
    EXPECT(invalid, spt_survey_table(table, NULL, 64, NULL, NULL));
    EXPECT(invalid, spt_read_published(NULL, &counters, sizeof counters, &publisher, sizeof publisher));
    EXPECT(invalid, spt_salvage(NULL, NULL, never_found, NULL, NULL, 0));
    EXPECT(invalid, spt_salvage(path_of("nulls.spt"), NULL, NULL, NULL, NULL, 0));
    OK(spt_scan(table, 0, &cursor));
    EXPECT(invalid, spt_cursor_position(cursor, NULL, NULL));
    OK(spt_cursor_next(cursor, NULL, NULL));
    EXPECT(SPT_END, spt_cursor_next(cursor, NULL, NULL));
    OK(spt_cursor_close(cursor));
    OK(spt_batch_begin(table, &batch));
    EXPECT(invalid, spt_batch_put(batch, NULL, 1, "v", 1));
    EXPECT(invalid, spt_batch_put(batch, "k", 1, NULL, 1));
    EXPECT(invalid, spt_batch_insert_new(batch, "k", 1, NULL, 1));
    EXPECT(invalid, spt_batch_append(batch, "k", 1, NULL, 1));
    EXPECT(invalid, spt_batch_remove(batch, NULL, 1));
    EXPECT(invalid, spt_batch_update(batch, "k", 1, NULL, NULL));
    EXPECT(invalid, spt_batch_len(batch, NULL));
    OK(spt_batch_commit(batch));

    EXPECT(invalid, spt_dict_build(NULL, NULL, never_next, NULL, NULL));
    EXPECT(invalid, spt_dict_build(path_of("n.spd"), NULL, NULL, NULL, NULL));
    OK(spt_dict_build(path_of("n.spd"), NULL, never_next, NULL, NULL));
    EXPECT(invalid, spt_build_start(NULL, NULL, &build));
    EXPECT(invalid, spt_build_start(path_of("n.spd"), NULL, NULL));
    OK(spt_build_start(path_of("n.spd"), NULL, &build));
    EXPECT(invalid, spt_build_push(build, NULL, 1, "v", 1));
    EXPECT(invalid, spt_build_push_at(build, "k", 1, NULL, 1, 0));
    OK(spt_build_finish(build, NULL));
    EXPECT(invalid, spt_dict_update_start(NULL, path_of("n.spd"), NULL, &update));
    EXPECT(invalid, spt_dict_update_start(path_of("n.spd"), NULL, NULL, &update));
    EXPECT(invalid, spt_dict_update_start(path_of("n.spd"), path_of("n.spd"), NULL, NULL));
    OK(spt_dict_update_start(path_of("n.spd"), path_of("n.spd"), NULL, &update));
    EXPECT(invalid, spt_dict_update_put(update, NULL, 1, "v", 1));
    EXPECT(invalid, spt_dict_update_remove(update, NULL, 1));
    EXPECT(invalid, spt_dict_update_apply(update, NULL));
    change.kind = 0;
    EXPECT(invalid, spt_dict_update_apply(update, &change));
    change.kind = SPT_CHANGE_ADDED;
    change.key.len = 1;
    EXPECT(invalid, spt_dict_update_apply(update, &change));
    change.key.len = 0;
    change.value.len = 1;
    EXPECT(invalid, spt_dict_update_apply(update, &change));
    OK(spt_dict_update_finish(update, NULL));
    EXPECT(invalid, spt_dict_reindex(NULL, path_of("n.spd"), NULL, NULL));
    EXPECT(invalid, spt_dict_reindex(path_of("n.spd"), NULL, NULL, NULL));
    EXPECT(invalid, spt_dict_open(path_of("n.spd"), NULL, NULL));
    OK(spt_dict_open(path_of("n.spd"), NULL, &dictionary));
    EXPECT(invalid, spt_dict_get(dictionary, "k", 1, buffer, sizeof buffer, NULL));
    EXPECT(invalid, spt_dict_get_alloc(dictionary, "k", 1, NULL, &len));
    EXPECT(invalid, spt_dict_get_many(dictionary, &bytes, 1, &bytes, NULL));
    EXPECT(invalid, spt_dict_len(dictionary, NULL));
    EXPECT(invalid, spt_dict_scan(dictionary, NULL));
    EXPECT(invalid, spt_dict_range(dictionary, 0, 1, NULL));
    EXPECT(invalid, spt_dict_position(dictionary, "k", 1, NULL));
    EXPECT(invalid, spt_dict_position(dictionary, NULL, 1, &number));
    EXPECT(invalid, spt_dict_diff(dictionary, dictionary, NULL, NULL, NULL));
    EXPECT(SPT_INVALID_HANDLE, spt_dict_diff(dictionary, NULL, NULL, NULL, &diff));
    OK(spt_dict_diff(dictionary, dictionary, NULL, NULL, &diff));
    EXPECT(invalid, spt_diff_next(diff, NULL));
    OK(spt_diff_close(diff));
    EXPECT(invalid, spt_dict_stat(dictionary, NULL, 64));
    OK(spt_dict_reload(dictionary, NULL));
    OK(spt_dict_close(dictionary));

    /* Lengths that no memory has, or no key. */
    for (size_t huge = (size_t)-1; huge > (size_t)1 << 33; huge /= 2) {
        const spt_status too_long = huge > (size_t)-1 / 2 ? SPT_INVALID_ARGUMENT : SPT_TOO_LONG;

        EXPECT(too_long, spt_get(table, "k", huge, buffer, sizeof buffer, &len));
        EXPECT(too_long, spt_put(table, "k", huge, "v", 1));
        EXPECT(too_long, spt_put(table, "k", 1, "v", huge));
        EXPECT(too_long, spt_append(table, "k", 1, "v", huge, &len));
        EXPECT(too_long, spt_remove(table, "k", huge));
        bytes.len = huge;
        EXPECT(too_long, spt_compare_and_set(table, "k", 1, &bytes, NULL));
        EXPECT(too_long, spt_get_many(table, &bytes, 1, &bytes, &memory));
        if (huge > (size_t)-1 / sizeof(spt_pair))
            EXPECT(invalid, spt_put_many(table, (const spt_pair *)&bytes, huge));
    }
    OK(spt_close(table));
}

int main(void)
{
    uint64_t random = 88172645463325252u;
    spt_table *table, *closed;
    spt_cursor *cursor;
    int on_the_stack = 0;
    void *on_the_heap = malloc(64);
    spt_view view = {"garbage", 7, 0};

    wrong_handle(NULL);
    OK(spt_open_in_memory(NULL, &closed));
    OK(spt_close(closed));
    wrong_handle(closed);
    /* The slot of the closed handle has another table now. */
    OK(spt_open_in_memory(NULL, &table));
    wrong_handle(closed);
    wrong_handle(&on_the_stack);
    wrong_handle(on_the_heap);
    wrong_handle((void *)(uintptr_t)main);
    wrong_handle((void *)"a string");
    wrong_handle((void *)(uintptr_t)-1);
    for (uintptr_t small = 1; small < 300; small++)
        wrong_handle((void *)small);
    for (int i = 0; i < 2000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        wrong_handle((void *)(uintptr_t)(random >> i % 48));
    }
    for (int bit = 0; bit < 64; bit++)
        wrong_handle((void *)((uintptr_t)table ^ (uintptr_t)1 << bit));
    for (int i = 0; i < 2000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        view.token = random >> i % 48;
        CHECK(spt_view_release(&view) != SPT_OK || view.token == 0);
    }
    /* A handle of another kind. */
    OK(spt_scan(table, 0, &cursor));
    EXPECT(SPT_INVALID_HANDLE, spt_put((spt_table *)cursor, "k", 1, "v", 1));
    EXPECT(SPT_INVALID_HANDLE, spt_close((spt_table *)cursor));
    EXPECT(SPT_INVALID_HANDLE, spt_cursor_close((spt_cursor *)table));
    OK(spt_cursor_close(cursor));
    OK(spt_put(table, "k", 1, "v", 1));
    OK(spt_close(table));
    null_pointers();
    free(on_the_heap);
    puts("bad_input: passed");
    return 0;
}

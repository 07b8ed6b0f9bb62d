/* Every function of dictionaries, with what it returns when all is well and when it is not. */
#include "check.h"
#include <fcntl.h>

struct source {
    int at, count, cancel_at;
    char key[16], value[32];
};

static int next(void *context, spt_bytes *key, spt_bytes *value)
{
    struct source *source = context;

    if (source->at == source->count)
        return 1;
    if (source->at == source->cancel_at)
        return 2;
    snprintf(source->key, sizeof source->key, "key %d", source->at);
    snprintf(source->value, sizeof source->value, "value of %d", source->at++);
    key->data = source->key;
    key->len = strlen(source->key);
    value->data = source->value;
    value->len = strlen(source->value);
    return 0;
}

static int bad_next(void *context, spt_bytes *key, spt_bytes *value)
{
    (void)context;
    key->data = NULL;
    key->len = 5;
    value->len = (size_t)-1;
    return 0;
}

static void build_each_index(void)
{
    const char *const names[] = {"page", "trie", "chunk", "none"};
    spt_dictionary *dictionary;
    spt_dict_sizes sizes;
    char value[32];
    size_t len = 0;
    uint64_t pairs = 0, faults = 9;

    for (uint32_t index = SPT_INDEX_PAGE; index <= SPT_INDEX_NONE; index++) {
        struct source source = {0, 5000, -1, "", ""};
        spt_build_options options = SPT_BUILD_OPTIONS_INIT;
        spt_dict_options opening = SPT_DICT_OPTIONS_INIT;

        options.index = index;
        options.page_bytes = 1024;
        options.compression = index == SPT_INDEX_PAGE ? SPT_COMPRESSION_LZ4 : SPT_COMPRESSION_NONE;
        options.block_bytes = 4096;
        options.effort = SPT_EFFORT_FAST;
        options.memory_bytes = 1 << 20;
        options.threads = 2;
        options.temporary_directory = getenv("TEST_DIRECTORY");
        OK(spt_dict_build(path_of("d.spd"), &options, next, &source, &pairs));
        CHECK(pairs == 5000);
        opening.flags = index % 2 ? SPT_MAP_DATA | SPT_MAP_INDEX : 0;
        OK(spt_dict_open(path_of("d.spd"), &opening, &dictionary));
        for (int i = 0; i < 5000; i += 7) {
            char key[16], expected[32];

            snprintf(key, sizeof key, "key %d", i);
            snprintf(expected, sizeof expected, "value of %d", i);
            OK(spt_dict_get(dictionary, B(key), value, sizeof value, &len));
            CHECK(len == strlen(expected) && memcmp(value, expected, len) == 0);
        }
        OK(spt_dict_stat(dictionary, &sizes, sizeof sizes));
        CHECK(strcmp(sizes.index, names[index]) == 0 && sizes.pairs == 5000 && sizes.page_bytes == 1024);
        CHECK(strcmp(sizes.hash, "xxh3") == 0 && sizes.shards == 1 && sizes.key_len_max == 8);
        CHECK(strcmp(sizes.order, index == SPT_INDEX_CHUNK ? "chunks" : "hash order") == 0);
        CHECK(sizes.compression == options.compression && sizes.is_fixed_length == 0);
        OK(spt_dict_check(dictionary, NULL, NULL, &faults));
        CHECK(faults == 0);
        OK(spt_dict_close(dictionary));
    }
}

static void lookups(void)
{
    spt_dictionary *dictionary;
    spt_bytes keys[3] = {{"key 1", 5}, {"absent", 6}, {"key 4999", 8}}, values[3], key, value;
    spt_cursor *cursor;
    char buffer[32];
    void *memory = buffer;
    size_t len = 0;
    uint64_t count = 0, position = 0;
    int changed = 9;
    spt_status status;

    OK(spt_dict_open(path_of("d.spd"), NULL, &dictionary));
    OK(spt_dict_len(dictionary, &count));
    CHECK(count == 5000);
    EXPECT(SPT_NOT_FOUND, spt_dict_get(dictionary, B("absent"), buffer, sizeof buffer, &len));
    CHECK(len == 0);
    EXPECT(SPT_TOO_SMALL, spt_dict_get(dictionary, B("key 1"), buffer, 3, &len));
    CHECK(len == 10);
    OK(spt_dict_get_alloc(dictionary, B("key 1"), &memory, &len));
    CHECK(len == 10 && strcmp((char *)memory, "value of 1") == 0);
    spt_free(memory);
    EXPECT(SPT_NOT_FOUND, spt_dict_get_alloc(dictionary, B("absent"), &memory, &len));
    CHECK(memory == NULL);
    OK(spt_dict_contains(dictionary, B("key 7")));
    EXPECT(SPT_NOT_FOUND, spt_dict_contains(dictionary, B("key 5000")));
    OK(spt_dict_get_many(dictionary, keys, 3, values, &memory));
    CHECK(values[0].len == 10 && values[1].data == NULL && memcmp(values[2].data, "value of 4999", 14) == 0);
    spt_free(memory);

    OK(spt_dict_scan(dictionary, &cursor));
    for (count = 0; (status = spt_cursor_next(cursor, &key, &value)) == SPT_OK; count++)
        CHECK(key.len > 4 && memcmp(key.data, "key ", 4) == 0 && memcmp(value.data, "value of ", 9) == 0);
    CHECK(status == SPT_END && count == 5000);
    EXPECT(SPT_INVALID_ARGUMENT, spt_cursor_position(cursor, &position, NULL));
    EXPECT(SPT_IN_USE, spt_dict_close(dictionary));
    EXPECT(SPT_IN_USE, spt_dict_reload(dictionary, &changed));
    OK(spt_cursor_close(cursor));
    OK(spt_dict_reload(dictionary, &changed));
    CHECK(changed == 0);
    OK(spt_dict_close(dictionary));
    OK(spt_dict_close(NULL));
    EXPECT(SPT_INVALID_HANDLE, spt_dict_close(dictionary));
    EXPECT(SPT_INVALID_HANDLE, spt_dict_get(dictionary, B("key 1"), buffer, sizeof buffer, &len));

    EXPECT(SPT_IO, spt_dict_open(path_of("absent.spd"), NULL, &dictionary));
    CHECK(dictionary == NULL);
    EXPECT(SPT_INVALID_ARGUMENT, spt_dict_open(NULL, NULL, &dictionary));
    EXPECT(SPT_INVALID_ARGUMENT, spt_dict_open(path_of("d.spd"), NULL, NULL));
    EXPECT(SPT_NOT_A_DICTIONARY, spt_dict_open(path_of("."), NULL, &dictionary));
}

static void failed_builds(void)
{
    spt_build_options options = SPT_BUILD_OPTIONS_INIT;
    struct source source = {0, 100, 50, "", ""};
    spt_build *build;
    uint64_t pairs = 9;

    EXPECT(SPT_STOPPED, spt_dict_build(path_of("no.spd"), NULL, next, &source, &pairs));
    CHECK(pairs == 0 && access(path_of("no.spd"), F_OK) != 0);
    EXPECT(SPT_INVALID_ARGUMENT, spt_dict_build(path_of("no.spd"), NULL, bad_next, NULL, &pairs));
    EXPECT(SPT_INVALID_ARGUMENT, spt_dict_build(path_of("no.spd"), NULL, NULL, NULL, &pairs));
    for (uint32_t *option = &options.index; option <= &options.duplicates; option++) {
        if (option == &options.index || option == &options.page_bytes || option == &options.compression
            || option == &options.duplicates) {
            *option = 77;
            EXPECT(SPT_INVALID_ARGUMENT, spt_build_start(path_of("no.spd"), &options, &build));
            *option = 0;
        }
    }
    options.index = SPT_INDEX_CHUNK;
    options.effort = 9;
    EXPECT(SPT_INVALID_ARGUMENT, spt_build_start(path_of("no.spd"), &options, &build));
    options.index = options.effort = 0;
    options.shards = 1u << 20;
    EXPECT(SPT_INVALID_ARGUMENT, spt_build_start(path_of("no.spd"), &options, &build));
    options.shards = 0;
    options.flags = 6;
    EXPECT(SPT_INVALID_ARGUMENT, spt_build_start(path_of("no.spd"), &options, &build));
    options.flags = 0;
    options.size = 3;
    EXPECT(SPT_INVALID_ARGUMENT, spt_build_start(path_of("no.spd"), &options, &build));
    CHECK(build == NULL);

    OK(spt_build_start(path_of("no.spd"), NULL, &build));
    spt_build *second;
    EXPECT(SPT_LOCKED, spt_build_start(path_of("no.spd"), NULL, &second));
    OK(spt_build_push(build, B("twice"), B("1")));
    OK(spt_build_push(build, B("twice"), B("2")));
    EXPECT(SPT_DUPLICATE, spt_build_finish(build, &pairs));
    CHECK(strstr(spt_error_message(build), "twice") != NULL && pairs == 0);
    EXPECT(SPT_INVALID_HANDLE, spt_build_push(build, B("k"), B("v")));
    EXPECT(SPT_INVALID_HANDLE, spt_build_finish(build, &pairs));
    CHECK(access(path_of("no.spd"), F_OK) != 0);
}

static void place_name(void *context, uint64_t place, char *name, size_t capacity)
{
    snprintf(name, capacity, "%s:%d", (const char *)context, (int)place);
}

static int stop(void *context, uint64_t done, uint64_t all)
{
    CHECK(done <= all);
    return *(int *)context;
}

static void pair_by_pair(void)
{
    spt_build_options options = SPT_BUILD_OPTIONS_INIT;
    spt_build *build;
    spt_dictionary *dictionary;
    uint64_t pairs = 0, saved = 0, discarded = 0;
    int all = 0, answer = 1;
    char value[8];
    size_t len = 0;

    options.place_name = place_name;
    options.place_context = (void *)(uintptr_t) "pairs.tsv";
    OK(spt_build_start(path_of("p.spd"), &options, &build));
    OK(spt_build_push_at(build, B("twice"), B("1"), 17));
    OK(spt_build_push_at(build, B("twice"), B("2"), 42));
    EXPECT(SPT_DUPLICATE, spt_build_finish(build, NULL));
    CHECK(strstr(spt_error_message(NULL), "pairs.tsv:42") && strstr(spt_error_message(NULL), "pairs.tsv:17"));

    options.duplicates = SPT_DUPLICATES_FIRST;
    options.progress = stop;
    options.progress_context = &answer;
    OK(spt_build_start(path_of("p.spd"), &options, &build));
    OK(spt_build_push(build, B("twice"), B("1")));
    EXPECT(SPT_STOPPED, spt_build_finish(build, NULL));
    answer = 0;
    OK(spt_build_start(path_of("p.spd"), &options, &build));
    OK(spt_build_push(build, B("twice"), B("1")));
    OK(spt_build_push(build, B("twice"), B("2")));
    OK(spt_build_finish(build, &pairs));
    CHECK(pairs == 1);
    OK(spt_dict_open(path_of("p.spd"), NULL, &dictionary));
    OK(spt_dict_get(dictionary, B("twice"), value, sizeof value, &len));
    CHECK(len == 1 && value[0] == '1');

    options.duplicates = SPT_DUPLICATES_LAST;
    options.flags = SPT_RESUME;
    options.resume_identity = 4711;
    OK(spt_build_start(path_of("p.spd"), &options, &build));
    OK(spt_build_resumed(build, &saved, &all, &discarded));
    CHECK(saved == 0 && all == 0 && discarded == 0);
    OK(spt_build_push(build, B("twice"), B("1")));
    OK(spt_build_push(build, B("once"), B("1")));
    OK(spt_build_save(build));
    OK(spt_build_discard(build));
    OK(spt_build_discard(NULL));
    OK(spt_build_start(path_of("p.spd"), &options, &build));
    OK(spt_build_resumed(build, &saved, &all, &discarded));
    CHECK(saved == 2 && all == 0 && discarded == 0);
    OK(spt_build_resumed(build, NULL, NULL, NULL));
    OK(spt_build_push(build, B("twice"), B("3")));
    OK(spt_build_finish(build, &pairs));
    CHECK(pairs == 2);

    int changed = 0;
    OK(spt_dict_get(dictionary, B("twice"), value, sizeof value, &len));
    CHECK(value[0] == '1');
    OK(spt_dict_reload(dictionary, &changed));
    CHECK(changed == 1);
    OK(spt_dict_get(dictionary, B("twice"), value, sizeof value, &len));
    CHECK(value[0] == '3');
    OK(spt_dict_close(dictionary));
}

static void updates(void)
{
    spt_dict_update *update;
    spt_dictionary *dictionary;
    spt_dict_sizes sizes;
    spt_build_options options = SPT_BUILD_OPTIONS_INIT;
    uint64_t pairs = 0;
    struct source source = {0, 3000, -1, "", ""};

    options.shards = 3;
    OK(spt_dict_build(path_of("shards.spd"), &options, next, &source, &pairs));
    OK(spt_dict_update_start(path_of("shards.spd"), path_of("shards.spd"), NULL, &update));
    OK(spt_dict_update_put(update, B("key 1"), B("changed")));
    OK(spt_dict_update_put(update, B("new"), B("added")));
    OK(spt_dict_update_remove(update, B("key 2")));
    OK(spt_dict_update_remove(update, B("absent")));
    OK(spt_dict_update_finish(update, &pairs));
    CHECK(pairs == 3000);
    EXPECT(SPT_INVALID_HANDLE, spt_dict_update_put(update, B("a"), B("b")));
    OK(spt_dict_open(path_of("shards.spd"), NULL, &dictionary));
    OK(spt_dict_stat(dictionary, &sizes, sizeof sizes));
    CHECK(sizes.shards == 3 && sizes.pairs == 3000);
    OK(spt_dict_contains(dictionary, B("new")));
    EXPECT(SPT_NOT_FOUND, spt_dict_contains(dictionary, B("key 2")));
    OK(spt_dict_close(dictionary));

    OK(spt_dict_update_start(path_of("d.spd"), path_of("d2.spd"), NULL, &update));
    OK(spt_dict_update_remove(update, B("key 1")));
    OK(spt_dict_update_discard(update));
    OK(spt_dict_update_discard(NULL));
    CHECK(access(path_of("d2.spd"), F_OK) != 0);
    EXPECT(SPT_IO, spt_dict_update_start(path_of("absent.spd"), path_of("d2.spd"), NULL, &update));
    CHECK(update == NULL);
    options.shards = 0;
    options.flags = SPT_RESUME;
    EXPECT(SPT_INVALID_ARGUMENT, spt_dict_update_start(path_of("d.spd"), path_of("d2.spd"), &options, &update));
    options.flags = 0;
    options.index = SPT_INDEX_TRIE;
    options.block_items = 16;
    OK(spt_dict_reindex(path_of("d.spd"), path_of("d2.spd"), &options, &pairs));
    CHECK(pairs == 5000);
    OK(spt_dict_open(path_of("d2.spd"), NULL, &dictionary));
    OK(spt_dict_stat(dictionary, &sizes, sizeof sizes));
    CHECK(strcmp(sizes.index, "trie-sparse") == 0);
    OK(spt_dict_close(dictionary));
}

struct seen {
    int calls, stop_at;
    uint64_t done;
};

static int see(void *context, uint64_t done, uint64_t all)
{
    struct seen *seen = context;

    CHECK(done >= seen->done && done <= all && all > 0);
    seen->done = done;
    return ++seen->calls == seen->stop_at;
}

static void ranges(void)
{
    spt_dictionary *dictionary;
    spt_cursor *cursor;
    spt_bytes key, value;
    uint64_t count = 0, position = 0, faults = 9;
    const uint64_t middle = (uint64_t)1 << 63;
    struct seen seen = {0, 0, 0}, stopped = {0, 1, 0};

    OK(spt_dict_open(path_of("d.spd"), NULL, &dictionary));
    for (int half = 0; half < 2; half++) {
        uint64_t before = count;

        OK(spt_dict_range(dictionary, half ? middle : 0, half ? UINT64_MAX : middle - 1, &cursor));
        while (spt_cursor_next(cursor, &key, &value) == SPT_OK) {
            OK(spt_dict_position(dictionary, key.data, key.len, &position));
            CHECK((position >= middle) == half);
            count++;
        }
        CHECK(count - before > 2000 && count - before < 3000);
        OK(spt_cursor_close(cursor));
    }
    CHECK(count == 5000);
    OK(spt_dict_position(dictionary, B("key 17"), &position));
    OK(spt_dict_range(dictionary, position, position, &cursor));
    OK(spt_cursor_next(cursor, &key, &value));
    CHECK(key.len == 6 && memcmp(key.data, "key 17", 6) == 0 && value.len == 11);
    EXPECT(SPT_END, spt_cursor_next(cursor, &key, &value));
    OK(spt_cursor_close(cursor));
    OK(spt_dict_range(dictionary, 2, 1, &cursor));
    EXPECT(SPT_END, spt_cursor_next(cursor, &key, &value));
    OK(spt_cursor_close(cursor));

    OK(spt_dict_check_with(dictionary, 2, see, &seen, NULL, NULL, &faults));
    CHECK(faults == 0 && seen.calls > 0 && seen.done > 0);
    OK(spt_dict_check_with(dictionary, 0, NULL, NULL, NULL, NULL, NULL));
    EXPECT(SPT_STOPPED, spt_dict_check_with(dictionary, 1, see, &stopped, NULL, NULL, &faults));
    OK(spt_dict_close(dictionary));
}

static void differences(void)
{
    spt_dict_update *update;
    spt_dictionary *old, *newer, *copy;
    spt_diff *diff, *half;
    spt_change change;
    spt_build_options options = SPT_BUILD_OPTIONS_INIT;
    struct seen seen = {0, 0, 0}, stopped = {0, 1, 0};
    uint64_t pairs = 0, first_half = 0;
    int counts[4] = {0};
    spt_status status;

    OK(spt_dict_update_start(path_of("d.spd"), path_of("newer.spd"), NULL, &update));
    OK(spt_dict_update_put(update, B("key 1"), B("")));
    OK(spt_dict_update_put(update, B("new"), B("added")));
    OK(spt_dict_update_remove(update, B("key 2")));
    OK(spt_dict_update_finish(update, NULL));
    OK(spt_dict_open(path_of("d.spd"), NULL, &old));
    OK(spt_dict_open(path_of("newer.spd"), NULL, &newer));

    OK(spt_dict_update_start(path_of("d.spd"), path_of("copy.spd"), NULL, &update));
    OK(spt_dict_diff(old, newer, see, &seen, &diff));
    while ((status = spt_diff_next(diff, &change)) == SPT_OK) {
        CHECK(change.kind >= SPT_CHANGE_ADDED && change.kind <= SPT_CHANGE_REPLACED && counts[change.kind]++ == 0);
        CHECK((change.old_value.data == NULL) == (change.kind == SPT_CHANGE_ADDED));
        CHECK((change.value.data == NULL) == (change.kind == SPT_CHANGE_REMOVED));
        if (change.kind == SPT_CHANGE_ADDED)
            CHECK(change.key.len == 3 && change.value.len == 5 && memcmp(change.value.data, "added", 5) == 0);
        else
            CHECK(change.old_value.len == 10 && memcmp(change.old_value.data, "value of ", 9) == 0);
        OK(spt_dict_update_apply(update, &change));
    }
    CHECK(status == SPT_END && counts[1] + counts[2] + counts[3] == 3 && seen.done == 10000);
    EXPECT(SPT_END, spt_diff_next(diff, &change));
    CHECK(change.kind == 0 && change.key.data == NULL);
    OK(spt_diff_close(diff));
    OK(spt_diff_close(NULL));
    EXPECT(SPT_INVALID_HANDLE, spt_diff_next(diff, &change));
    OK(spt_dict_update_finish(update, &pairs));
    CHECK(pairs == 5000);

    OK(spt_dict_open(path_of("copy.spd"), NULL, &copy));
    OK(spt_dict_diff(copy, newer, NULL, NULL, &diff));
    EXPECT(SPT_END, spt_diff_next(diff, &change));
    OK(spt_diff_close(diff));
    OK(spt_dict_diff_range(old, newer, 0, UINT64_MAX / 2, &half));
    OK(spt_dict_diff_range(old, newer, UINT64_MAX / 2 + 1, UINT64_MAX, &diff));
    /* It has its own hold on the files. */
    OK(spt_dict_close(old));
    OK(spt_dict_close(newer));
    while (spt_diff_next(half, &change) == SPT_OK)
        first_half++;
    while ((status = spt_diff_next(diff, &change)) == SPT_OK)
        first_half++;
    CHECK(status == SPT_END && first_half == 3);
    OK(spt_diff_close(half));
    OK(spt_diff_close(diff));

    OK(spt_dict_open(path_of("d.spd"), NULL, &old));
    OK(spt_dict_diff(old, copy, see, &stopped, &diff));
    EXPECT(SPT_STOPPED, spt_diff_next(diff, &change));
    OK(spt_diff_close(diff));
    OK(spt_dict_close(copy));
    options.seed = 5;
    struct source source = {0, 10, -1, "", ""};
    OK(spt_dict_build(path_of("copy.spd"), &options, next, &source, NULL));
    OK(spt_dict_open(path_of("copy.spd"), NULL, &copy));
    EXPECT(SPT_INVALID_ARGUMENT, spt_dict_diff(old, copy, NULL, NULL, &diff));
    CHECK(diff == NULL);
    OK(spt_dict_close(copy));
    OK(spt_dict_close(old));
}

static uint64_t sum(void *context, const void *key, size_t key_len)
{
    uint64_t hash = (uintptr_t)context;

    for (size_t i = 0; i < key_len; i++)
        hash = hash * 31 + ((const unsigned char *)key)[i];
    return hash * 0x9E3779B97F4A7C15u;
}

static void freeze_and_thaw(void)
{
    spt_table *table, *thawed;
    spt_dictionary *dictionary;
    spt_options options = SPT_OPTIONS_INIT;
    spt_dict_options opening = SPT_DICT_OPTIONS_INIT;
    spt_build_options building = SPT_BUILD_OPTIONS_INIT;
    uint64_t pairs = 0;
    char key[16];

    options.user_hash = sum;
    OK(spt_open_in_memory(&options, &table));
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "%d", i);
        OK(spt_put(table, B(key), B(key)));
    }
    OK(spt_freeze(table, path_of("f.spd"), NULL, &pairs));
    CHECK(pairs == 1000);
    EXPECT(SPT_WRONG_HASH, spt_dict_open(path_of("f.spd"), NULL, &dictionary));
    opening.user_hash = sum;
    OK(spt_dict_open(path_of("f.spd"), &opening, &dictionary));
    OK(spt_open_in_memory(NULL, &thawed));
    OK(spt_thaw(dictionary, thawed, &pairs));
    CHECK(pairs == 1000 && len_of(thawed) == 1000 && has(thawed, "17", "17"));
    EXPECT(SPT_INVALID_HANDLE, spt_thaw(dictionary, NULL, NULL));
    EXPECT(SPT_INVALID_HANDLE, spt_thaw(NULL, thawed, NULL));
    OK(spt_close(thawed));
    OK(spt_dict_close(dictionary));
    building.shards = 2;
    EXPECT(SPT_INVALID_ARGUMENT, spt_freeze(table, path_of("g.spd"), &building, &pairs));
    building.shards = 0;
    building.user_hash = sum;
    struct source source = {0, 10, -1, "", ""};
    OK(spt_dict_build(path_of("g.spd"), &building, next, &source, &pairs));
    OK(spt_dict_open(path_of("g.spd"), &opening, &dictionary));
    OK(spt_dict_contains(dictionary, B("key 3")));
    OK(spt_dict_close(dictionary));
    OK(spt_close(table));
}

static int count_faults(void *context, const char *place, const char *what)
{
    CHECK(place[0] != 0 && what[0] != 0);
    ++*(int *)context;
    return 0;
}

static void damage(void)
{
    spt_dictionary *dictionary;
    uint64_t faults = 0;
    int calls = 0, file = open(path_of("d.spd"), O_RDWR);
    struct stat stat;
    char byte = 0;

    CHECK(file >= 0 && fstat(file, &stat) == 0 && pread(file, &byte, 1, 9000) == 1);
    byte ^= 1;
    CHECK(pwrite(file, &byte, 1, 9000) == 1);
    OK(spt_dict_open(path_of("d.spd"), NULL, &dictionary));
    EXPECT(SPT_CORRUPT, spt_dict_check(dictionary, count_faults, &calls, &faults));
    CHECK(faults > 0 && (uint64_t)calls == faults);
    OK(spt_dict_close(dictionary));
    CHECK(ftruncate(file, stat.st_size / 2) == 0);
    EXPECT(SPT_CORRUPT, spt_dict_open(path_of("d.spd"), NULL, &dictionary));
    CHECK(pwrite(file, "another file", 12, 0) == 12 && close(file) == 0);
    EXPECT(SPT_NOT_A_DICTIONARY, spt_dict_open(path_of("d.spd"), NULL, &dictionary));
}

int main(void)
{
    build_each_index();
    lookups();
    failed_builds();
    pair_by_pair();
    updates();
    ranges();
    differences();
    freeze_and_thaw();
    damage();
    puts("dictionaries: passed");
    return 0;
}

/* Every function of splitpoint.hpp: results, errors with and without exceptions, moved objects, throwing callbacks. */
#include "check.h"
#include <splitpoint.hpp>
#include <algorithm>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <set>
#include <sys/wait.h>
#if __cplusplus >= 202002L
#include <ranges>
#endif

using splitpoint::Batch, splitpoint::BuildOptions, splitpoint::Change, splitpoint::ChangeKind, splitpoint::Dictionary;
using splitpoint::DictionaryBuilder, splitpoint::DictionaryOptions, splitpoint::DictionaryUpdate;
using splitpoint::Durability, splitpoint::Error, splitpoint::ErrorKind, splitpoint::Options, splitpoint::Pair;
using splitpoint::Scan, splitpoint::Table, splitpoint::Update;
using Strings = std::map<std::string, std::string>;
using namespace std::string_literals;

#if __cplusplus >= 202002L
static_assert(std::ranges::input_range<Scan> && std::ranges::input_range<splitpoint::Diff>);
static_assert(std::ranges::input_range<Table> && std::ranges::input_range<Dictionary>);
#endif
template <class Type>
constexpr bool is_move_only = std::is_nothrow_move_constructible_v<Type> && std::is_nothrow_move_assignable_v<Type> &&
                              !std::is_copy_constructible_v<Type> && !std::is_copy_assignable_v<Type>;
static_assert(is_move_only<Table> && is_move_only<Dictionary> && is_move_only<Scan> && is_move_only<splitpoint::View>);
static_assert(is_move_only<Batch> && is_move_only<DictionaryBuilder> && is_move_only<DictionaryUpdate>);
static_assert(std::is_base_of_v<std::runtime_error, Error>);

/* `call`, which uses `error`, fails with `expected`. */
#define FAILS(expected, call)                                                                                          \
    do {                                                                                                               \
        Error error;                                                                                                   \
        (void)(call);                                                                                                  \
        if (error.kind() != ErrorKind::expected)                                                                       \
            fprintf(stderr, "it is: %s: %s\n", error.kind_text(), error.what());                                       \
        CHECK(error.kind() == ErrorKind::expected);                                                                    \
    } while (0)

#if SPLITPOINT_EXCEPTIONS
/* `call` throws what `catches` is, for which `condition` holds. */
#define THROWS(catches, condition, call)                                                                               \
    do {                                                                                                               \
        bool thrown = false;                                                                                           \
        try {                                                                                                          \
            (void)(call);                                                                                              \
        } catch (catches) {                                                                                            \
            thrown = condition;                                                                                        \
        }                                                                                                              \
        CHECK(thrown);                                                                                                 \
    } while (0)
#define THROWS_OWN(call) THROWS(int number, number == 42, call)
#endif

static std::string path(const char *name)
{
    return path_of(name);
}

static Strings strings_of(const Table &table)
{
    Strings strings;
    for (auto [key, value] : table)
        strings.emplace(key, value);
    return strings;
}

static void single_calls()
{
    Table table = Table::in_memory();
    std::string value = "before", binary("\0a\xff", 3), longest(5000, 'x');
    char buffer[8];

    CHECK(!table.get("a") && !table.contains("a") && !table.get_into("a", value) && value.empty());
    CHECK(!table.get_to("a", buffer, sizeof buffer) && !table.get_view("a"));
    table.put("a", "1");
    CHECK(table.get("a") == "1"s && table.contains("a") && table.len() == 1);
    CHECK(!table.insert_new("a", "2") && table.insert_new("b", "2") && table.get("a") == "1"s);
    CHECK(table.replace("a", "3") == "1"s && !table.replace("c", "") && table.get("c") == ""s);
    CHECK(table.append("a", "45") == 3 && table.append("d", "6") == 1 && table.get("a") == "345"s);
    CHECK(table.remove("d") && !table.remove("d"));
    table.put(binary, binary);
    CHECK(table.get(binary) == binary);
    table.put({}, {});
    CHECK(table.get("") == ""s && table.get_view("") && table.get_view("").value().empty());

    /* A long value does not fit into the buffer on the stack; one as long does. */
    for (std::size_t len : {511u, 512u, 513u, 5000u}) {
        table.put("long", std::string_view(longest).substr(0, len));
        CHECK(table.get("long") == longest.substr(0, len));
    }
    CHECK(table.get_into("long", value) && value == longest && table.get_into("a", value) && value == "345");
    CHECK(table.get_to("a", buffer, sizeof buffer) == 3u && std::string_view(buffer, 3) == "345");
    CHECK(table.get_to("long", buffer, sizeof buffer) == 5000u && table.get_to("a", nullptr, 0) == 3u);

    CHECK(!table.compare_and_set("a", "no", "yes") && table.compare_and_set("a", "345", "yes"));
    CHECK(table.compare_and_set("a", "yes", std::nullopt) && !table.contains("a"));
    CHECK(table.compare_and_set("a", std::nullopt, "") && !table.compare_and_set("a", std::nullopt, "x"));
    CHECK(table.compare_and_set("a", "", "new") && table.get("a") == "new"s);

    CHECK(table.update("n", [](std::optional<std::string_view> old) {
        CHECK(!old);
        return Update::store("1");
    }));
    auto twice = [](auto old) { return Update::store(std::string(*old) + std::string(*old)); };
    CHECK(table.update("n", twice) && table.update("n", twice) && table.get("n") == "1111"s);
    CHECK(table.update("n", [](auto) { return Update::keep(); }) && table.get("n") == "1111"s);
    CHECK(!table.update("n", [](auto) { return Update::remove(); }) && !table.contains("n"));
    FAILS(stopped, table.update("a", [](auto) { return Update::stop(); }, &error));
    table.clear();
    CHECK(table.len() == 0);
}

static void many_and_batches()
{
    Table table = Table::in_memory();
    const Strings pairs = {{"a", "1"}, {"b", "2"}, {"empty", ""}};
    std::size_t present = 0;

    table.put_many(pairs);
    table.put_many({{"c", "3"}, {"d", "4"}});
    CHECK((table.append_many(pairs) == std::vector<std::size_t>{2, 2, 0}));
    CHECK((table.append_many({{"e", "55"}}) == std::vector<std::size_t>{2}));
    auto values = table.get_many({"a", "absent", "empty", "e"});
    CHECK(values.size() == 4 && values[0] == "11" && !values[1] && values[2] == "" && values[3] == "55");
    const std::vector<std::string> keys = {"b", "z"};
    values = table.get_many(keys);
    CHECK(values.size() == 2 && values[0] == "22" && !values[1]);
    for (const auto &value : values)
        present += value ? 1 : 0;
    CHECK(present == 1);
    CHECK(table.get_many(std::vector<std::string>()).size() == 0);
    table.put_many(Strings());

    Batch batch = table.batch();
    batch.put("f", "6");
    batch.insert_new("f", "7");
    batch.append("f", "8");
    batch.remove("a");
    batch.update("f", [](std::optional<std::string_view> old) { return Update::store(std::string(*old) + "9"); });
    batch.update("g", [](auto) { return Update::store(std::string(300, 'g')); });
    CHECK(batch.len() == 6 && !table.contains("f"));
    Batch moved = std::move(batch);
    FAILS(invalid_handle, batch.put("x", "y", &error));
    FAILS(invalid_handle, batch.len(&error));
    moved.commit();
    CHECK(table.get("f") == "689"s && !table.contains("a") && table.get("g") == std::string(300, 'g'));
    FAILS(invalid_handle, moved.commit(&error));
    moved = table.batch(Durability::sync);
    moved.put("h", "1");
    moved.discard();
    FAILS(invalid_handle, moved.put("h", "1", &error));
    { table.batch().put("h", "1"); }
    CHECK(!table.contains("h"));
    moved = table.batch();
    moved.put("h", "1");
    moved.update("h", [](auto) { return Update::stop(); });
    FAILS(stopped, moved.commit(&error));
    CHECK(!table.contains("h"));
    FAILS(invalid_argument, table.batch(static_cast<Durability>(9), &error));
}

static void scans()
{
    Table table = Table::in_memory();
    std::set<std::string> seen;

    for (int i = 0; i < 1000; i++)
        table.put("key " + std::to_string(i), std::to_string(i));
    CHECK(strings_of(table).size() == 1000 && strings_of(table)["key 7"] == "7");
    CHECK(std::count_if(table.begin(), table.end(), [](const Pair &pair) { return pair.value.size() == 3; }) == 900);

    /* Half by an iterator, the rest from the position of the cursor. */
    Scan scan = table.scan();
    auto at = scan.begin();
    for (int i = 0; i < 500; i++, ++at)
        seen.emplace(at->key);
    for (auto position = scan.position();; position = scan.position()) {
        seen.emplace(at->key);
        if (position.at_boundary) {
            for (Scan rest = table.scan(position.position); auto pair = rest.next();)
                CHECK(seen.emplace(pair->key).second);
            break;
        }
        ++at;
    }
    CHECK(seen.size() == 1000);

    std::size_t quarters = 0;
    for (std::uint64_t quarter = 0; quarter < 4; quarter++)
        for (auto part = table.scan_prefix(quarter << 62, 2); part.next();)
            quarters++;
    CHECK(quarters == 1000);
    FAILS(invalid_argument, table.scan_prefix(0, 65, &error));
    bool found = false;
    Scan from_key = table.scan(table.position("key 7"));
    for (int i = 0; i < 5 && !found; i++)
        found = from_key.next()->key == "key 7";
    CHECK(found);

    /* What a scan has not finished keeps its table open, whatever happens to the objects. */
    Scan moved = std::move(scan);
    CHECK(!scan.next() && scan.begin() == scan.end());
    FAILS(invalid_handle, scan.position(&error));
    FAILS(in_use, table.close(&error));
    CHECK(table.contains("key 1"));
    table = Table();
    std::size_t left = 0;
    for (; at != moved.end(); ++at)
        left++;
    CHECK(left > 400);
    auto iterator = Table::in_memory().begin();
    CHECK(iterator == Table::iterator());
    Table other = Table::in_memory();
    other.put("a", "b");
    iterator = other.begin();
    other = Table();
    CHECK(iterator->key == "a" && (*iterator).value == "b");
    Batch batch;
    {
        Table short_lived = Table::in_memory();
        batch = short_lived.batch();
    }
    batch.put("a", "b");
    batch.commit();
}

static std::size_t open_files()
{
    std::size_t files = 0;
    DIR *directory = opendir("/dev/fd");
    CHECK(directory != nullptr);
    while (readdir(directory) != nullptr)
        files++;
    closedir(directory);
    return files;
}

/* A table or dictionary is closed with the last scan, iterator, view or batch of it. */
static void files_are_closed_with_their_last_user()
{
    const std::string file = path("users.spt"), words = path("users.spd");
    std::size_t files = 0;
    {
        Table table = Table::open(file);
        table.put("a", "1");
        table.freeze(words);
    }
    files = open_files();
    {
        Scan scan = Table::open(file).scan();
        CHECK(scan.next() && open_files() > files);
    }
    {
        auto at = Table::open(file).begin();
        CHECK(at->key == "a" && open_files() > files);
    }
    {
        auto view = Table::open(file).get_view("a");
        CHECK(view.value() == "1" && open_files() > files);
        view = splitpoint::View();
        CHECK(open_files() == files);
    }
    {
        Batch batch = Table::open(file).batch();
        batch.put("b", "2");
        Batch moved = std::move(batch);
        CHECK(open_files() > files);
        moved.commit();
        CHECK(open_files() == files);
    }
    {
        Batch batch = Table::open(file).batch();
        batch = Batch();
        CHECK(open_files() == files);
    }
    CHECK(open_files() == files && Table::open(file).get("b") == "2"s);
    {
        Scan scan = Dictionary::open(words).scan();
        CHECK(open_files() > files && scan.next());
    }
    { DictionaryUpdate update = DictionaryUpdate::start(words, words); }
    { DictionaryBuilder builder = DictionaryBuilder::start(words); }
    CHECK(open_files() == files && Dictionary::open(words).len() == 1);
}

static void views()
{
    Table table = Table::in_memory();
    table.put("a", "view");
    auto view = table.get_view("a");
    auto moved = std::move(view);
    CHECK(!view && view.value().empty() && moved && moved.value() == "view");
    FAILS(would_deadlock, table.put("a", "b", &error));
    FAILS(in_use, table.close(&error));
    view = std::move(moved);
    CHECK(view.value() == "view");
    view = {};
    table.put("a", "b");
    view = table.get_view("a");
    table = Table();
    CHECK(view.value() == "b");
}

static std::uint64_t by_length(void *context, const void *, std::size_t key_len) noexcept
{
    ++*static_cast<int *>(context);
    return key_len * 0x9e3779b97f4a7c15;
}

static void options_and_files()
{
    Options options;
    Error got;
    int hashed = 0;
    std::uint64_t steps = 0;
    const auto count_steps = [&](std::uint64_t, std::uint64_t) { return ++steps > 0; };

    options.durability = Durability::os;
    options.page_bytes = 512;
    options.fill_percent = 80;
    options.mode = 0600;
    options.expected_len = 100;
    options.cache_bytes = 1 << 24;
    options.log_bytes = 1 << 20;
    options.hash = "siphash13";
    options.seed = 7;
    options.create_new = true;
    options.publish_counters = true;
    Table table = Table::open(path("t.spt"), options);
    struct stat status;
    CHECK(table && table.handle() != nullptr && stat(path("t.spt").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    for (int i = 0; i < 300; i++)
        table.put(std::to_string(i), std::string(100, 'v'));
    std::vector<splitpoint::BucketCount> histogram;
    auto survey = table.survey(&histogram);
    CHECK(survey.page_bytes == 512 && survey.seed == 7 && survey.hash == "siphash13"s && survey.pairs == 300);
    std::uint64_t in_buckets = 0;
    for (const auto &count : histogram)
        in_buckets += count.pairs * count.buckets;
    CHECK(in_buckets == 300 && table.survey().fill_target_percent == 80);
    CHECK(table.counters().pairs == 300 && table.counters().puts == 300);
    auto published = splitpoint::read_published(path("t.spt"));
    CHECK(published && published->publisher.process == static_cast<std::uint32_t>(getpid()));
    CHECK(!splitpoint::read_published(path("absent.spt")));
    FAILS(locked, Table::open(path("t.spt"), {}, &error));
    table.sync();
    table.checkpoint();
    CHECK(table.verify() == 0);
    for (int i = 0; i < 250; i++)
        table.remove(std::to_string(i));
    table.compact(count_steps);
    CHECK(steps > 0 && table.len() == 50);
    FAILS(stopped, table.compact([](std::uint64_t, std::uint64_t) { return false; }, &error));
    table.compact();

    table.backup(path("copy.spt"));
    FAILS(invalid_argument, table.backup(path("copy.spt"), false, {}, &error));
    steps = 0;
    table.backup(path("copy.spt"), true, count_steps);
    CHECK(steps > 0);
    table.close();
    CHECK(!table && table.handle() == nullptr);
    FAILS(invalid_handle, table.get("a", &error));
    table.close(); /* as closing NULL in C */
    splitpoint::backup_file(path("t.spt"), path("copy.spt"), {}, true);
    FAILS(invalid_argument, splitpoint::backup_file(path("t.spt"), path("copy.spt"), {}, false, {}, &error));
    splitpoint::restore(path("copy.spt"), path("restored.spt"));
    FAILS(invalid_argument, splitpoint::restore(path("copy.spt"), path("restored.spt"), {}, false, {}, &error));
    FAILS(stopped, splitpoint::restore(path("copy.spt"), path("restored.spt"), {}, true,
                                       [](std::uint64_t, std::uint64_t) { return false; }, &error));
    CHECK(Table::open(path("restored.spt")).len() == 50);

    FAILS(io, Table::open(path("t.spt"), options, &error)); /* it exists */
    options.create_new = false;
    options.seed = 8;
    FAILS(wrong_hash, Table::open(path("t.spt"), options, &error));
    options.page_bytes = 3;
    FAILS(invalid_argument, Table::in_memory(options, &error));
    Options existing;
    existing.create = false;
    Table absent = Table::open(path("absent.spt"), existing, &got);
    CHECK(!absent && got && got.kind() == ErrorKind::io && got.status() == SPT_IO);
    CHECK(got.system_error() == ENOENT && got.message().find("absent.spt") != std::string_view::npos);
    CHECK(got.what() == got.message() && got.kind_text() == std::string_view(spt_strerror(SPT_IO)));
    absent = Table::in_memory({}, &got);
    CHECK(absent && !got && got.kind() == ErrorKind::none && got.message().empty());
    Options reading;
    reading.read_only = true;
    Table reader = Table::open(path("t.spt"), reading);
    FAILS(read_only, reader.put("a", "b", &error));
    CHECK(reader.get("299") == std::string(100, 'v'));

    Options own;
    own.hash = "by-length";
    own.user_hash = by_length;
    own.user_context = &hashed;
    Table hashing = Table::in_memory(own);
    hashing.put("a", "b");
    CHECK(hashed > 0 && hashing.get("a") == "b"s);
    Options without_log;
    without_log.durability = Durability::none;
    table = Table::open(path("none.spt"), without_log);
    table.put("a", "1");
    CHECK(access(path("none.spt-log0").c_str(), F_OK) != 0);
    table = Table::open(path("logged.spt"));
    table.put("a", "1");
    CHECK(access(path("logged.spt-log0").c_str(), F_OK) == 0);
    Options factor;
    factor.fill_factor = 3;
    CHECK(Table::in_memory(factor).survey().fill_factor == 3);

    auto names = splitpoint::hash_names();
    CHECK(std::find(names.begin(), names.end(), "rapidhash") != names.end());
    CHECK(splitpoint::hash("", 1, "a") == splitpoint::hash("xxh3", 1, "a"));
    FAILS(invalid_argument, splitpoint::hash("none", 1, "a", &error));
    CHECK(splitpoint::version() == SPT_VERSION);
}

/* Damages many pages in the first half of a file, after its header. */
static void damage(const std::string &name)
{
    int file = open(name.c_str(), O_RDWR);
    CHECK(file >= 0);
    for (off_t at = 64 * 1024; at < lseek(file, 0, SEEK_END) / 2; at += 4096)
        CHECK(pwrite(file, "damage", 6, at + 100) == 6);
    close(file);
}

static void damaged_tables()
{
    Error got;
    {
        Options always_the_same;
        always_the_same.seed = 1;
        Table table = Table::open(path("bad.spt"), always_the_same);
        for (int i = 0; i < 20000; i++)
            table.put(std::to_string(i), "value of it");
    }
    damage(path("bad.spt"));
    Table table = Table::open(path("bad.spt"));
    std::size_t faults = 0;
    std::uint64_t all = table.verify([&](std::string_view place, std::string_view what) {
        CHECK(!place.empty() && !what.empty());
        return ++faults < 2;
    });
    CHECK(all > 2 && faults == 2 && table.verify({}, &got) == all && !got);

    /* An iterator is at the end after a failure, and outlives its scan; the scan continues after the bucket. */
    Scan scan = table.scan(0, &got);
    auto at = scan.begin();
    while (at != scan.end())
        ++at;
    CHECK(got.kind() == ErrorKind::corrupt && at->key.empty() && at->value.data() == nullptr);
    std::size_t failures = 0, pairs = 0;
    for (int i = 0; i < 100000; i++) {
        if (scan.next())
            pairs++;
        else if (got)
            failures++;
        else
            break;
    }
    CHECK(!got && failures > 1 && pairs > 0);
    scan = Scan();
    CHECK(at == Scan::iterator() && at->key.empty());
#if SPLITPOINT_EXCEPTIONS
    THROWS(const Error &failure, failure.kind() == ErrorKind::corrupt, strings_of(table));
    scan = table.scan();
    at = scan.begin();
    auto walk = [&] {
        while (at != scan.end())
            ++at;
    };
    THROWS(const std::runtime_error &, true, walk());
    CHECK(at == scan.end());
    pairs = 0;
    for (bool is_over = false; !is_over;) {
        try {
            while (scan.next())
                pairs++;
            is_over = true;
        } catch (const Error &) {
            CHECK(at == scan.end());
        }
    }
    CHECK(pairs > 0);
    scan = Scan();
    CHECK(at == Scan::iterator() && at->key.empty());
#endif
    at = Scan::iterator();
    table.close(&got);

    pairs = faults = 0;
    auto report = splitpoint::salvage(path("bad.spt"), [&](const spt_found &found) {
        pairs += found.kind == SPT_FOUND_PAIR ? 1 : 0;
        faults += found.kind == SPT_FOUND_FAULT ? 1 : 0;
        return true;
    });
    CHECK(pairs == report.verified + report.unverified && faults > 0 && !report.is_whole && report.counted == 20000);
    report = splitpoint::salvage(path("bad.spt"), [](const spt_found &) { return false; }, {}, &got);
    CHECK(got.kind() == ErrorKind::stopped);
}

static void readers_and_types()
{
    Table table = Table::open(path("typed.spt"));
    Options options;
    options.read_only = true;
    Table reader = Table::open(path("typed.spt"), options);
    Error got;
    CHECK(!reader.newer() && !table.newer(&got) && table.types().empty());
    table.put("k", "v");
    table.record_types("bytes -> bytes");
    table.record_types("str -> str", &got);
    CHECK(got.kind() == ErrorKind::wrong_types);
    std::optional<Table> newer = reader.newer();
    CHECK(newer && newer->contains("k") && !reader.contains("k") && newer->types() == "bytes -> bytes");
}

static void place_name(void *context, std::uint64_t place, char *name, std::size_t capacity) noexcept
{
    ++*static_cast<int *>(context);
    snprintf(name, capacity, "line %d of words", static_cast<int>(place));
}

static void dictionaries()
{
    const std::string file = path("d.spd"), newer_file = path("newer.spd");
    const Strings pairs = {{"a", "1"}, {"b", ""}, {"c", std::string(2000, 'c')}};
    BuildOptions options;
    Error got;
    std::string value;
    char buffer[4];
    int named = 0;

    options.index = splitpoint::Index::trie;
    options.page_bytes = 1024;
    options.bucket_keys = 128;
    options.huffman_max = 32;
    options.skip_min = SPT_NO_SKIP;
    options.block_items = 2;
    options.compression = splitpoint::Compression::lz4;
    options.block_bytes = 4096;
    options.threads = 1;
    options.memory_bytes = 1 << 24;
    options.seed = 5;
    options.hash = "rapidhash";
    options.temporary_directory = getenv("TEST_DIRECTORY");
    options.filter_bits = 8;
    options.progress = [](std::uint64_t, std::uint64_t) { return true; };
    CHECK(DictionaryBuilder::build(file, pairs, options) == 3);
    DictionaryOptions opening;
    opening.read_data = true;
    opening.map_index = true;
    Dictionary dictionary = Dictionary::open(file, opening);
    auto sizes = dictionary.stat();
    CHECK(sizes.index == "trie-sparse"s && sizes.page_bytes == 1024 && sizes.seed == 5 && sizes.hash == "rapidhash"s);
    CHECK(sizes.compression == SPT_COMPRESSION_LZ4 && sizes.filter_bits == 8 && sizes.pairs == 3);
    CHECK(dictionary.len() == 3);
    CHECK(dictionary && dictionary.get("a") == "1"s && dictionary.get("b") == ""s && !dictionary.get("z"));
    CHECK(dictionary.contains("a") && !dictionary.contains("z"));
    CHECK(dictionary.get_into("c", value) && value == std::string(2000, 'c'));
    CHECK(!dictionary.get_into("z", value) && value.empty());
    CHECK(dictionary.get_to("c", buffer, sizeof buffer) == 2000u && !dictionary.get_to("z", buffer, 4));
    CHECK(dictionary.get_to("a", buffer, sizeof buffer) == 1u && buffer[0] == '1');
    auto values = dictionary.get_many({"b", "z"});
    CHECK(values[0] == "" && !values[1] && dictionary.get_many(std::vector<std::string>{"a"})[0] == "1");
    Strings found;
    for (auto [key, of] : dictionary)
        found.emplace(key, of);
    CHECK(found == pairs && dictionary.scan().next());
    std::uint64_t position = dictionary.position("b");
    Scan range = dictionary.range(position, position);
    CHECK(range.next()->key == "b" && !range.next());
    FAILS(in_use, dictionary.close(&error));
    FAILS(in_use, dictionary.reload(&error));
    FAILS(invalid_argument, range.position(&error));
    range = Scan();
    CHECK(!dictionary.reload());
    std::uint64_t steps = 0;
    CHECK(dictionary.verify() == 0);
    CHECK(dictionary.verify({}, 2, [&](auto, auto) { return ++steps > 0; }) == 0 && steps > 0);
    FAILS(stopped, dictionary.verify({}, 1, [](auto, auto) { return false; }, &error));

    /* An update, and what it changed: applied to a copy of the old, it makes the new. */
    BuildOptions resources;
    resources.threads = 1;
    DictionaryUpdate update = DictionaryUpdate::start(file, newer_file, resources);
    update.put("a", "2");
    update.put("new", "");
    update.remove("c");
    update.remove("absent");
    DictionaryUpdate moved = std::move(update);
    FAILS(invalid_handle, update.put("x", "y", &error));
    CHECK(moved.finish() == 3);
    FAILS(invalid_handle, moved.finish(&error));
    Dictionary newer = Dictionary::open(newer_file);
    DictionaryUpdate applied = DictionaryUpdate::start(file, file);
    std::map<std::string, ChangeKind> changes;
    for (const Change &change : dictionary.diff(newer, [](auto, auto) { return true; })) {
        changes.emplace(change.key, change.kind);
        CHECK(change.old_value.has_value() == (change.kind != ChangeKind::added));
        CHECK(change.value.has_value() == (change.kind != ChangeKind::removed));
        applied.apply(change);
    }
    CHECK(changes.size() == 3 && changes["a"] == ChangeKind::replaced && changes["new"] == ChangeKind::added);
    CHECK(changes["c"] == ChangeKind::removed);
    splitpoint::Diff only = dictionary.diff_range(newer, position, position);
    CHECK(!only.next());
    applied.apply({ChangeKind::added, "viewless", std::nullopt, std::string_view()});
    CHECK(applied.finish() == 4);
    CHECK(dictionary.reload() && dictionary.get("a") == "2"s && dictionary.get("new") == ""s);
    CHECK(dictionary.get("viewless") == ""s && !dictionary.contains("c"));
    update = DictionaryUpdate::start(file, file);
    update.put("x", "y");
    update.discard();
    { DictionaryUpdate::start(file, file).put("x", "y"); }
    CHECK(!dictionary.reload());
    FAILS(stopped, [&] {
        auto diff = dictionary.diff(newer, [](auto, auto) { return false; }, &error);
        while (diff.next())
            ;
    }());

    /* Pair by pair, with names of places; to and from a table; another index. */
    BuildOptions placing;
    placing.place_name = place_name;
    placing.place_context = &named;
    DictionaryBuilder builder = DictionaryBuilder::start(newer_file, placing);
    builder.push("a", "1");
    builder.push_at("b", "2", 7);
    DictionaryBuilder continued = std::move(builder);
    FAILS(invalid_handle, builder.push("a", "1", &error));
    CHECK(!continued.resumed().all && continued.resumed().pairs == 0);
    CHECK(continued.finish() == 2);
    FAILS(invalid_handle, continued.finish(&error));
    CHECK(newer.reload() && newer.len() == 2 && named == 0);
    continued = DictionaryBuilder::start(newer_file, placing);
    continued.push_at("a", "1", 7);
    continued.push_at("a", "1", 8);
    continued.finish(&got);
    CHECK(got.kind() == ErrorKind::duplicate && named > 0);
    CHECK(got.message().find("line 8 of words") != std::string_view::npos);
    BuildOptions resuming;
    resuming.resume = true;
    resuming.resume_identity = 3;
    resuming.duplicates = splitpoint::Duplicates::last;
    continued = DictionaryBuilder::start(newer_file, resuming);
    continued.push("a", "1");
    continued.push("a", "2");
    continued.save();
    continued.discard();
    continued = DictionaryBuilder::start(newer_file, resuming);
    CHECK(continued.resumed().pairs == 2 && continued.finish() == 1);
    CHECK(newer.reload() && newer.get("a") == "2"s);

    Table table = Table::in_memory();
    CHECK(dictionary.thaw(table) == 4 && table.get("a") == "2"s);
    CHECK(table.freeze(newer_file) == 4 && newer.reload() && newer.get("new") == ""s);
    BuildOptions chunk;
    chunk.index = splitpoint::Index::chunk;
    chunk.effort = splitpoint::Effort::fast;
    CHECK(DictionaryBuilder::reindex(newer_file, newer_file, chunk) == 4 && newer.reload());
    CHECK(newer.stat().index == "chunk"s);
    CHECK(DictionaryBuilder::build(newer_file, table) == 4 && DictionaryBuilder::build(newer_file, table.scan()) == 4);
    CHECK(DictionaryBuilder::build(newer_file, {{"x", "y"}}) == 1);
    FAILS(duplicate, DictionaryBuilder::build(newer_file, {{"x", "y"}, {"x", "z"}}, {}, &error));
    BuildOptions first;
    first.duplicates = splitpoint::Duplicates::first;
    CHECK(DictionaryBuilder::build(newer_file, {{"x", "y"}, {"x", "z"}}, first) == 1);
    CHECK(newer.reload() && newer.get("x") == "y"s);
    BuildOptions sharded;
    sharded.shards = 2;
    sharded.bins_per_page = 4;
    CHECK(DictionaryBuilder::build(path("shards"), pairs, sharded) == 3);
    CHECK(Dictionary::open(path("shards")).stat().shards == 2);
    FAILS(invalid_argument, Dictionary::open(path("shards")).diff(dictionary, {}, &error));

    int hashed = 0;
    BuildOptions own;
    own.user_hash = by_length;
    own.user_context = &hashed;
    own.hash = "by-length";
    CHECK(DictionaryBuilder::build(path("own.spd"), pairs, own) == 3);
    DictionaryOptions own_opening;
    own_opening.user_hash = by_length;
    own_opening.user_context = &hashed;
    own_opening.hash = "by-length";
    own_opening.map_data = true;
    hashed = 0;
    CHECK(Dictionary::open(path("own.spd"), own_opening).get("a") == "1"s && hashed > 0);

    auto iterator = Dictionary::open(file).begin();
    CHECK(iterator != Dictionary::iterator());
    Dictionary elsewhere = std::move(dictionary);
    FAILS(invalid_handle, dictionary.get("a", &error));
    CHECK(elsewhere.contains("a"));
    elsewhere.close();
    FAILS(invalid_handle, elsewhere.len(&error));
    FAILS(not_a_dictionary, Dictionary::open(path("t.spt"), {}, &error));
    {
        DictionaryBuilder dropped = DictionaryBuilder::start(path("dropped.spd"));
        dropped.push("a", "1");
    }
    CHECK(access(path("dropped.spd").c_str(), F_OK) != 0);
}

static void damaged_dictionaries()
{
    const std::string file = path("bad.spd");
    Strings pairs;
    std::size_t faults = 0;
    Error got;

    for (int i = 0; i < 20000; i++)
        pairs.emplace("key " + std::to_string(i), "value of it");
    DictionaryBuilder::build(file, pairs);
    damage(file);
    Dictionary dictionary = Dictionary::open(file);
    CHECK(dictionary.verify([&](std::string_view, std::string_view) { return ++faults > 0; }) == faults && faults > 1);
    Scan scan = dictionary.scan(&got);
    auto at = scan.begin();
    while (at != scan.end())
        ++at;
    CHECK(got.kind() == ErrorKind::corrupt);
#if SPLITPOINT_EXCEPTIONS
    THROWS_OWN(dictionary.verify([](auto, auto) -> bool { throw 42; }, 2));
#endif
}

/* Each function of closed objects is an got, and none a crash. */
static void closed_objects()
{
    Table table;
    Dictionary dictionary;
    std::string value = "v";
    char byte;
    const Strings pairs = {{"a", "1"}};

    FAILS(invalid_handle, table.get("a", &error));
    FAILS(invalid_handle, table.get_into("a", value, &error));
    CHECK(value.empty());
    FAILS(invalid_handle, table.get_to("a", &byte, 1, &error));
    FAILS(invalid_handle, table.get_view("a", &error));
    FAILS(invalid_handle, table.contains("a", &error));
    FAILS(invalid_handle, table.get_many(std::vector<std::string>{"a"}, &error));
    FAILS(invalid_handle, table.put("a", "b", &error));
    FAILS(invalid_handle, table.insert_new("a", "b", &error));
    FAILS(invalid_handle, table.replace("a", "b", &error));
    FAILS(invalid_handle, table.append("a", "b", &error));
    FAILS(invalid_handle, table.remove("a", &error));
    FAILS(invalid_handle, table.compare_and_set("a", "b", "c", &error));
    FAILS(invalid_handle, table.update("a", [](auto) { return Update::keep(); }, &error));
    FAILS(invalid_handle, table.put_many(pairs, &error));
    FAILS(invalid_handle, table.append_many(pairs, &error));
    FAILS(invalid_handle, table.batch({}, &error));
    FAILS(invalid_handle, table.len(&error));
    FAILS(invalid_handle, table.clear(&error));
    FAILS(invalid_handle, table.sync(&error));
    FAILS(invalid_handle, table.checkpoint(&error));
    FAILS(invalid_handle, table.scan(0, &error));
    FAILS(invalid_handle, table.scan_prefix(0, 1, &error));
    FAILS(invalid_handle, table.position("a", &error));
    FAILS(invalid_handle, table.compact({}, &error));
    FAILS(invalid_handle, table.backup(path("x"), false, {}, &error));
    FAILS(invalid_handle, table.verify({}, &error));
    FAILS(invalid_handle, table.counters(&error));
    std::vector<splitpoint::BucketCount> histogram;
    FAILS(invalid_handle, table.survey(&histogram, &error));
    FAILS(invalid_handle, table.freeze(path("x"), {}, &error));
    FAILS(invalid_handle, Batch().append("a", "b", &error));
    FAILS(invalid_handle, Batch().insert_new("a", "b", &error));
    FAILS(invalid_handle, Batch().remove("a", &error));
    FAILS(invalid_handle, Batch().update("a", [](auto) { return Update::keep(); }, &error));
    FAILS(invalid_handle, dictionary.reload(&error));
    FAILS(invalid_handle, dictionary.get("a", &error));
    FAILS(invalid_handle, dictionary.get_into("a", value, &error));
    FAILS(invalid_handle, dictionary.get_to("a", &byte, 1, &error));
    FAILS(invalid_handle, dictionary.contains("a", &error));
    FAILS(invalid_handle, dictionary.get_many({"a"}, &error));
    FAILS(invalid_handle, dictionary.scan(&error));
    FAILS(invalid_handle, dictionary.range(0, 1, &error));
    FAILS(invalid_handle, dictionary.position("a", &error));
    FAILS(invalid_handle, dictionary.thaw(table, &error));
    FAILS(invalid_handle, dictionary.diff(dictionary, {}, &error));
    FAILS(invalid_handle, dictionary.diff_range(dictionary, 0, 1, &error));
    FAILS(invalid_handle, dictionary.stat(&error));
    FAILS(invalid_handle, dictionary.verify({}, 1, {}, &error));
    FAILS(invalid_handle, DictionaryBuilder().push_at("a", "b", 1, &error));
    FAILS(invalid_handle, DictionaryBuilder().resumed(&error));
    FAILS(invalid_handle, DictionaryBuilder().save(&error));
    FAILS(invalid_handle, DictionaryUpdate().remove("a", &error));
    FAILS(invalid_handle, DictionaryUpdate().apply({}, &error));
    dictionary.close();
    CHECK(!splitpoint::Diff().next() && splitpoint::Values().size() == 0);
}

#if SPLITPOINT_EXCEPTIONS
struct Throwing : Strings {
    struct iterator : Strings::const_iterator {
        iterator(Strings::const_iterator at) : Strings::const_iterator(at) {}
        iterator &operator++() { throw 42; }
    };
    using Strings::Strings;
    iterator begin() const { return Strings::begin(); }
    iterator end() const { return Strings::end(); }
};

static void callbacks_that_throw()
{
    const splitpoint::Progress progress = [](std::uint64_t, std::uint64_t) -> bool { throw 42; };
    const auto updating = [](std::optional<std::string_view>) -> Update { throw 42; };
    Table table = Table::open(path("thrown.spt"));
    Error got;

    table.put("a", "1");
    THROWS_OWN(table.update("a", updating));
    THROWS_OWN(table.update("a", updating, &got));
    CHECK(table.get("a") == "1"s);
    Batch batch = table.batch();
    batch.put("b", "1");
    batch.update("a", updating);
    THROWS_OWN(batch.commit());
    CHECK(!table.contains("b"));
    table.put("a", "2"); /* no latch was left behind */
    THROWS_OWN(table.compact(progress));
    THROWS_OWN(table.backup(path("thrown-copy.spt"), false, progress));
    CHECK(access(path("thrown-copy.spt").c_str(), F_OK) != 0);
    table.checkpoint();
    THROWS_OWN(splitpoint::backup_file(path("thrown.spt"), path("thrown-copy.spt"), {}, false, progress));
    table.close();
    THROWS_OWN(splitpoint::restore(path("thrown.spt"), path("thrown-copy.spt"), {}, false, progress));
    THROWS_OWN(splitpoint::salvage(path("thrown.spt"), [](const spt_found &) -> bool { throw 42; }));
    Table bad = Table::open(path("bad.spt"));
    THROWS_OWN(bad.verify([](std::string_view, std::string_view) -> bool { throw 42; }));

    BuildOptions options;
    options.progress = progress;
    Strings many;
    for (int i = 0; i < 50000; i++)
        many.emplace(std::to_string(i), std::to_string(i));
    THROWS_OWN(DictionaryBuilder::build(path("thrown.spd"), many, options));
    THROWS_OWN(DictionaryBuilder::build(path("thrown.spd"), Throwing{{"a", "1"}, {"b", "2"}}));
    CHECK(access(path("thrown.spd").c_str(), F_OK) != 0);
    DictionaryBuilder::build(path("thrown.spd"), many);
    THROWS_OWN(DictionaryBuilder::reindex(path("thrown.spd"), path("thrown.spd"), options));
    table = Table::in_memory();
    table.put_many(many);
    THROWS_OWN(table.freeze(path("thrown.spd"), options));
    DictionaryBuilder builder = DictionaryBuilder::start(path("thrown.spd"), options);
    for (const auto &[key, value] : many)
        builder.push(key, value);
    THROWS_OWN(builder.finish());
    DictionaryUpdate update = DictionaryUpdate::start(path("thrown.spd"), path("thrown.spd"), options);
    update.put("a", "1");
    THROWS_OWN(update.finish());
    Dictionary dictionary = Dictionary::open(path("thrown.spd"));
    CHECK(dictionary.len() == 50000);
    THROWS_OWN(dictionary.verify({}, 1, progress));
    DictionaryBuilder::build(path("other.spd"), {{"a", "1"}});
    splitpoint::Diff diff = dictionary.diff(Dictionary::open(path("other.spd")), progress);
    auto walk = [&] {
        while (diff.next())
            ;
    };
    THROWS_OWN(walk());
}

static void errors_are_thrown()
{
    Table table;
    THROWS(const Error &error, error.kind() == ErrorKind::invalid_handle, table.get("a"));
    THROWS(const std::runtime_error &error, error.what()[0] != 0, table.put("a", "b"));
    THROWS(const Error &error, error.kind() == ErrorKind::invalid_handle, strings_of(table));
    THROWS(const Error &error, error.kind() == ErrorKind::not_a_table, Table::open(path("d.spd")));
    THROWS(const Error &error, error.system_error() == ENOENT, Dictionary::open(path("absent.spd")));
    table = Table::open(path("closed.spt"));
    Scan scan = table.scan();
    THROWS(const Error &error, error.kind() == ErrorKind::in_use, table.close());
    CHECK(table);
}
#else
/* Without exceptions a failure that is not asked for ends the program. */
static void errors_abort()
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        CHECK(freopen("/dev/null", "w", stderr) != nullptr);
        Table().put("a", "b");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

int main()
{
    single_calls();
    many_and_batches();
    scans();
    files_are_closed_with_their_last_user();
    views();
    options_and_files();
    damaged_tables();
    readers_and_types();
    dictionaries();
    damaged_dictionaries();
    closed_objects();
#if SPLITPOINT_EXCEPTIONS
    callbacks_that_throw();
    errors_are_thrown();
#else
    errors_abort();
#endif
    return 0;
}

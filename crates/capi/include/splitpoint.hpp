/** splitpoint.hpp - splitpoint.h for C++17 and later, in this header alone
 *
 * Tables, dictionaries, batches and scans as move-only objects that close themselves. Keys and values are
 * std::string_view, which may hold any bytes; results are std::optional. Each function calls the C function of its
 * name, whose manual page describes its cost, durability and threads; the comments here say what differs.
 *
 *     #include <iostream>
 *     #include <splitpoint.hpp>
 *
 *     int main()
 *     {
 *         auto table = splitpoint::Table::open("users.spt");
 *         table.put("alice", "admin");
 *         for (auto [key, value] : table)
 *             std::cout << key << " = " << value << '\n';
 *     }
 *
 * Compile it with
 *
 *     c++ -std=c++17 users.cpp $(pkg-config --cflags --libs splitpoint)
 *
 * Errors: Functions that can fail have a last parameter `Error *error`. Without it a failure throws splitpoint::Error.
 * With it a failure sets `*error` instead and returns an empty result (std::nullopt, false, 0, a closed object); a
 * success clears `*error`. Compiled with -fno-exceptions, a failure without `error` prints its message and aborts; all
 * of a program should be compiled with the same choice. Absent keys, keys that exist already and the end of a scan are
 * results, not errors. Memory that C++ cannot allocate is std::bad_alloc as usual.
 *
 * Closed objects: A function of an object that was closed, moved from or never opened fails with
 * ErrorKind::invalid_handle.
 *
 * Lifetimes: Scans, iterators, batches and views share the ownership of their table or dictionary, which is closed when
 * the last of them is destroyed. `close` while any of them is open fails with ErrorKind::in_use.
 *
 * Callbacks: Functions that you pass may throw. The library call then ends as if the function had cancelled it, and
 * throws that exception, even with `error`. Hash functions and place names are function pointers, and must be noexcept.
 *
 * Threads: As in splitpoint.h: tables and dictionaries may be shared, other objects are for one thread at a time.
 *
 * Strings: Paths, names and messages end at their first zero byte.
 */
#ifndef SPLITPOINT_HPP
#define SPLITPOINT_HPP

#include <splitpoint.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define SPLITPOINT_EXCEPTIONS 1
#else
#define SPLITPOINT_EXCEPTIONS 0
#endif

namespace splitpoint {

/** The kinds of errors, with the numbers of spt_status. Later versions add some. */
enum class ErrorKind : int {
    none = SPT_OK,
    io = SPT_IO,
    disk_full = SPT_DISK_FULL,
    corrupt = SPT_CORRUPT,
    not_a_table = SPT_NOT_A_TABLE,
    other_version = SPT_OTHER_VERSION,
    wrong_hash = SPT_WRONG_HASH,
    invalid_argument = SPT_INVALID_ARGUMENT,
    too_long = SPT_TOO_LONG,
    read_only = SPT_IS_READ_ONLY,
    locked = SPT_LOCKED,
    poisoned = SPT_POISONED,
    would_deadlock = SPT_WOULD_DEADLOCK,
    out_of_memory = SPT_OUT_OF_MEMORY,
    forked = SPT_FORKED,
    stale = SPT_STALE,
    duplicate = SPT_DUPLICATE,
    stopped = SPT_STOPPED,
    busy = SPT_BUSY,
    not_a_dictionary = SPT_NOT_A_DICTIONARY,
    build_failed = SPT_BUILD_FAILED,
    wrong_types = SPT_WRONG_TYPES,
    invalid_handle = SPT_INVALID_HANDLE,
    in_use = SPT_IN_USE,
    wrong_thread = SPT_WRONG_THREAD,
    internal = SPT_INTERNAL
};

/** A failure, or none, which is what the default constructor makes. */
class Error : public std::runtime_error {
public:
    Error() : std::runtime_error("") {}

    /** The failure `status`, with the message of this thread's last one. */
    explicit Error(spt_status status)
        : std::runtime_error(*spt_error_message(nullptr) ? spt_error_message(nullptr) : spt_strerror(status)),
          status_(status), system_error_(spt_error_errno(nullptr))
    {
    }

    /** Whether there is a failure. */
    explicit operator bool() const noexcept { return status_ != SPT_OK; }
    ErrorKind kind() const noexcept { return static_cast<ErrorKind>(status_); }
    spt_status status() const noexcept { return status_; }

    /** What happened, where, and then the hint: what to do about it. The same as what(). */
    std::string_view message() const noexcept { return what(); }

    /** The kind in words. */
    const char *kind_text() const noexcept { return spt_strerror(status_); }

    /** The errno of the operating system's error behind it; 0 if there was none. */
    int system_error() const noexcept { return system_error_; }

private:
    spt_status status_ = SPT_OK;
    int system_error_ = 0;
};

/** Which failures a completed write survives: see spt_options. */
enum class Durability : std::uint32_t {
    none = SPT_DURABILITY_NONE,
    os = SPT_DURABILITY_OS,
    sync = SPT_DURABILITY_SYNC
};

/** A hash function of your own: see spt_hash_fn. A captureless lambda that is noexcept converts to it. */
using HashFunction = std::uint64_t (*)(void *context, const void *key, std::size_t key_len) noexcept;

/** Names a place in messages of a build: see spt_build_options. */
using PlaceName = void (*)(void *context, std::uint64_t place, char *name, std::size_t capacity) noexcept;

/** Called from time to time with the amount done and the total; returns false to cancel: ErrorKind::stopped. */
using Progress = std::function<bool(std::uint64_t done, std::uint64_t all)>;

/** Called with the location of a fault and what is wrong there, until it returns false. */
using FaultFunction = std::function<bool(std::string_view place, std::string_view what)>;

using Counters = spt_counters;
using Survey = spt_survey;
using BucketCount = spt_bucket_count;
using DictionarySizes = spt_dict_sizes;
using SalvageReport = spt_salvage_report;

/** A key and its value. In a scan the bytes are valid until the next step. */
struct Pair {
    std::string_view key;
    std::string_view value;
};

/** How a table is opened. What is 0, empty or absent is the default of spt_options, which describes the fields. */
struct Options {
    bool read_only = false;
    bool checkpoint_only = false; /* with read_only: the last checkpoint alone, without the writes since */
    bool create = true;      /* false: the file must exist */
    bool create_new = false; /* the file must not exist */
    bool publish_counters = false;
    std::optional<Durability> durability = std::nullopt;
    std::uint32_t page_bytes = 0;
    std::uint32_t fill_factor = 0;
    std::uint32_t fill_percent = 0;
    std::uint32_t mode = 0;
    std::uint64_t expected_len = 0;
    std::uint64_t cache_bytes = 0;
    std::uint64_t log_bytes = 0;
    std::string hash = {};
    std::optional<std::uint64_t> seed = std::nullopt;
    HashFunction user_hash = nullptr;
    void *user_context = nullptr; /* valid until the table is closed */
};

/** How a dictionary is opened: see spt_dict_options. */
struct DictionaryOptions {
    bool map_data = false;
    bool read_data = false;
    bool map_index = false;
    std::string hash = {};
    HashFunction user_hash = nullptr;
    void *user_context = nullptr; /* valid until the dictionary is closed */
};

enum class Index : std::uint32_t {
    page = SPT_INDEX_PAGE,
    trie = SPT_INDEX_TRIE,
    chunk = SPT_INDEX_CHUNK,
    none = SPT_INDEX_NONE
};

enum class Effort : std::uint32_t {
    by_default = 0,
    fast = SPT_EFFORT_FAST,
    balanced = SPT_EFFORT_BALANCED,
    small = SPT_EFFORT_SMALL
};

enum class Compression : std::uint32_t { none = SPT_COMPRESSION_NONE, lz4 = SPT_COMPRESSION_LZ4 };

enum class Duplicates : std::uint32_t {
    error = SPT_DUPLICATES_ERROR,
    first = SPT_DUPLICATES_FIRST,
    last = SPT_DUPLICATES_LAST
};

/** How a dictionary is built. What is 0 or empty is the default of spt_build_options, which describes the fields. */
struct BuildOptions {
    bool resume = false;
    Index index = Index::page;
    std::uint32_t bins_per_page = 0;
    std::uint32_t bucket_keys = 0;
    std::uint32_t huffman_max = 0;
    std::uint32_t skip_min = 0;
    std::uint32_t block_items = 0;
    Effort effort = Effort::by_default;
    std::uint32_t page_bytes = 0;
    Compression compression = Compression::none;
    std::uint32_t block_bytes = 0;
    Duplicates duplicates = Duplicates::error;
    std::uint32_t threads = 0;
    std::uint32_t shards = 0;
    std::uint64_t memory_bytes = 0;
    std::uint64_t seed = 0;
    std::uint64_t resume_identity = 0;
    std::string hash = {};
    HashFunction user_hash = nullptr;
    void *user_context = nullptr; /* valid until the build ends */
    std::string temporary_directory = {};
    Progress progress = {}; /* may be called by any thread, and by several at a time */
    PlaceName place_name = nullptr;
    void *place_context = nullptr; /* valid until the build ends */
    std::uint64_t filter_bits = 0;
};

/** What a function given to `update` decides. */
class Update {
public:
    /** Changes nothing. */
    static Update keep() { return Update(SPT_UPDATE_KEEP, {}); }
    /** Stores the value. */
    static Update store(std::string value) { return Update(SPT_UPDATE_STORE, std::move(value)); }
    /** Removes the key. */
    static Update remove() { return Update(SPT_UPDATE_REMOVE, {}); }
    /** Cancels the call, or the whole commit of a batch: ErrorKind::stopped. */
    static Update stop() { return Update(SPT_UPDATE_STOP, {}); }

    int decision() const noexcept { return decision_; }
    std::string &value() noexcept { return value_; }

private:
    Update(int decision, std::string value) : decision_(decision), value_(std::move(value)) {}

    int decision_;
    std::string value_;
};

/** Is called with the value, or std::nullopt if the key is absent; maybe several times: see spt_update. */
using UpdateFunction = std::function<Update(std::optional<std::string_view> old_value)>;

enum class ChangeKind : int {
    added = SPT_CHANGE_ADDED,
    removed = SPT_CHANGE_REMOVED,
    replaced = SPT_CHANGE_REPLACED
};

/** A change between two dictionaries; its bytes are valid until the next step of the diff. */
struct Change {
    ChangeKind kind = ChangeKind::added;
    std::string_view key;
    std::optional<std::string_view> old_value;
    std::optional<std::string_view> value;
};

/** Not part of the interface. */
namespace detail {

/* Records or throws the failure `status`. */
inline void fail(spt_status status, Error *error)
{
    if (error) {
        *error = Error(status);
        return;
    }
#if SPLITPOINT_EXCEPTIONS
    throw Error(status);
#else
    std::fprintf(stderr, "splitpoint: %s\n", Error(status).what());
    std::abort();
#endif
}

/* Whether `status` is SPT_OK. If it is neither that nor `answer`, it is a failure. */
inline bool succeeded(spt_status status, Error *error, spt_status answer = SPT_OK)
{
    if (status != SPT_OK && status != answer) {
        fail(status, error);
        return false;
    }
    if (error && *error)
        *error = Error();
    return status == SPT_OK;
}

inline spt_bytes bytes(std::string_view text) noexcept
{
    return spt_bytes{text.data(), text.size()};
}

inline std::string_view view(const spt_bytes &bytes) noexcept
{
    return std::string_view(static_cast<const char *>(bytes.data), bytes.len);
}

inline std::optional<std::string_view> optional_view(const spt_bytes &bytes) noexcept
{
    return bytes.data ? std::optional(view(bytes)) : std::nullopt;
}

inline const char *name(const std::string &text) noexcept
{
    return text.empty() ? nullptr : text.c_str();
}

/* The result of a callback, or `cancelled` if it throws, which `Thrown` keeps: nothing may unwind through C. */
class Thrown {
public:
    template <class Function>
    int guard(int cancelled, Function &&function) noexcept
    {
#if SPLITPOINT_EXCEPTIONS
        try {
            return function();
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!exception_)
                exception_ = std::current_exception();
            return cancelled;
        }
#else
        (void)cancelled;
        return function();
#endif
    }

    /* After the library's call: throws what a callback has thrown. */
    void rethrow()
    {
#if SPLITPOINT_EXCEPTIONS
        std::unique_lock<std::mutex> lock(mutex_);
        std::exception_ptr exception = std::exchange(exception_, nullptr);
        lock.unlock();
        if (exception)
            std::rethrow_exception(exception);
#endif
    }

private:
    std::mutex mutex_; /* the callbacks of a build are called by any thread */
    std::exception_ptr exception_;
};

/* A function that is called by C, whose `context` is this struct. */
template <class Function>
struct Callback {
    explicit Callback(Function callee) : function(std::move(callee)) {}

    Function function;
    Thrown thrown;

    void *context() noexcept { return this; }
    static Callback &of(void *context) noexcept { return *static_cast<Callback *>(context); }
};

struct ProgressCallback : Callback<Progress> {
    using Callback::Callback;

    spt_progress_fn call() const noexcept { return function ? &called : nullptr; }

    static int called(void *context, std::uint64_t done, std::uint64_t all) noexcept
    {
        Callback &self = of(context);
        return self.thrown.guard(1, [&] { return self.function(done, all) ? 0 : 1; });
    }
};

struct FaultCallback : Callback<FaultFunction> {
    using Callback::Callback;

    spt_fault_fn call() const noexcept { return function ? &called : nullptr; }

    static int called(void *context, const char *place, const char *what) noexcept
    {
        Callback &self = of(context);
        return self.thrown.guard(1, [&] { return self.function(place, what) ? 0 : 1; });
    }
};

template <class Function>
struct UpdateCallback : Callback<Function> {
    using Callback<Function>::Callback;

    std::string stored; /* read by the library after the function has returned */

    static int called(void *context, const spt_bytes *old_value, spt_bytes *new_value) noexcept
    {
        auto &self = static_cast<UpdateCallback &>(Callback<Function>::of(context));
        return self.thrown.guard(SPT_UPDATE_STOP, [&] {
            Update update = self.function(old_value ? std::optional(view(*old_value)) : std::nullopt);
            if (update.decision() == SPT_UPDATE_STORE) {
                self.stored = std::move(update.value());
                *new_value = bytes(self.stored);
            }
            return update.decision();
        });
    }
};

/* The options as a struct of C, which points into `from`. */
inline spt_options options_of(const Options &from) noexcept
{
    spt_options to = SPT_OPTIONS_INIT;
    to.flags = (from.read_only ? SPT_READ_ONLY : 0) | (from.checkpoint_only ? SPT_CHECKPOINT_ONLY : 0) |
               (from.create ? 0 : SPT_NO_CREATE) |
               (from.create_new ? SPT_CREATE_NEW : 0) | (from.publish_counters ? SPT_PUBLISH_COUNTERS : 0);
    to.durability = from.durability ? static_cast<std::uint32_t>(*from.durability) : 0;
    to.page_bytes = from.page_bytes;
    to.fill_factor = from.fill_factor;
    to.fill_percent = from.fill_percent;
    to.mode = from.mode;
    to.expected_len = from.expected_len;
    to.cache_bytes = from.cache_bytes;
    to.log_bytes = from.log_bytes;
    to.hash = name(from.hash);
    to.seed = from.seed ? &*from.seed : nullptr;
    to.user_hash = from.user_hash;
    to.user_context = from.user_context;
    return to;
}

inline spt_dict_options options_of(const DictionaryOptions &from) noexcept
{
    spt_dict_options to = SPT_DICT_OPTIONS_INIT;
    to.flags = (from.map_data ? SPT_MAP_DATA : 0) | (from.read_data ? SPT_READ_DATA : 0) |
               (from.map_index ? SPT_MAP_INDEX : 0);
    to.hash = name(from.hash);
    to.user_hash = from.user_hash;
    to.user_context = from.user_context;
    return to;
}

/* The options and the progress function of a build, which the library may use until the build ends. */
struct BuildContext {
    explicit BuildContext(const BuildOptions &from) : given(from), progress(from.progress) {}

    BuildOptions given;
    ProgressCallback progress;

    spt_build_options options() noexcept
    {
        spt_build_options to = SPT_BUILD_OPTIONS_INIT;
        to.flags = given.resume ? SPT_RESUME : 0;
        to.index = static_cast<std::uint32_t>(given.index);
        to.bins_per_page = given.bins_per_page;
        to.bucket_keys = given.bucket_keys;
        to.huffman_max = given.huffman_max;
        to.skip_min = given.skip_min;
        to.block_items = given.block_items;
        to.effort = static_cast<std::uint32_t>(given.effort);
        to.page_bytes = given.page_bytes;
        to.compression = static_cast<std::uint32_t>(given.compression);
        to.block_bytes = given.block_bytes;
        to.duplicates = static_cast<std::uint32_t>(given.duplicates);
        to.threads = given.threads;
        to.shards = given.shards;
        to.memory_bytes = given.memory_bytes;
        to.seed = given.seed;
        to.resume_identity = given.resume_identity;
        to.hash = name(given.hash);
        to.user_hash = given.user_hash;
        to.user_context = given.user_context;
        to.temporary_directory = name(given.temporary_directory);
        to.progress = progress.call();
        to.progress_context = progress.context();
        to.place_name = given.place_name;
        to.place_context = given.place_context;
        to.filter_bits = given.filter_bits;
        return to;
    }
};

/* Closes what a unique_ptr or shared_ptr holds, and discards errors. */
template <auto close>
struct Closer {
    template <class Handle>
    void operator()(Handle *handle) const noexcept
    {
        close(handle);
    }
};

template <class Handle, auto close>
using Unique = std::unique_ptr<Handle, Closer<close>>;
using Memory = std::unique_ptr<void, Closer<spt_free>>;

/* Closes the handle, and forgets it unless it is in use. */
template <auto close, class Pointer>
void close_now(Pointer &pointer, Error *error)
{
    spt_status status = close(pointer.get());
    Pointer closed;
    if (status != SPT_IN_USE)
        closed.swap(pointer);
    succeeded(status, error);
}

/* Copies a value that `get(buffer, capacity, &len)` finds; short ones by way of the stack. */
template <class Get>
bool copy_value(std::string &value, Error *error, Get get)
{
    char buffer[512];
    std::size_t len = 0;
    spt_status status = get(buffer, sizeof buffer, &len);

    if (status == SPT_OK)
        value.assign(buffer, len);
    else
        value.clear();
    while (status == SPT_TOO_SMALL) { /* another thread may have made it longer still */
        value.resize(len);
        status = get(value.data(), value.size(), &len);
        value.resize(status == SPT_OK ? len : 0);
    }
    return succeeded(status, error, SPT_NOT_FOUND);
}

/* Whether the elements of a range outlive the step that returned them, as those of a scan do not. */
template <class Range>
constexpr bool stays = std::is_base_of_v<
    std::forward_iterator_tag,
    typename std::iterator_traits<decltype(std::begin(std::declval<const Range &>()))>::iterator_category>;

template <class Range>
std::vector<spt_pair> pairs_of(const Range &range)
{
    static_assert(stays<Range>, "pass a container of pairs; the pairs of a scan must be copied first");
    std::vector<spt_pair> pairs;
    for (const auto &[key, value] : range)
        pairs.push_back(spt_pair{bytes(key), bytes(value)});
    return pairs;
}

/* The state of a walk: where the pairs come from, and the current one. */
template <class Source>
struct Walk {
    Walk(Source from, Error *errors) : source(std::move(from)), error(errors) {}

    Source source;
    typename Source::Item item = {};
    bool has_item = false;
    Error *error;

    bool step()
    {
        item = {};
        has_item = false; /* and remains so if next throws */
        has_item = source.next(item, error);
        return has_item;
    }
};

} // namespace detail

/** The pairs of a scan, or the changes of a diff, as an input range: each step discards what the last one returned.
 *
 * Range-for, `next` and algorithms for input iterators walk it once. An iterator shares the walk with the range, and
 * may outlive it. After a failure, iterators are at the end; in a table, `next` or another `begin` then continues
 * after the bucket that failed. `error`, if given, must stay valid; check it after the walk.
 */
template <class Source>
class Steps {
public:
    using Item = typename Source::Item;

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Item;
        using difference_type = std::ptrdiff_t;
        using pointer = const Item *;
        using reference = const Item &;

        iterator() noexcept = default;

        reference operator*() const noexcept { return walk_->item; }
        pointer operator->() const noexcept { return &walk_->item; }

        /** Reads the next one; about as fast as copying its bytes. */
        iterator &operator++()
        {
            walk_->step();
            return *this;
        }
        void operator++(int) { ++*this; }

        /** Whether both are at the end, or neither. */
        friend bool operator==(const iterator &left, const iterator &right) noexcept
        {
            return left.at_end() == right.at_end();
        }
        friend bool operator!=(const iterator &left, const iterator &right) noexcept { return !(left == right); }

    private:
        friend class Steps;
        explicit iterator(std::shared_ptr<detail::Walk<Source>> walk) noexcept : walk_(std::move(walk)) {}

        bool at_end() const noexcept { return !walk_ || !walk_->has_item; }

        std::shared_ptr<detail::Walk<Source>> walk_;
    };

    Steps() noexcept = default;
    Steps(Source source, Error *error) : walk_(std::make_shared<detail::Walk<Source>>(std::move(source), error)) {}
    Steps(Steps &&) noexcept = default;
    Steps &operator=(Steps &&) noexcept = default;
    Steps(const Steps &) = delete;
    Steps &operator=(const Steps &) = delete;
    ~Steps() = default;

    /** At the current item, or the first one. */
    iterator begin() const
    {
        if (walk_ && !walk_->has_item)
            walk_->step();
        return iterator(walk_);
    }
    iterator end() const noexcept { return iterator(); }

    /** The next item; std::nullopt at the end, and after a failure. */
    std::optional<Item> next() { return walk_ && walk_->step() ? std::optional<Item>(walk_->item) : std::nullopt; }

protected:
    Source *source() const noexcept { return walk_ ? &walk_->source : nullptr; }

private:
    std::shared_ptr<detail::Walk<Source>> walk_;
};

namespace detail {

struct CursorSource {
    using Item = Pair;

    std::shared_ptr<void> owner; /* the table or dictionary; closed after the cursor */
    Unique<spt_cursor, spt_cursor_close> cursor;

    bool next(Pair &pair, Error *error)
    {
        spt_bytes key, value;
        if (!succeeded(spt_cursor_next(cursor.get(), &key, &value), error, SPT_END))
            return false;
        pair = Pair{view(key), view(value)};
        return true;
    }
};

struct DiffSource {
    using Item = Change;

    std::unique_ptr<ProgressCallback> progress;
    Unique<spt_diff, spt_diff_close> diff;

    bool next(Change &change, Error *error)
    {
        spt_change found;
        spt_status status = spt_diff_next(diff.get(), &found);
        if (progress)
            progress->thrown.rethrow();
        if (!succeeded(status, error, SPT_END))
            return false;
        change = Change{static_cast<ChangeKind>(found.kind), view(found.key), optional_view(found.old_value),
                        optional_view(found.value)};
        return true;
    }
};

} // namespace detail

/** Where a scan can continue: see spt_cursor_position. */
struct Position {
    std::uint64_t position = 0;
    bool at_boundary = false;
};

/** A walk over pairs: see spt_scan. One allocation; reads begin with the first step. */
class Scan : public Steps<detail::CursorSource> {
public:
    using Steps::Steps;

    /** A position at which Table::scan continues after the pairs returned so far. Not for scans of dictionaries. */
    Position position(Error *error = nullptr) const
    {
        Position result;
        int at_boundary = 0;
        detail::succeeded(
            spt_cursor_position(source() ? source()->cursor.get() : nullptr, &result.position, &at_boundary), error);
        result.at_boundary = at_boundary != 0;
        return result;
    }
};

/** A walk over the changes between two dictionaries: see spt_dict_diff. The dictionaries may be closed before it. */
using Diff = Steps<detail::DiffSource>;

/** The values of many keys, in one allocation: a range of std::optional<std::string_view>, in the order of the keys. */
class Values {
public:
    using const_iterator = std::vector<std::optional<std::string_view>>::const_iterator;

    Values() noexcept = default;
    Values(const std::vector<spt_bytes> &values, detail::Memory memory) : memory_(std::move(memory))
    {
        values_.reserve(values.size());
        for (const spt_bytes &value : values)
            values_.push_back(detail::optional_view(value));
    }

    std::size_t size() const noexcept { return values_.size(); }
    const std::optional<std::string_view> &operator[](std::size_t index) const noexcept { return values_[index]; }
    const_iterator begin() const noexcept { return values_.begin(); }
    const_iterator end() const noexcept { return values_.end(); }

private:
    std::vector<std::optional<std::string_view>> values_;
    detail::Memory memory_;
};

namespace detail {

template <class Keys, class Get>
Values values_of(const Keys &keys, Error *error, Get get)
{
    static_assert(stays<Keys>, "pass a container of keys; the keys of a scan must be copied first");
    std::vector<spt_bytes> wanted;
    for (const auto &key : keys)
        wanted.push_back(bytes(key));
    std::vector<spt_bytes> values(wanted.size());
    void *memory = nullptr;
    spt_status status = get(wanted.data(), wanted.size(), values.data(), &memory);
    Memory owned(memory);
    return succeeded(status, error) ? Values(values, std::move(owned)) : Values();
}

} // namespace detail

/** A value in its page: see spt_get_view. While it exists, writers of that page wait. Destroy it in the thread that
 * made it: elsewhere it stays open until that thread ends. */
class View {
public:
    View() noexcept = default;
    View(std::shared_ptr<void> owner, const spt_view &view) noexcept : owner_(std::move(owner)), view_(view) {}
    View(View &&other) noexcept : owner_(std::move(other.owner_)), view_(std::exchange(other.view_, spt_view{})) {}
    View &operator=(View &&other) noexcept
    {
        if (this != &other) {
            spt_view_release(&view_);
            view_ = std::exchange(other.view_, spt_view{});
            owner_ = std::move(other.owner_);
        }
        return *this;
    }
    View(const View &) = delete;
    View &operator=(const View &) = delete;
    ~View() { spt_view_release(&view_); }

    /** Whether the key was present. */
    explicit operator bool() const noexcept { return view_.data != nullptr; }
    /** The value; empty if there is none. */
    std::string_view value() const noexcept { return {static_cast<const char *>(view_.data), view_.len}; }

private:
    std::shared_ptr<void> owner_;
    spt_view view_ = {};
};

/** Several changes made as one: see spt_batch_begin. Destroying it, or `discard`, makes none of them. */
class Batch {
public:
    Batch() noexcept = default;
    Batch(Batch &&) noexcept = default;
    Batch &operator=(Batch &&other) noexcept
    {
        batch_ = std::move(other.batch_); /* the old batch is discarded before its table is closed */
        updates_ = std::move(other.updates_);
        table_ = std::move(other.table_);
        return *this;
    }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;
    ~Batch() = default;

    /** These four add a change; they copy their bytes. Errors: too_long. */
    void put(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        detail::succeeded(spt_batch_put(batch_.get(), key.data(), key.size(), value.data(), value.size()), error);
    }
    void insert_new(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        detail::succeeded(spt_batch_insert_new(batch_.get(), key.data(), key.size(), value.data(), value.size()),
                          error);
    }
    void append(std::string_view key, std::string_view tail, Error *error = nullptr)
    {
        detail::succeeded(spt_batch_append(batch_.get(), key.data(), key.size(), tail.data(), tail.size()), error);
    }
    void remove(std::string_view key, Error *error = nullptr)
    {
        detail::succeeded(spt_batch_remove(batch_.get(), key.data(), key.size()), error);
    }

    /** Adds a change by a function, which `commit` calls. */
    void update(std::string_view key, UpdateFunction function, Error *error = nullptr)
    {
        updates_.push_back(std::make_unique<Updater>(std::move(function)));
        Updater &added = *updates_.back();
        detail::succeeded(spt_batch_update(batch_.get(), key.data(), key.size(), &Updater::called, added.context()),
                          error);
    }

    /** The number of changes; free. */
    std::uint64_t len(Error *error = nullptr) const
    {
        std::uint64_t len = 0;
        detail::succeeded(spt_batch_len(batch_.get(), &len), error);
        return len;
    }

    /** Makes the changes and closes the batch, also if it fails; then nothing has changed. Errors: stopped by
     * Update::stop; the errors of Table::put. */
    void commit(Error *error = nullptr)
    {
        spt_status status = spt_batch_commit(batch_.get());
        Batch ended;
        if (status != SPT_IN_USE)
            ended = std::move(*this);
        for (const auto &update : ended.updates_)
            update->thrown.rethrow();
        detail::succeeded(status, error);
    }

    /** Closes the batch. */
    void discard() noexcept { *this = Batch(); }

private:
    friend class Table;
    using Updater = detail::UpdateCallback<UpdateFunction>;

    std::shared_ptr<spt_table> table_;
    std::vector<std::unique_ptr<Updater>> updates_;
    detail::Unique<spt_batch, spt_batch_discard> batch_;
};

/** A table: see spt_open. Its destructor closes it and discards errors; `close` reports them. */
class Table {
public:
    using iterator = Scan::iterator;

    /** A closed table. */
    Table() noexcept = default;
    Table(Table &&) noexcept = default;
    Table &operator=(Table &&) noexcept = default;
    Table(const Table &) = delete;
    Table &operator=(const Table &) = delete;
    ~Table() = default;

    /** Opens the table at `path`, and creates it if it is absent. Errors: the errors of spt_open. */
    [[nodiscard]] static Table open(const std::string &path, const Options &options = {}, Error *error = nullptr)
    {
        spt_options given = detail::options_of(options);
        spt_table *table = nullptr;
        spt_status status = spt_open(path.c_str(), &given, &table);
        return Table(status, table, error);
    }

    /** Makes an empty table in memory. Errors: invalid_argument, out_of_memory. */
    [[nodiscard]] static Table in_memory(const Options &options = {}, Error *error = nullptr)
    {
        spt_options given = detail::options_of(options);
        spt_table *table = nullptr;
        spt_status status = spt_open_in_memory(&given, &table);
        return Table(status, table, error);
    }

    /** A table with what was written since this one was opened to read, if anything was: see spt_newer.
     * Errors: the errors of open. */
    [[nodiscard]] std::optional<Table> newer(Error *error = nullptr) const
    {
        spt_table *found = nullptr;
        spt_status status = spt_newer(handle(), &found);
        Table table(status, found, error);
        return table ? std::optional<Table>(std::move(table)) : std::nullopt;
    }

    /** The types that the table records, as "u64 -> str"; empty for bytes. See spt_types. */
    [[nodiscard]] std::string types(Error *error = nullptr) const
    {
        char buffer[65] = "";
        std::size_t len = 0;
        detail::succeeded(spt_types(handle(), buffer, sizeof buffer, &len), error);
        return std::string(buffer, len);
    }

    /** Records types in a table that has none. Errors: wrong_types, invalid_argument, io, disk_full. */
    void record_types(const std::string &types, Error *error = nullptr)
    {
        detail::succeeded(spt_record_types(handle(), types.c_str()), error);
    }

    /** Makes all writes durable and closes the table. It stays open after in_use, but not after other errors. Errors:
     * those of spt_close. */
    void close(Error *error = nullptr) { detail::close_now<spt_close>(table_, error); }

    /** Whether it is open. */
    explicit operator bool() const noexcept { return table_ != nullptr; }

    /** The handle, for functions of splitpoint.h; it stays this object's. */
    spt_table *handle() const noexcept { return table_.get(); }

    /** The value of the key. One lookup, and a copy. Errors of all lookups: io, corrupt, stale. */
    [[nodiscard]] std::optional<std::string> get(std::string_view key, Error *error = nullptr) const
    {
        std::optional<std::string> value(std::in_place);
        if (!get_into(key, *value, error))
            value.reset();
        return value;
    }

    /** Copies the value to `value`, and returns whether the key is present; if not, `value` is empty. Allocates only if
     * its capacity is too small.
     * `key` must not be in `value`. */
    bool get_into(std::string_view key, std::string &value, Error *error = nullptr) const
    {
        return detail::copy_value(value, error, [&](char *buffer, std::size_t capacity, std::size_t *len) {
            return spt_get(handle(), key.data(), key.size(), buffer, capacity, len);
        });
    }

    /** Copies the value to `buffer` if it fits, and returns its length. If that is above `capacity`, the contents of
     * `buffer` are unspecified. Never allocates. */
    std::optional<std::size_t> get_to(std::string_view key, char *buffer, std::size_t capacity,
                                      Error *error = nullptr) const
    {
        std::size_t len = 0;
        spt_status status = spt_get(handle(), key.data(), key.size(), buffer, capacity, &len);
        bool found = detail::succeeded(status == SPT_TOO_SMALL ? SPT_OK : status, error, SPT_NOT_FOUND);
        return found ? std::optional(len) : std::nullopt;
    }

    /** The value in its page, without a copy. */
    [[nodiscard]] View get_view(std::string_view key, Error *error = nullptr) const
    {
        spt_view view = {};
        bool found = detail::succeeded(spt_get_view(handle(), key.data(), key.size(), &view), error, SPT_NOT_FOUND);
        return found ? View(table_, view) : View();
    }

    bool contains(std::string_view key, Error *error = nullptr) const
    {
        return detail::succeeded(spt_contains(handle(), key.data(), key.size()), error, SPT_NOT_FOUND);
    }

    /** The values of a container of keys; faster than one by one: see spt_get_many. */
    template <class Keys>
    [[nodiscard]] Values get_many(const Keys &keys, Error *error = nullptr) const
    {
        return detail::values_of(keys, error, [&](const spt_bytes *wanted, std::size_t count, spt_bytes *values,
                                                  void **memory) {
            return spt_get_many(handle(), wanted, count, values, memory);
        });
    }
    [[nodiscard]] Values get_many(std::initializer_list<std::string_view> keys, Error *error = nullptr) const
    {
        return get_many<std::initializer_list<std::string_view>>(keys, error);
    }

    /** Stores the value. Errors of all writes: too_long, read_only, disk_full, busy, would_deadlock, io, corrupt,
     * poisoned: see spt_put. */
    void put(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        detail::succeeded(spt_put(handle(), key.data(), key.size(), value.data(), value.size()), error);
    }

    /** Stores the value if the key is absent, and returns whether it was. */
    bool insert_new(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        return detail::succeeded(spt_insert_new(handle(), key.data(), key.size(), value.data(), value.size()), error,
                                 SPT_EXISTS);
    }

    /** Stores the value, and returns the earlier one. */
    std::optional<std::string> replace(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        void *old = nullptr;
        std::size_t len = 0;
        spt_status status =
            spt_replace(handle(), key.data(), key.size(), value.data(), value.size(), &old, &len);
        detail::Memory owned(old);
        detail::succeeded(status, error);
        return old ? std::optional<std::string>(std::in_place, static_cast<const char *>(old), len) : std::nullopt;
    }

    /** Appends to the value, which is empty if the key is absent, and returns its new length. */
    std::size_t append(std::string_view key, std::string_view tail, Error *error = nullptr)
    {
        std::size_t len = 0;
        detail::succeeded(spt_append(handle(), key.data(), key.size(), tail.data(), tail.size(), &len), error);
        return len;
    }

    /** Removes the pair, and returns whether there was one. */
    bool remove(std::string_view key, Error *error = nullptr)
    {
        return detail::succeeded(spt_remove(handle(), key.data(), key.size()), error, SPT_NOT_FOUND);
    }

    /** If the value is `expected`, stores `new_value` and returns true. std::nullopt as `expected` means that the key
     * is absent, as `new_value` it removes the key. */
    bool compare_and_set(std::string_view key, std::optional<std::string_view> expected,
                         std::optional<std::string_view> new_value, Error *error = nullptr)
    {
        spt_bytes from = detail::bytes(expected.value_or("")), to = detail::bytes(new_value.value_or(""));
        return detail::succeeded(spt_compare_and_set(handle(), key.data(), key.size(), expected ? &from : nullptr,
                                                     new_value ? &to : nullptr),
                                 error, SPT_DIFFERS);
    }

    /** Changes the value by `function`, an UpdateFunction or the like; returns whether the key is present now. The
     * function may use the table. Errors: stopped by Update::stop; the errors of put. */
    template <class Function>
    bool update(std::string_view key, Function &&function, Error *error = nullptr)
    {
        using Updater = detail::UpdateCallback<std::reference_wrapper<std::remove_reference_t<Function>>>;
        Updater updater(std::ref(function));
        spt_status status = spt_update(handle(), key.data(), key.size(), &Updater::called, updater.context());
        updater.thrown.rethrow();
        return detail::succeeded(status, error, SPT_NOT_FOUND);
    }

    /** Stores a container of pairs, such as a std::map of strings; faster than one by one, and not atomic: see
     * spt_put_many. */
    template <class Pairs>
    void put_many(const Pairs &pairs, Error *error = nullptr)
    {
        std::vector<spt_pair> given = detail::pairs_of(pairs);
        detail::succeeded(spt_put_many(handle(), given.data(), given.size()), error);
    }
    void put_many(std::initializer_list<Pair> pairs, Error *error = nullptr)
    {
        put_many<std::initializer_list<Pair>>(pairs, error);
    }

    /** Appends each value of a container of pairs, and returns the new lengths. */
    template <class Pairs>
    std::vector<std::size_t> append_many(const Pairs &pairs, Error *error = nullptr)
    {
        std::vector<spt_pair> given = detail::pairs_of(pairs);
        std::vector<std::size_t> lens(given.size());
        if (!detail::succeeded(spt_append_many(handle(), given.data(), given.size(), lens.data()), error))
            lens.clear();
        return lens;
    }
    std::vector<std::size_t> append_many(std::initializer_list<Pair> pairs, Error *error = nullptr)
    {
        return append_many<std::initializer_list<Pair>>(pairs, error);
    }

    /** Begins a batch, as durable as the table, or as `durability` says: see spt_batch_begin_with. */
    [[nodiscard]] Batch batch(std::optional<Durability> durability = std::nullopt, Error *error = nullptr)
    {
        spt_batch *begun = nullptr;
        spt_status status =
            spt_batch_begin_with(handle(), durability ? static_cast<std::uint32_t>(*durability) : 0, &begun);
        Batch batch;
        if (detail::succeeded(status, error)) {
            batch.batch_.reset(begun);
            batch.table_ = table_;
        }
        return batch;
    }

    /** The number of pairs; free. */
    std::uint64_t len(Error *error = nullptr) const
    {
        std::uint64_t len = 0;
        detail::succeeded(spt_len(handle(), &len), error);
        return len;
    }

    /** Removes all pairs. */
    void clear(Error *error = nullptr) { detail::succeeded(spt_clear(handle()), error); }

    /** Returns when all earlier writes survive a power loss. Errors: disk_full, io. */
    void sync(Error *error = nullptr) { detail::succeeded(spt_sync(handle()), error); }

    /** Writes all changes to the table's own file, for readers in other processes. Errors: disk_full, io. */
    void checkpoint(Error *error = nullptr) { detail::succeeded(spt_checkpoint(handle()), error); }

    /** Scans in hash order from `position`: 0, or one of Scan::position. The table may change meanwhile. */
    [[nodiscard]] Scan scan(std::uint64_t position = 0, Error *error = nullptr) const
    {
        spt_cursor *cursor = nullptr;
        spt_status status = spt_scan(handle(), position, &cursor);
        return scanned(status, cursor, error);
    }

    /** Scans the pairs whose positions begin with the high `bits` bits of `prefix`. */
    [[nodiscard]] Scan scan_prefix(std::uint64_t prefix, std::uint32_t bits, Error *error = nullptr) const
    {
        spt_cursor *cursor = nullptr;
        spt_status status = spt_scan_prefix(handle(), prefix, bits, &cursor);
        return scanned(status, cursor, error);
    }

    /** Range-for over all pairs. A failure throws; for codes see `scan`. */
    iterator begin() const { return scan().begin(); }
    iterator end() const noexcept { return iterator(); }

    /** The position of a key in hash order, present or not. */
    std::uint64_t position(std::string_view key, Error *error = nullptr) const
    {
        std::uint64_t position = 0;
        detail::succeeded(spt_position(handle(), key.data(), key.size(), &position), error);
        return position;
    }

    /** Makes the table and its file as small as the pairs allow; as long as reading and writing it. */
    void compact(const Progress &progress = {}, Error *error = nullptr)
    {
        detail::ProgressCallback callback(progress);
        spt_status status = spt_compact(handle(), callback.call(), callback.context());
        callback.thrown.rethrow();
        detail::succeeded(status, error);
    }

    /** Copies the table, as of one moment, to `path`, where a file is replaced only if `overwrite`. */
    void backup(const std::string &path, bool overwrite = false, const Progress &progress = {},
                Error *error = nullptr) const
    {
        detail::ProgressCallback callback(progress);
        spt_status status = spt_backup(handle(), path.c_str(), overwrite ? SPT_OVERWRITE : 0, callback.call(),
                                       callback.context());
        callback.thrown.rethrow();
        detail::succeeded(status, error);
    }

    /** Reads everything, as spt_check does, and returns the number of faults. Errors: io. */
    std::uint64_t verify(const FaultFunction &function = {}, Error *error = nullptr) const
    {
        detail::FaultCallback callback(function);
        std::uint64_t faults = 0;
        spt_status status = spt_check(handle(), callback.call(), callback.context(), &faults);
        callback.thrown.rethrow();
        detail::succeeded(status, error, faults > 0 ? SPT_CORRUPT : SPT_OK);
        return faults;
    }

    /** Figures of the table in use; fast. */
    Counters counters(Error *error = nullptr) const
    {
        Counters counters = {};
        detail::succeeded(spt_read_counters(handle(), &counters, sizeof counters), error);
        return counters;
    }

    /** Measures the table, by a walk through all buckets; and into `histogram`, unless it is nullptr, the number of
     * buckets for each number of pairs. */
    Survey survey(std::vector<BucketCount> *histogram = nullptr, Error *error = nullptr) const
    {
        Survey survey = {};
        BucketCount *counts = nullptr;
        std::size_t len = 0;
        spt_status status = spt_survey_table(handle(), &survey, sizeof survey, histogram ? &counts : nullptr,
                                             histogram ? &len : nullptr);
        detail::Memory owned(counts);
        if (detail::succeeded(status, error) && histogram)
            histogram->assign(counts, counts + len);
        return survey;
    }

    /** Writes all pairs to a dictionary at `path`, in one scan, and returns their number: see spt_freeze. */
    std::uint64_t freeze(const std::string &path, const BuildOptions &options = {}, Error *error = nullptr) const
    {
        detail::BuildContext context(options);
        spt_build_options given = context.options();
        std::uint64_t pairs = 0;
        spt_status status = spt_freeze(handle(), path.c_str(), &given, &pairs);
        context.progress.thrown.rethrow();
        detail::succeeded(status, error);
        return pairs;
    }

private:
    Table(spt_status status, spt_table *table, Error *error)
    {
        if (detail::succeeded(status, error))
            table_ = std::shared_ptr<spt_table>(table, detail::Closer<spt_close>());
    }

    Scan scanned(spt_status status, spt_cursor *cursor, Error *error) const
    {
        detail::CursorSource source{table_, detail::Unique<spt_cursor, spt_cursor_close>(cursor)};
        return detail::succeeded(status, error) ? Scan(std::move(source), error) : Scan();
    }

    std::shared_ptr<spt_table> table_;
};

/** A dictionary, open for reading: see spt_dict_open. */
class Dictionary {
public:
    using iterator = Scan::iterator;

    /** A closed dictionary. */
    Dictionary() noexcept = default;
    Dictionary(Dictionary &&) noexcept = default;
    Dictionary &operator=(Dictionary &&) noexcept = default;
    Dictionary(const Dictionary &) = delete;
    Dictionary &operator=(const Dictionary &) = delete;
    ~Dictionary() = default;

    /** Opens the dictionary at `path`. Errors: the errors of spt_dict_open. */
    [[nodiscard]] static Dictionary open(const std::string &path, const DictionaryOptions &options = {},
                                         Error *error = nullptr)
    {
        spt_dict_options given = detail::options_of(options);
        spt_dictionary *opened = nullptr;
        spt_status status = spt_dict_open(path.c_str(), &given, &opened);
        Dictionary dictionary;
        if (detail::succeeded(status, error))
            dictionary.dictionary_ = std::shared_ptr<spt_dictionary>(opened, detail::Closer<spt_dict_close>());
        return dictionary;
    }

    /** Closes it. Errors: in_use while scans are open. */
    void close(Error *error = nullptr) { detail::close_now<spt_dict_close>(dictionary_, error); }

    /** Switches to the current version, and returns whether that is a new one. Errors: in_use while scans are open;
     * those of open, after which it keeps the old version. */
    bool reload(Error *error = nullptr)
    {
        int changed = 0;
        detail::succeeded(spt_dict_reload(handle(), &changed), error);
        return changed != 0;
    }

    /** Whether it is open. */
    explicit operator bool() const noexcept { return dictionary_ != nullptr; }

    /** The handle, for functions of splitpoint.h; it stays this object's. */
    spt_dictionary *handle() const noexcept { return dictionary_.get(); }

    /** The value of the key: one read of the file, or none if it is mapped. Errors of all lookups: io, corrupt. */
    [[nodiscard]] std::optional<std::string> get(std::string_view key, Error *error = nullptr) const
    {
        std::optional<std::string> value(std::in_place);
        if (!get_into(key, *value, error))
            value.reset();
        return value;
    }

    /** As Table::get_into. */
    bool get_into(std::string_view key, std::string &value, Error *error = nullptr) const
    {
        return detail::copy_value(value, error, [&](char *buffer, std::size_t capacity, std::size_t *len) {
            return spt_dict_get(handle(), key.data(), key.size(), buffer, capacity, len);
        });
    }

    /** As Table::get_to. */
    std::optional<std::size_t> get_to(std::string_view key, char *buffer, std::size_t capacity,
                                      Error *error = nullptr) const
    {
        std::size_t len = 0;
        spt_status status = spt_dict_get(handle(), key.data(), key.size(), buffer, capacity, &len);
        bool found = detail::succeeded(status == SPT_TOO_SMALL ? SPT_OK : status, error, SPT_NOT_FOUND);
        return found ? std::optional(len) : std::nullopt;
    }

    bool contains(std::string_view key, Error *error = nullptr) const
    {
        return detail::succeeded(spt_dict_contains(handle(), key.data(), key.size()), error, SPT_NOT_FOUND);
    }

    /** The values of a container of keys, with up to 64 reads in flight. */
    template <class Keys>
    [[nodiscard]] Values get_many(const Keys &keys, Error *error = nullptr) const
    {
        return detail::values_of(keys, error, [&](const spt_bytes *wanted, std::size_t count, spt_bytes *values,
                                                  void **memory) {
            return spt_dict_get_many(handle(), wanted, count, values, memory);
        });
    }
    [[nodiscard]] Values get_many(std::initializer_list<std::string_view> keys, Error *error = nullptr) const
    {
        return get_many<std::initializer_list<std::string_view>>(keys, error);
    }

    /** The number of pairs; free. */
    std::uint64_t len(Error *error = nullptr) const
    {
        std::uint64_t len = 0;
        detail::succeeded(spt_dict_len(handle(), &len), error);
        return len;
    }

    /** Scans all pairs, in hash order or shard by shard. */
    [[nodiscard]] Scan scan(Error *error = nullptr) const
    {
        spt_cursor *cursor = nullptr;
        spt_status status = spt_dict_scan(handle(), &cursor);
        return scanned(status, cursor, error);
    }

    /** Scans the pairs with positions from `first` to `last`, both included. */
    [[nodiscard]] Scan range(std::uint64_t first, std::uint64_t last, Error *error = nullptr) const
    {
        spt_cursor *cursor = nullptr;
        spt_status status = spt_dict_range(handle(), first, last, &cursor);
        return scanned(status, cursor, error);
    }

    /** Range-for over all pairs. A failure throws; for codes see `scan`. */
    iterator begin() const { return scan().begin(); }
    iterator end() const noexcept { return iterator(); }

    /** The position of a key in hash order, present or not. */
    std::uint64_t position(std::string_view key, Error *error = nullptr) const
    {
        std::uint64_t position = 0;
        detail::succeeded(spt_dict_position(handle(), key.data(), key.size(), &position), error);
        return position;
    }

    /** Puts all pairs into `table`, and returns their number. Errors: also the errors of Table::put. */
    std::uint64_t thaw(Table &table, Error *error = nullptr) const
    {
        std::uint64_t pairs = 0;
        detail::succeeded(spt_thaw(handle(), table.handle(), &pairs), error);
        return pairs;
    }

    /** Walks the changes from this dictionary to `newer`. Errors: invalid_argument if hash functions, seeds or shards
     * differ; of the steps: stopped, io, corrupt. */
    [[nodiscard]] Diff diff(const Dictionary &newer, const Progress &progress = {}, Error *error = nullptr) const
    {
        auto callback = std::make_unique<detail::ProgressCallback>(progress);
        spt_diff *diff = nullptr;
        spt_status status = spt_dict_diff(handle(), newer.handle(), callback->call(), callback->context(), &diff);
        return compared(status, diff, std::move(callback), error);
    }

    /** As diff, for keys with positions from `first` to `last`, both included. */
    [[nodiscard]] Diff diff_range(const Dictionary &newer, std::uint64_t first, std::uint64_t last,
                                  Error *error = nullptr) const
    {
        spt_diff *diff = nullptr;
        spt_status status = spt_dict_diff_range(handle(), newer.handle(), first, last, &diff);
        return compared(status, diff, nullptr, error);
    }

    /** Figures; reads no files. */
    DictionarySizes stat(Error *error = nullptr) const
    {
        DictionarySizes sizes = {};
        detail::succeeded(spt_dict_stat(handle(), &sizes, sizeof sizes), error);
        return sizes;
    }

    /** Reads everything, with `threads` threads, 0 for one per processor, and returns the number of faults. Errors: io,
     * stopped. */
    std::uint64_t verify(const FaultFunction &function = {}, std::uint32_t threads = 1, const Progress &progress = {},
                         Error *error = nullptr) const
    {
        detail::FaultCallback faulty(function);
        detail::ProgressCallback callback(progress);
        std::uint64_t faults = 0;
        spt_status status = spt_dict_check_with(handle(), threads, callback.call(), callback.context(), faulty.call(),
                                                faulty.context(), &faults);
        callback.thrown.rethrow();
        faulty.thrown.rethrow();
        detail::succeeded(status, error, faults > 0 ? SPT_CORRUPT : SPT_OK);
        return faults;
    }

private:
    Scan scanned(spt_status status, spt_cursor *cursor, Error *error) const
    {
        detail::CursorSource source{dictionary_, detail::Unique<spt_cursor, spt_cursor_close>(cursor)};
        return detail::succeeded(status, error) ? Scan(std::move(source), error) : Scan();
    }

    static Diff compared(spt_status status, spt_diff *diff, std::unique_ptr<detail::ProgressCallback> progress,
                         Error *error)
    {
        detail::DiffSource source{std::move(progress), detail::Unique<spt_diff, spt_diff_close>(diff)};
        return detail::succeeded(status, error) ? Diff(std::move(source), error) : Diff();
    }

    std::shared_ptr<spt_dictionary> dictionary_;
};

/** A dictionary being built: see spt_build_start. Destroying it, or `discard`, leaves no dictionary. */
class DictionaryBuilder {
public:
    /** One that is closed. */
    DictionaryBuilder() noexcept = default;
    DictionaryBuilder(DictionaryBuilder &&) noexcept = default;
    DictionaryBuilder &operator=(DictionaryBuilder &&other) noexcept
    {
        build_ = std::move(other.build_); /* the old handle is closed before its callbacks are destroyed */
        context_ = std::move(other.context_);
        return *this;
    }
    DictionaryBuilder(const DictionaryBuilder &) = delete;
    DictionaryBuilder &operator=(const DictionaryBuilder &) = delete;
    ~DictionaryBuilder() = default;

    /** Builds the dictionary at `path` from any range of pairs, in any order, and returns the number of its pairs. An
     * exception of the range cancels the build and is thrown from here. Errors: the errors of spt_dict_build; then the
     * old file at `path` is unchanged. */
    template <class Pairs>
    static std::uint64_t build(const std::string &path, Pairs &&pairs, const BuildOptions &options = {},
                               Error *error = nullptr)
    {
        using Source = Feed<std::remove_reference_t<Pairs>>;
        detail::BuildContext context(options);
        spt_build_options given = context.options();
        Source feed(pairs);
        std::uint64_t built = 0;
        spt_status status = spt_dict_build(path.c_str(), &given, &Source::called, &feed, &built);
        feed.thrown.rethrow();
        context.progress.thrown.rethrow();
        detail::succeeded(status, error);
        return built;
    }
    static std::uint64_t build(const std::string &path, std::initializer_list<Pair> pairs,
                               const BuildOptions &options = {}, Error *error = nullptr)
    {
        return build<std::initializer_list<Pair> &>(path, pairs, options, error);
    }

    /** Writes the pairs of the dictionary `old` to `path` with another index: see spt_dict_reindex. */
    static std::uint64_t reindex(const std::string &old, const std::string &path, const BuildOptions &options = {},
                                 Error *error = nullptr)
    {
        detail::BuildContext context(options);
        spt_build_options given = context.options();
        std::uint64_t pairs = 0;
        spt_status status = spt_dict_reindex(old.c_str(), path.c_str(), &given, &pairs);
        context.progress.thrown.rethrow();
        detail::succeeded(status, error);
        return pairs;
    }

    /** Begins a build. Errors of this and the next functions: those of spt_dict_build. */
    [[nodiscard]] static DictionaryBuilder start(const std::string &path, const BuildOptions &options = {},
                                                 Error *error = nullptr)
    {
        DictionaryBuilder builder;
        builder.context_ = std::make_unique<detail::BuildContext>(options);
        spt_build_options given = builder.context_->options();
        spt_build *build = nullptr;
        spt_status status = spt_build_start(path.c_str(), &given, &build);
        builder.build_.reset(build);
        builder.result(status, error);
        return builder;
    }

    /** Adds a pair. */
    void push(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        result(spt_build_push(build_.get(), key.data(), key.size(), value.data(), value.size()), error);
    }

    /** Adds a pair with its place in the source, for messages. */
    void push_at(std::string_view key, std::string_view value, std::uint64_t place, Error *error = nullptr)
    {
        result(spt_build_push_at(build_.get(), key.data(), key.size(), value.data(), value.size(), place), error);
    }

    /** What an earlier build with the same identity has saved. */
    struct Resumed {
        std::uint64_t pairs = 0; /* pairs of the source to skip */
        bool all = false;        /* whether they are the whole source */
        std::uint64_t discarded = 0;
    };
    Resumed resumed(Error *error = nullptr) const
    {
        Resumed resumed;
        int all = 0;
        detail::succeeded(spt_build_resumed(build_.get(), &resumed.pairs, &all, &resumed.discarded), error);
        resumed.all = all != 0;
        return resumed;
    }

    /** Saves the pairs so far, with BuildOptions::resume. */
    void save(Error *error = nullptr) { result(spt_build_save(build_.get()), error); }

    /** Sorts, writes and publishes the dictionary, and returns the number of its pairs. The builder is closed. */
    std::uint64_t finish(Error *error = nullptr)
    {
        std::uint64_t pairs = 0;
        result(spt_build_finish(build_.get(), &pairs), error);
        return pairs;
    }

    /** Closes the builder without a dictionary. */
    void discard() noexcept { *this = DictionaryBuilder(); }

private:
    /* What spt_dict_build reads: copies of one pair at a time, since an iterator's may be gone when it moves on. */
    template <class Pairs>
    struct Feed {
        explicit Feed(Pairs &pairs) : at(std::begin(pairs)), end(std::end(pairs)) {}

        decltype(std::begin(std::declval<Pairs &>())) at;
        decltype(std::end(std::declval<Pairs &>())) end;
        bool started = false;
        std::string key;
        std::string value;
        detail::Thrown thrown;

        static int called(void *context, spt_bytes *key, spt_bytes *value) noexcept
        {
            Feed &self = *static_cast<Feed *>(context);
            return self.thrown.guard(2, [&] {
                if (std::exchange(self.started, true))
                    ++self.at;
                if (self.at == self.end)
                    return 1;
                const auto &[next_key, next_value] = *self.at;
                self.key.assign(std::string_view(next_key));
                self.value.assign(std::string_view(next_value));
                *key = detail::bytes(self.key);
                *value = detail::bytes(self.value);
                return 0;
            });
        }
    };

    void result(spt_status status, Error *error)
    {
        if (context_)
            context_->progress.thrown.rethrow();
        detail::succeeded(status, error);
    }

    std::unique_ptr<detail::BuildContext> context_;
    detail::Unique<spt_build, spt_build_discard> build_;
};

/** Changes to a dictionary, made in one pass: see spt_dict_update_start. Destroying it, or `discard`, makes none. */
class DictionaryUpdate {
public:
    /** One that is closed. */
    DictionaryUpdate() noexcept = default;
    DictionaryUpdate(DictionaryUpdate &&) noexcept = default;
    DictionaryUpdate &operator=(DictionaryUpdate &&other) noexcept
    {
        update_ = std::move(other.update_); /* the old handle is closed before its callbacks are destroyed */
        context_ = std::move(other.context_);
        return *this;
    }
    DictionaryUpdate(const DictionaryUpdate &) = delete;
    DictionaryUpdate &operator=(const DictionaryUpdate &) = delete;
    ~DictionaryUpdate() = default;

    /** Begins an update of the dictionary `old` to one at `path`, which may be the same. Errors of this and the next
     * functions: those of Dictionary::open and DictionaryBuilder::build. */
    [[nodiscard]] static DictionaryUpdate start(const std::string &old, const std::string &path,
                                                const BuildOptions &options = {}, Error *error = nullptr)
    {
        DictionaryUpdate update;
        update.context_ = std::make_unique<detail::BuildContext>(options);
        spt_build_options given = update.context_->options();
        spt_dict_update *started = nullptr;
        spt_status status = spt_dict_update_start(old.c_str(), path.c_str(), &given, &started);
        update.update_.reset(started);
        update.result(status, error);
        return update;
    }

    /** Stores a value. */
    void put(std::string_view key, std::string_view value, Error *error = nullptr)
    {
        result(spt_dict_update_put(update_.get(), key.data(), key.size(), value.data(), value.size()), error);
    }

    /** Removes a key, which may be absent. */
    void remove(std::string_view key, Error *error = nullptr)
    {
        result(spt_dict_update_remove(update_.get(), key.data(), key.size()), error);
    }

    /** Makes a change of a diff. */
    void apply(const Change &change, Error *error = nullptr)
    {
        spt_change given = {static_cast<int>(change.kind), detail::bytes(change.key),
                            detail::bytes(change.old_value.value_or("")), detail::bytes(change.value.value_or(""))};
        result(spt_dict_update_apply(update_.get(), &given), error);
    }

    /** Writes and publishes the new dictionary, and returns the number of its pairs. The update is closed. */
    std::uint64_t finish(Error *error = nullptr)
    {
        std::uint64_t pairs = 0;
        result(spt_dict_update_finish(update_.get(), &pairs), error);
        return pairs;
    }

    /** Closes the update without changes. */
    void discard() noexcept { *this = DictionaryUpdate(); }

private:
    void result(spt_status status, Error *error)
    {
        if (context_)
            context_->progress.thrown.rethrow();
        detail::succeeded(status, error);
    }

    std::unique_ptr<detail::BuildContext> context_;
    detail::Unique<spt_dict_update, spt_dict_update_discard> update_;
};

/** Copies the table in the file `from`, with every write that has returned, to `path`: see spt_backup_file. */
inline void backup_file(const std::string &from, const std::string &path, const Options &options = {},
                        bool overwrite = false, const Progress &progress = {}, Error *error = nullptr)
{
    detail::ProgressCallback callback(progress);
    spt_options given = detail::options_of(options);
    spt_status status = spt_backup_file(from.c_str(), path.c_str(), &given, overwrite ? SPT_OVERWRITE : 0,
                                        callback.call(), callback.context());
    callback.thrown.rethrow();
    detail::succeeded(status, error);
}

/** Replaces the table at `path` by the backup `from`, after a check of it: see spt_restore. */
inline void restore(const std::string &from, const std::string &path, const Options &options = {},
                    bool overwrite = false, const Progress &progress = {}, Error *error = nullptr)
{
    detail::ProgressCallback callback(progress);
    spt_options given = detail::options_of(options);
    spt_status status = spt_restore(from.c_str(), path.c_str(), &given, overwrite ? SPT_OVERWRITE : 0, callback.call(),
                                    callback.context());
    callback.thrown.rethrow();
    detail::succeeded(status, error);
}

/** Figures that another process publishes of a table: see spt_read_published. */
struct Published {
    Counters counters = {};
    spt_publisher publisher = {};
};

/** The figures last published for the table at `path`; std::nullopt if there are none. Errors: corrupt, other_version,
 * io. */
inline std::optional<Published> read_published(const std::string &path, Error *error = nullptr)
{
    Published published;
    spt_status status = spt_read_published(path.c_str(), &published.counters, sizeof published.counters,
                                           &published.publisher, sizeof published.publisher);
    return detail::succeeded(status, error, SPT_NOT_FOUND) ? std::optional(published) : std::nullopt;
}

/** Calls `function(const spt_found &)`, which returns false to stop, with what is left of the damaged table at `path`:
 * see spt_salvage. Returns the report, also if it was stopped. */
template <class Function>
SalvageReport salvage(const std::string &path, Function &&function, const Options &options = {},
                      Error *error = nullptr)
{
    using Salvager = detail::Callback<std::reference_wrapper<std::remove_reference_t<Function>>>;
    Salvager salvager(std::ref(function));
    spt_salvage_fn called = [](void *context, const spt_found *found) noexcept {
        Salvager &self = Salvager::of(context);
        return self.thrown.guard(1, [&] { return self.function(*found) ? 0 : 1; });
    };
    SalvageReport report = {};
    spt_options given = detail::options_of(options);
    spt_status status = spt_salvage(path.c_str(), &given, called, salvager.context(), &report, sizeof report);
    salvager.thrown.rethrow();
    detail::succeeded(status, error);
    return report;
}

/** The hash of a key by the function of that name: see spt_hash. Errors: invalid_argument. */
inline std::uint64_t hash(const std::string &name, std::uint64_t seed, std::string_view key, Error *error = nullptr)
{
    std::uint64_t hash = 0;
    detail::succeeded(spt_hash(detail::name(name), seed, key.data(), key.size(), &hash), error);
    return hash;
}

/** The names of the hash functions. */
inline std::vector<std::string> hash_names()
{
    std::vector<std::string> names;
    while (const char *name = spt_hash_name(names.size()))
        names.emplace_back(name);
    return names;
}

/** The version of the library that the program runs with: see spt_version. */
inline std::uint32_t version() noexcept
{
    return spt_version();
}

} // namespace splitpoint

#endif

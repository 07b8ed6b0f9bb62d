// tkrzw, Kyoto Cabinet's successor: HashDBM (tkrzw-hash, in a file) and TinyDBM (tkrzw-tiny, in memory), both chains
// from a fixed array of buckets.
//
// Settings: "default"; "sized": 2 buckets a pair; for the file also "sized-appending": UPDATE_APPENDING, which
// removes large records faster, but scans slower and grows with each change, so updating in place (the default) is the
// best for most loads. All with the library's default file, MemoryMapParallelFile (the Atomic one came out no faster).
// Values are seen by record processors: in memory a get is the value in its place; from the file it is one copy, into a
// buffer that is reused. Append is the library's.
#include <tkrzw_dbm_hash.h>
#include <tkrzw_dbm_tiny.h>

#include <memory>

#include "adapter.hh"

namespace {

// Keeps the value that it sees, where needed a copy of it.
class Reader final : public tkrzw::DBM::RecordProcessor {
  public:
    Reader(scratch *copy) : copy_(copy) {}
    int found = 0;
    const char *value = nullptr;
    size_t value_len = 0;

    std::string_view ProcessFull(std::string_view, std::string_view seen) override {
        value = copy_ ? scratch_join(copy_, seen.data(), seen.size(), "", 0) : seen.data();
        value_len = seen.size();
        found = value ? 1 : -1;
        return NOOP;
    }

  private:
    scratch *copy_;
};

using Each = int (*)(void *, const void *, size_t, const void *, size_t);

// Passes each pair on. Only an exception could end the scan, so after an answer it skips the rest.
class Walker final : public tkrzw::DBM::RecordProcessor {
  public:
    Walker(bool with_values, Each each, void *context) : with_values_(with_values), each_(each), context_(context) {}
    int result = 0;

    std::string_view ProcessFull(std::string_view key, std::string_view value) override {
        if (!result)
            result = with_values_ ? each_(context_, key.data(), key.size(), value.data(), value.size())
                                  : each_(context_, key.data(), key.size(), nullptr, 0);
        return NOOP;
    }

  private:
    bool with_values_;
    Each each_;
    void *context_;
};

struct Store {
    std::unique_ptr<tkrzw::DBM> dbm;
    bool in_file;
    scratch value{};

    ~Store() { free(value.bytes); }
};

Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

std::string_view view(const void *bytes, size_t len) { return {static_cast<const char *>(bytes), len}; }

// 0, or the error of `status`.
int outcome(const char *what, const tkrzw::Status &status) {
    if (status == tkrzw::Status::SUCCESS)
        return 0;
    return peer_fail("tkrzw: %s: %s", what, std::string(status).c_str());
}

const char *version() { return tkrzw::PACKAGE_VERSION; }

tkrzw::Status open_hash_dbm(Store &store, const peer_options *options) {
    auto dbm = std::make_unique<tkrzw::HashDBM>();
    tkrzw::HashDBM::TuningParameters tuning;
    if (!peer_is_set(options, "default"))
        tuning.num_buckets = static_cast<int64_t>(2 * options->expected_len);
    if (peer_is_set(options, "sized-appending"))
        tuning.update_mode = tkrzw::HashDBM::UPDATE_APPENDING;
    int32_t how = options->create ? tkrzw::File::OPEN_TRUNCATE : tkrzw::File::OPEN_NO_CREATE;
    tkrzw::Status status = dbm->OpenAdvanced(options->path, true, how, tuning);
    store.dbm = std::move(dbm);
    return status;
}

int open_hash(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        auto store = std::make_unique<Store>();
        store->in_file = true;
        if (outcome("open", open_hash_dbm(*store, options)))
            return -1;
        *opened = store.release();
        return 0;
    });
}

int open_tiny(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        auto store = std::make_unique<Store>();
        store->in_file = false;
        int64_t buckets = peer_is_set(options, "sized") ? static_cast<int64_t>(2 * options->expected_len) : -1;
        store->dbm = std::make_unique<tkrzw::TinyDBM>(buckets);
        *opened = store.release();
        return 0;
    });
}

int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded(
        [&] { return outcome("set", store_of(opened).dbm->Set(view(key, key_len), view(value, value_len))); });
}

int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len) {
    return guarded(
        [&] { return outcome("append", store_of(opened).dbm->Append(view(key, key_len), view(tail, tail_len))); });
}

int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        Reader reader(store.in_file ? &store.value : nullptr);
        if (outcome("get", store.dbm->Process(view(key, key_len), &reader, false)))
            return -1;
        *value = reader.value;
        *value_len = reader.value_len;
        return reader.found;
    });
}

int remove_key(void *opened, const void *key, size_t key_len) {
    return guarded([&] {
        tkrzw::Status status = store_of(opened).dbm->Remove(view(key, key_len));
        if (status == tkrzw::Status::NOT_FOUND_ERROR)
            return 0;
        return outcome("remove", status) ? -1 : 1;
    });
}

int scan(void *opened, int with_values, Each each, void *context) {
    return guarded([&] {
        Walker walker(with_values, each, context);
        int status = outcome("scan", store_of(opened).dbm->ProcessEach(&walker, false));
        return walker.result ? walker.result : status;
    });
}

int sync_store(void *opened) {
    return guarded([&] {
        Store &store = store_of(opened);
        return store.in_file ? outcome("synchronize", store.dbm->Synchronize(true)) : 0;
    });
}

int close_store(void *opened) {
    return guarded([&] {
        std::unique_ptr<Store> store(&store_of(opened));
        return store->in_file ? outcome("close", store->dbm->Close()) : 0;
    });
}

const char *const hash_settings[] = {"default", "sized", "sized-appending", nullptr};
const char *const tiny_settings[] = {"default", "sized", nullptr};

}  // namespace

extern "C" const peer peer_tkrzw_hash = {
    "tkrzw-hash", hash_settings, 0, 1, version, open_hash, put, append, get, remove_key, scan, sync_store, nullptr,
    close_store, peer_error, 0,
};

extern "C" const peer peer_tkrzw_tiny = {
    "tkrzw-tiny", tiny_settings, 1, 0, version, open_tiny, put, append, get, remove_key, scan, sync_store, nullptr,
    close_store, peer_error, 0,
};

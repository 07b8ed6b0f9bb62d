// Kyoto Cabinet: HashDB (kyoto-hash: chains from a fixed array of buckets, in a file), and in memory StashDB
// (kyoto-stash: chains of packed records) and ProtoHashDB (kyoto-proto: std::unordered_map behind its interface).
//
// Settings: "default"; "sized", for the first two: 2 buckets a pair, and for the file TLINEAR (a chain, not a tree, in
// a bucket) and a map larger than the file, which Kyoto's documentation recommends. Bucket arrays do not grow.
// Values are seen by visitors: in memory a get is the value in its place; from the file it is one copy, into a buffer
// that is reused. Append is a visitor that joins in that buffer (Kyoto's own append allocates one each time).
#include <kchashdb.h>
#include <kcprotodb.h>
#include <kcstashdb.h>

#include <memory>

#include "adapter.hh"

namespace {

namespace kc = kyotocabinet;

// Keeps the value that it visits, where needed a copy of it.
class Reader : public kc::DB::Visitor {
  public:
    Reader(scratch *copy) : copy_(copy) {}
    int found = 0;
    const char *value = nullptr;
    size_t value_len = 0;

  private:
    const char *visit_full(const char *, size_t, const char *vbuf, size_t vsiz, size_t *) override {
        value = copy_ ? scratch_join(copy_, vbuf, vsiz, "", 0) : vbuf;
        value_len = vsiz;
        found = value ? 1 : -1;
        return NOP;
    }
    scratch *copy_;
};

// Appends a tail to the value that it visits.
class Appender : public kc::DB::Visitor {
  public:
    Appender(scratch *joined, const char *tail, size_t tail_len) : joined_(joined), tail_(tail), tail_len_(tail_len) {}
    int result = 0;

  private:
    const char *visit_full(const char *, size_t, const char *vbuf, size_t vsiz, size_t *sp) override {
        const char *joined = scratch_join(joined_, vbuf, vsiz, tail_, tail_len_);
        if (!joined) {
            result = -1;
            return NOP;
        }
        *sp = vsiz + tail_len_;
        return joined;
    }
    const char *visit_empty(const char *, size_t, size_t *sp) override {
        *sp = tail_len_;
        return tail_;
    }
    scratch *joined_;
    const char *tail_;
    size_t tail_len_;
};

using Each = int (*)(void *, const void *, size_t, const void *, size_t);

// Passes each pair on; ends the scan as a progress checker.
class Walker : public kc::DB::Visitor, public kc::BasicDB::ProgressChecker {
  public:
    Walker(bool with_values, Each each, void *context) : with_values_(with_values), each_(each), context_(context) {}
    int result = 0;

  private:
    const char *visit_full(const char *kbuf, size_t ksiz, const char *vbuf, size_t vsiz, size_t *) override {
        if (!result)
            result = with_values_ ? each_(context_, kbuf, ksiz, vbuf, vsiz) : each_(context_, kbuf, ksiz, nullptr, 0);
        return NOP;
    }
    bool check(const char *, const char *, int64_t, int64_t) override { return result == 0; }
    bool with_values_;
    Each each_;
    void *context_;
};

struct Store {
    std::unique_ptr<kc::BasicDB> db;
    bool in_file;
    scratch value{};

    ~Store() { free(value.bytes); }
};

Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

int failed(kc::BasicDB &db, const char *what) {
    kc::BasicDB::Error error = db.error();
    return peer_fail("Kyoto Cabinet: %s: %s: %s", what, error.name(), error.message());
}

const char *version() { return kc::VERSION; }

// Room for the records (at most 24 bytes of header and padding), the fragments that appends leave, and the buckets.
int64_t map_bytes(const peer_options *options) {
    return static_cast<int64_t>(2 * options->payload_bytes + 64 * options->expected_len + (64 << 20));
}

std::unique_ptr<kc::BasicDB> hash_db(const peer_options *options) {
    auto db = std::make_unique<kc::HashDB>();
    if (peer_is_set(options, "sized")) {
        db->tune_options(kc::HashDB::TLINEAR);
        db->tune_buckets(static_cast<int64_t>(2 * options->expected_len));
        db->tune_map(map_bytes(options));
    }
    return db;
}

std::unique_ptr<kc::BasicDB> stash_db(const peer_options *options) {
    auto db = std::make_unique<kc::StashDB>();
    if (peer_is_set(options, "sized"))
        db->tune_buckets(static_cast<int64_t>(2 * options->expected_len));
    return db;
}

std::unique_ptr<kc::BasicDB> proto_db(const peer_options *) { return std::make_unique<kc::ProtoHashDB>(); }

template <std::unique_ptr<kc::BasicDB> (*make)(const peer_options *)>
int open_store(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        auto store = std::make_unique<Store>();
        store->db = make(options);
        store->in_file = options->path != nullptr;
        uint32_t mode = kc::BasicDB::OWRITER | (options->create ? kc::BasicDB::OCREATE | kc::BasicDB::OTRUNCATE : 0);
        if (!store->db->open(store->in_file ? options->path : ":", mode))
            return failed(*store->db, "open");
        *opened = store.release();
        return 0;
    });
}

int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded([&] {
        kc::BasicDB &db = *store_of(opened).db;
        return db.set(static_cast<const char *>(key), key_len, static_cast<const char *>(value), value_len)
                   ? 0
                   : failed(db, "set");
    });
}

int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        Appender appender(&store.value, static_cast<const char *>(tail), tail_len);
        if (!store.db->accept(static_cast<const char *>(key), key_len, &appender, true))
            return failed(*store.db, "append");
        return appender.result;
    });
}

int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        Reader reader(store.in_file ? &store.value : nullptr);
        if (!store.db->accept(static_cast<const char *>(key), key_len, &reader, false))
            return failed(*store.db, "get");
        *value = reader.value;
        *value_len = reader.value_len;
        return reader.found;
    });
}

int remove_key(void *opened, const void *key, size_t key_len) {
    return guarded([&] {
        kc::BasicDB &db = *store_of(opened).db;
        if (db.remove(static_cast<const char *>(key), key_len))
            return 1;
        return db.error() == kc::BasicDB::Error::NOREC ? 0 : failed(db, "remove");
    });
}

int scan(void *opened, int with_values, Each each, void *context) {
    return guarded([&] {
        kc::BasicDB &db = *store_of(opened).db;
        Walker walker(with_values, each, context);
        bool done = db.iterate(&walker, false, &walker);
        return walker.result || done ? walker.result : failed(db, "iterate");
    });
}

int sync_store(void *opened) {
    return guarded([&] {
        Store &store = store_of(opened);
        return !store.in_file || store.db->synchronize(true) ? 0 : failed(*store.db, "synchronize");
    });
}

int close_store(void *opened) {
    return guarded([&] {
        std::unique_ptr<Store> store(&store_of(opened));
        return store->db->close() ? 0 : failed(*store->db, "close");
    });
}

const char *const settings[] = {"default", "sized", nullptr};
const char *const proto_settings[] = {"default", nullptr};

}  // namespace

extern "C" const peer peer_kyoto_hash = {
    "kyoto-hash", settings, 0, 1, version, open_store<hash_db>, put, append, get, remove_key, scan, sync_store, nullptr,
    close_store, peer_error, 0,
};

extern "C" const peer peer_kyoto_stash = {
    "kyoto-stash", settings, 1, 0, version, open_store<stash_db>, put, append, get, remove_key, scan, sync_store,
    nullptr, close_store, peer_error, 0,
};

extern "C" const peer peer_kyoto_proto = {
    "kyoto-proto", proto_settings, 1, 0, version, open_store<proto_db>, put, append, get, remove_key, scan, sync_store,
    nullptr, close_store, peer_error, 0,
};

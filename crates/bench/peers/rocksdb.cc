// RocksDB: a log-structured merge tree in a directory, with background threads.
//
// Settings: "default" (its default buffers), "best" (write buffers of a quarter of the payload, up to 512 MiB each,
// with a Bloom filter of their own and for one writer; a block cache of twice the payload, up to 8 GiB; hash index
// within blocks; two background jobs). Both without compression, with a Bloom filter of 10 bits per key, and with the
// write-ahead log unsynced: each operation is in the log, sync is SyncWAL.
// A get is a PinnableSlice, uncopied where the block is in the cache. Append is a merge operator: the pieces of a value
// are joined by reads and compactions, so reads after appends are slower. A remove reads first, because it returns
// whether the key was present.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <memory>

#include "rocksdb.hh"

namespace {

class AppendOperator final : public rocksdb::AssociativeMergeOperator {
    bool Merge(const Slice &, const Slice *existing, const Slice &tail, std::string *joined,
               rocksdb::Logger *) const override {
        if (existing) {
            joined->reserve(existing->size() + tail.size());
            joined->assign(existing->data(), existing->size());
        } else {
            joined->clear();
        }
        joined->append(tail.data(), tail.size());
        return true;
    }
    const char *Name() const override { return "append"; }
};

struct Store {
    std::unique_ptr<rocksdb::DB> db;
    rocksdb::PinnableSlice value;
};

Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

const char *version() {
    static const std::string text = rocksdb::GetRocksVersionAsString();
    return text.c_str();
}

rocksdb::Options tuned(const peer_options *options) {
    rocksdb::Options tuned;
    rocksdb::BlockBasedTableOptions table;
    tuned.create_if_missing = options->create;
    tuned.compression = rocksdb::kNoCompression;
    tuned.merge_operator = std::make_shared<AppendOperator>();
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    if (peer_is_set(options, "best")) {
        uint64_t payload_bytes = std::max<uint64_t>(options->payload_bytes, 64 << 20);
        tuned.write_buffer_size = std::min<uint64_t>(payload_bytes / 4, 512 << 20);
        tuned.max_write_buffer_number = 4;
        tuned.memtable_whole_key_filtering = true;
        tuned.memtable_prefix_bloom_size_ratio = 0.05;
        tuned.allow_concurrent_memtable_write = false;
        tuned.IncreaseParallelism(2);
        table.block_cache = rocksdb::NewLRUCache(std::min<uint64_t>(2 * payload_bytes, uint64_t{8} << 30));
        table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    }
    tuned.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return tuned;
}

int open_store(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        rocksdb::Options how = tuned(options);
        if (options->create && outcome("replace", rocksdb::DestroyDB(options->path, how)))
            return -1;
        rocksdb::DB *db = nullptr;
        if (outcome("open", rocksdb::DB::Open(how, options->path, &db)))
            return -1;
        auto store = std::make_unique<Store>();
        store->db.reset(db);
        *opened = store.release();
        return 0;
    });
}

int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded([&] {
        return outcome("put", store_of(opened).db->Put({}, slice(key, key_len), slice(value, value_len)));
    });
}

int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len) {
    return guarded([&] {
        return outcome("merge", store_of(opened).db->Merge({}, slice(key, key_len), slice(tail, tail_len)));
    });
}

int find(Store &store, const Slice &key) {
    store.value.Reset();
    Status status = store.db->Get({}, store.db->DefaultColumnFamily(), key, &store.value);
    if (status.IsNotFound())
        return 0;
    return outcome("get", status) ? -1 : 1;
}

int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        int found = find(store, slice(key, key_len));
        *value = store.value.data();
        *value_len = store.value.size();
        return found;
    });
}

int remove_key(void *opened, const void *key, size_t key_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        int found = find(store, slice(key, key_len));
        if (found <= 0)
            return found;
        return outcome("delete", store.db->Delete({}, slice(key, key_len))) ? -1 : 1;
    });
}

int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
         void *context) {
    return guarded([&] {
        std::unique_ptr<rocksdb::Iterator> at(store_of(opened).db->NewIterator({}));
        for (at->SeekToFirst(); at->Valid(); at->Next()) {
            Slice key = at->key(), value = with_values ? at->value() : Slice(nullptr, 0);
            if (int result = each(context, key.data(), key.size(), value.data(), value.size()))
                return result;
        }
        return outcome("scan", at->status());
    });
}

int sync_store(void *opened) {
    return guarded([&] { return outcome("sync", store_of(opened).db->SyncWAL()); });
}

int close_store(void *opened) {
    return guarded([&] {
        std::unique_ptr<Store> store(&store_of(opened));
        store->value.Reset();
        return outcome("close", store->db->Close());
    });
}

const char *const settings[] = {"default", "best", nullptr};

}  // namespace

extern "C" const peer peer_rocksdb = {
    "rocksdb", settings, 0, 1, version, open_store, put, append, get, remove_key, scan, sync_store, nullptr,
    close_store, peer_error, 0,
};

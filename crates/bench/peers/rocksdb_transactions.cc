// RocksDB as a store with transactions, for src/transactions/rocksdb.rs, which has the same declarations.
//
// Settings: a Bloom filter of 10 bits per key and one background job per processor, as in redb's comparison; the block
// cache that the caller asks for; no compression; all else by default. A transaction is a WriteBatch, which is in the
// write-ahead log when it is committed, and synced if it is to be durable. Reads take no snapshot. Compaction rewrites
// all levels, the last one too.
//
// One thread adds and commits, any number get. Returns as in peer.h.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "rocksdb.hh"

namespace {

struct Store {
    std::unique_ptr<rocksdb::DB> db;
    rocksdb::WriteBatch batch;
};

Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

}  // namespace

extern "C" {

int transactions_rocksdb_open(const char *path, size_t cache_bytes, int jobs, void **opened) {
    return guarded([&] {
        rocksdb::BlockBasedTableOptions table;
        table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
        table.block_cache = rocksdb::NewLRUCache(cache_bytes);
        rocksdb::Options options;
        options.create_if_missing = true;
        options.error_if_exists = true;
        options.compression = rocksdb::kNoCompression;
        options.IncreaseParallelism(jobs);
        options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
        rocksdb::DB *db = nullptr;
        if (outcome("open", rocksdb::DB::Open(options, path, &db)))
            return -1;
        auto store = std::make_unique<Store>();
        store->db.reset(db);
        *opened = store.release();
        return 0;
    });
}

// Adds a pair to the transaction, or with a NULL value the removal of a key.
int transactions_rocksdb_add(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded([&] {
        rocksdb::WriteBatch &batch = store_of(opened).batch;
        if (!value)
            return outcome("delete", batch.Delete(slice(key, key_len)));
        return outcome("put", batch.Put(slice(key, key_len), slice(value, value_len)));
    });
}

int transactions_rocksdb_commit(void *opened, int durable) {
    return guarded([&] {
        Store &store = store_of(opened);
        rocksdb::WriteOptions options;
        options.sync = durable;
        Status written = store.db->Write(options, &store.batch);
        store.batch = rocksdb::WriteBatch();
        return outcome("commit", written);
    });
}

// Copies up to `capacity` bytes of the value. 1 found, 0 absent.
int transactions_rocksdb_get(void *opened, const void *key, size_t key_len, void *value, size_t capacity,
                             size_t *value_len) {
    return guarded([&] {
        rocksdb::DB &db = *store_of(opened).db;
        rocksdb::PinnableSlice found;
        Status status = db.Get({}, db.DefaultColumnFamily(), slice(key, key_len), &found);
        if (status.IsNotFound())
            return 0;
        if (outcome("get", status))
            return -1;
        *value_len = found.size();
        std::memcpy(value, found.data(), std::min(found.size(), capacity));
        return 1;
    });
}

int transactions_rocksdb_compact(void *opened) {
    return guarded([&] {
        rocksdb::CompactRangeOptions options;
        options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
        return outcome("compact", store_of(opened).db->CompactRange(options, nullptr, nullptr));
    });
}

int transactions_rocksdb_close(void *opened) {
    return guarded([&] {
        std::unique_ptr<Store> store(&store_of(opened));
        return outcome("close", store->db->Close());
    });
}

}  // extern "C"

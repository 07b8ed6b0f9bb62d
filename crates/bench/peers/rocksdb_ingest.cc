// RocksDB loaded in the order of its keys: SstFileWriter makes one file, which the database then ingests.
//
// Settings: "default" (its options, but without compression and with a Bloom filter of 10 bits per key, without which an
// absent key costs a read); "best" (also a hash index within blocks, and a block cache of 2 GiB instead of 8 MiB). The
// database is opened for reading alone afterwards.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include <cstring>
#include <memory>

#include "rocksdb.hh"

namespace {

const char *version() {
    static const std::string text = rocksdb::GetRocksVersionAsString();
    return text.c_str();
}

rocksdb::Options tuned(const peer_options *options) {
    rocksdb::Options tuned;
    rocksdb::BlockBasedTableOptions table;
    tuned.create_if_missing = true;
    tuned.compression = rocksdb::kNoCompression;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    if (peer_has_word(options, "best", nullptr)) {
        table.block_cache = rocksdb::NewLRUCache(uint64_t{2} << 30);
        table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    }
    tuned.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return tuned;
}

struct Build {
    std::string path;
    rocksdb::Options options;
    std::unique_ptr<rocksdb::SstFileWriter> writer;
};

int begin(const peer_options *options, void **begun) {
    *begun = nullptr;
    return guarded([&] {
        auto build = std::make_unique<Build>();
        build->path = options->path;
        build->options = tuned(options);
        std::unique_ptr<rocksdb::DB> db;
        rocksdb::DB *opened = nullptr;
        if (int failed = outcome("create", rocksdb::DB::Open(build->options, build->path, &opened)))
            return failed;
        db.reset(opened);
        build->writer = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), build->options);
        if (int failed = outcome("create a file", build->writer->Open(build->path + "/sorted")))
            return failed;
        *begun = build.release();
        return 0;
    });
}

int add(void *begun, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded([&] {
        auto &build = *static_cast<Build *>(begun);
        return outcome("put", build.writer->Put(slice(key, key_len), slice(value, value_len)));
    });
}

// The writer syncs the finished file; ingesting it syncs the database's list of files.
int finish(void *begun) {
    return guarded([&] {
        std::unique_ptr<Build> build(static_cast<Build *>(begun));
        if (int failed = outcome("finish", build->writer->Finish()))
            return failed;
        rocksdb::DB *opened = nullptr;
        if (int failed = outcome("open", rocksdb::DB::Open(build->options, build->path, &opened)))
            return failed;
        std::unique_ptr<rocksdb::DB> db(opened);
        rocksdb::IngestExternalFileOptions take;
        take.move_files = true;
        return outcome("ingest", db->IngestExternalFile({build->path + "/sorted"}, take));
    });
}

void abandon(void *begun) { delete static_cast<Build *>(begun); }

int open_store(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        rocksdb::DB *db = nullptr;
        if (int failed = outcome("open", rocksdb::DB::OpenForReadOnly(tuned(options), options->path, &db)))
            return failed;
        *opened = db;
        return 0;
    });
}

struct Reader {
    rocksdb::DB *db;
    rocksdb::PinnableSlice value;
};

int reader(void *opened, void **made) {
    *made = nullptr;
    return guarded([&] {
        *made = new Reader{static_cast<rocksdb::DB *>(opened), {}};
        return 0;
    });
}

int get(void *made, const void *key, size_t key_len, const void **value, size_t *value_len) {
    return guarded([&] {
        auto &reader = *static_cast<Reader *>(made);
        reader.value.Reset();
        Status status = reader.db->Get({}, reader.db->DefaultColumnFamily(), slice(key, key_len), &reader.value);
        if (status.IsNotFound())
            return 0;
        *value = reader.value.data();
        *value_len = reader.value.size();
        return status.ok() ? 1 : outcome("get", status);
    });
}

void end_reader(void *made) { delete static_cast<Reader *>(made); }

int close_store(void *opened) {
    return guarded([&] {
        delete static_cast<rocksdb::DB *>(opened);
        return 0;
    });
}

const char *const settings[] = {"default", "best", nullptr};

}  // namespace

extern "C" const dictionary_peer peer_rocksdb_ingest;
extern "C" const dictionary_peer peer_rocksdb_ingest = {
    "rocksdb-ingest", settings, 1, version, begin, add, finish, abandon, open_store, reader, get, end_reader,
    peer_no_figure, close_store, peer_error,
};

// Shared by the adapters of RocksDB: bytes as its slices, its errors as ours.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include "adapter.hh"

using rocksdb::Slice;
using rocksdb::Status;

inline Slice slice(const void *bytes, size_t len) { return {static_cast<const char *>(bytes), len}; }

inline int outcome(const char *what, const Status &status) {
    return status.ok() ? 0 : peer_fail("RocksDB: %s: %s", what, status.ToString().c_str());
}

// absl::flat_hash_map<uint64_t, std::string>: absl_map.cc with keys that are known to be numbers, as a program that has
// only such keys would declare it. No allocation for a key, and no comparison of strings.
//
// The rest: map.hh.
#include <absl/container/flat_hash_map.h>

#include <cstring>
#include <stdexcept>

#include "map.hh"

namespace {

struct Store {
    static constexpr size_t key_bytes = sizeof(uint64_t);
    absl::flat_hash_map<uint64_t, std::string> pairs;

    uint64_t name(const void *bytes, size_t len) {
        if (len != key_bytes)
            throw std::invalid_argument("a key that is not 8 bytes long");
        uint64_t key;
        std::memcpy(&key, bytes, sizeof key);
        return key;
    }
};

const char *version() { return peer_version("%d.%d", ABSL_LTS_RELEASE_VERSION, ABSL_LTS_RELEASE_PATCH_LEVEL); }

}  // namespace

extern "C" const peer peer_absl_u64_map = MapPeer<Store>::named("absl-flat-hash-map-u64", version);

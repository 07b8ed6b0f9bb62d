// absl::flat_hash_map<std::string, std::string>: open addressing, SIMD probes of one-byte fingerprints, in memory.
//
// Keys are looked up as absl::string_view, uncopied. The rest: map.hh.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>

#include "map.hh"

namespace {

struct Store {
    static constexpr size_t key_bytes = 0;
    absl::flat_hash_map<std::string, std::string> pairs;

    absl::string_view name(const void *bytes, size_t len) { return {static_cast<const char *>(bytes), len}; }
};

const char *version() { return peer_version("%d.%d", ABSL_LTS_RELEASE_VERSION, ABSL_LTS_RELEASE_PATCH_LEVEL); }

}  // namespace

extern "C" const peer peer_absl_map = MapPeer<Store>::named("absl-flat-hash-map", version);

// std::unordered_map<std::string, std::string>: separate chaining, one allocation a pair, in memory.
//
// Plain std::hash<std::string>, with which libstdc++ keeps the hash in the node. The key to look up is copied into one
// string that is reused: under that hash the map takes no string_view. The rest: map.hh.
#include <unordered_map>

#include "map.hh"

namespace {

struct Store {
    static constexpr size_t key_bytes = 0;
    std::unordered_map<std::string, std::string> pairs;
    std::string looked_up;

    const std::string &name(const void *bytes, size_t len) {
        return looked_up.assign(static_cast<const char *>(bytes), len);
    }
};

const char *version() { return peer_version("libstdc++ %d", _GLIBCXX_RELEASE); }

}  // namespace

extern "C" const peer peer_std_map = MapPeer<Store>::named("std-unordered-map", version);

// absl::flat_hash_map<std::string, std::string>: open addressing, SIMD probes of one-byte fingerprints, in memory.
//
// Settings: "default", "sized" (reserve). Keys are looked up as absl::string_view, uncopied. A get is the value in its
// place; append is std::string's.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>

#include <cstdio>
#include <memory>
#include <string>

#include "adapter.hh"

namespace {

using Store = absl::flat_hash_map<std::string, std::string>;

Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

absl::string_view view(const void *bytes, size_t len) { return {static_cast<const char *>(bytes), len}; }

const char *version() {
    static char text[32];
    std::snprintf(text, sizeof text, "%d.%d", ABSL_LTS_RELEASE_VERSION, ABSL_LTS_RELEASE_PATCH_LEVEL);
    return text;
}

int open_store(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        auto store = std::make_unique<Store>();
        if (peer_is_set(options, "sized"))
            store->reserve(options->expected_len);
        *opened = store.release();
        return 0;
    });
}

int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded([&] {
        store_of(opened)[view(key, key_len)].assign(static_cast<const char *>(value), value_len);
        return 0;
    });
}

int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len) {
    return guarded([&] {
        store_of(opened)[view(key, key_len)].append(static_cast<const char *>(tail), tail_len);
        return 0;
    });
}

int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len) {
    return guarded([&] {
        auto found = store_of(opened).find(view(key, key_len));
        if (found == store_of(opened).end())
            return 0;
        *value = found->second.data();
        *value_len = found->second.size();
        return 1;
    });
}

int remove_key(void *opened, const void *key, size_t key_len) {
    return guarded([&] { return static_cast<int>(store_of(opened).erase(view(key, key_len))); });
}

int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
         void *context) {
    return guarded([&] {
        int result = 0;
        for (const auto &[key, value] : store_of(opened)) {
            result = with_values ? each(context, key.data(), key.size(), value.data(), value.size())
                                 : each(context, key.data(), key.size(), nullptr, 0);
            if (result)
                break;
        }
        return result;
    });
}

int close_store(void *opened) {
    return guarded([&] {
        delete &store_of(opened);
        return 0;
    });
}

const char *const settings[] = {"default", "sized", nullptr};

}  // namespace

extern "C" const peer peer_absl_map = {
    "absl-flat-hash-map", settings, 1, 0, version, open_store, put, append, get, remove_key, scan, peer_nothing,
    nullptr, close_store, peer_error,
};

// std::unordered_map<std::string, std::string>: separate chaining, one allocation a pair, in memory.
//
// Settings: "default", "sized" (reserve). Plain std::hash<std::string>, with which libstdc++ keeps the hash in the
// node. The key to look up is copied into one string that is reused: under that hash the map takes no string_view. A
// get is the value in its place; append is std::string's.
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>

#include "adapter.hh"

namespace {

struct Store {
    std::unordered_map<std::string, std::string> pairs;
    std::string name;

    const std::string &named(const void *key, size_t len) { return name.assign(static_cast<const char *>(key), len); }
};

Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

const char *version() {
    static char text[32];
    std::snprintf(text, sizeof text, "libstdc++ %d", _GLIBCXX_RELEASE);
    return text;
}

int open_store(const peer_options *options, void **opened) {
    *opened = nullptr;
    return guarded([&] {
        auto store = std::make_unique<Store>();
        if (peer_is_set(options, "sized"))
            store->pairs.reserve(options->expected_len);
        *opened = store.release();
        return 0;
    });
}

int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        store.pairs[store.named(key, key_len)].assign(static_cast<const char *>(value), value_len);
        return 0;
    });
}

int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        store.pairs[store.named(key, key_len)].append(static_cast<const char *>(tail), tail_len);
        return 0;
    });
}

int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        auto found = store.pairs.find(store.named(key, key_len));
        if (found == store.pairs.end())
            return 0;
        *value = found->second.data();
        *value_len = found->second.size();
        return 1;
    });
}

int remove_key(void *opened, const void *key, size_t key_len) {
    return guarded([&] {
        Store &store = store_of(opened);
        return static_cast<int>(store.pairs.erase(store.named(key, key_len)));
    });
}

int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
         void *context) {
    return guarded([&] {
        int result = 0;
        for (const auto &[key, value] : store_of(opened).pairs) {
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

extern "C" const peer peer_std_map = {
    "std-unordered-map", settings, 1, 0, version, open_store, put, append, get, remove_key, scan, peer_nothing,
    nullptr, close_store, peer_error,
};

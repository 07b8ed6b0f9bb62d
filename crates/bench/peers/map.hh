// A map in memory as a peer: what absl_map.cc, absl_u64_map.cc and std_map.cc share.
//
// Settings: "default", "sized" (reserve). A get returns the value in place; append is std::string's. A `Store` has
// `pairs`, the map; `name(bytes, len)`, which makes the key to look up; and `key_bytes`, its only key length, or 0.
#pragma once

#include <memory>
#include <string>

#include "adapter.hh"

// The bytes of a key in the map.
inline const char *key_data(const std::string &key) { return key.data(); }
inline size_t key_size(const std::string &key) { return key.size(); }
inline const char *key_data(const uint64_t &key) { return reinterpret_cast<const char *>(&key); }
inline size_t key_size(const uint64_t &) { return sizeof(uint64_t); }

template <class Store>
struct MapPeer {
    static constexpr const char *const settings[] = {"default", "sized", nullptr};

    static Store &store_of(void *opened) { return *static_cast<Store *>(opened); }

    static int open(const peer_options *options, void **opened) {
        *opened = nullptr;
        return guarded([&] {
            auto store = std::make_unique<Store>();
            if (peer_is_set(options, "sized"))
                store->pairs.reserve(options->expected_len);
            *opened = store.release();
            return 0;
        });
    }

    static int put(void *opened, const void *key, size_t key_len, const void *value, size_t value_len) {
        return guarded([&] {
            Store &store = store_of(opened);
            store.pairs[store.name(key, key_len)].assign(static_cast<const char *>(value), value_len);
            return 0;
        });
    }

    static int append(void *opened, const void *key, size_t key_len, const void *tail, size_t tail_len) {
        return guarded([&] {
            Store &store = store_of(opened);
            store.pairs[store.name(key, key_len)].append(static_cast<const char *>(tail), tail_len);
            return 0;
        });
    }

    static int get(void *opened, const void *key, size_t key_len, const void **value, size_t *value_len) {
        return guarded([&] {
            Store &store = store_of(opened);
            auto found = store.pairs.find(store.name(key, key_len));
            if (found == store.pairs.end())
                return 0;
            *value = found->second.data();
            *value_len = found->second.size();
            return 1;
        });
    }

    static int remove(void *opened, const void *key, size_t key_len) {
        return guarded([&] {
            Store &store = store_of(opened);
            return static_cast<int>(store.pairs.erase(store.name(key, key_len)));
        });
    }

    static int scan(void *opened, int with_values, int (*each)(void *, const void *, size_t, const void *, size_t),
                    void *context) {
        return guarded([&] {
            int result = 0;
            for (const auto &[key, value] : store_of(opened).pairs) {
                result = with_values ? each(context, key_data(key), key_size(key), value.data(), value.size())
                                     : each(context, key_data(key), key_size(key), nullptr, 0);
                if (result)
                    break;
            }
            return result;
        });
    }

    static int close(void *opened) {
        return guarded([&] {
            delete &store_of(opened);
            return 0;
        });
    }

    static constexpr peer named(const char *name, const char *(*version)()) {
        return {name, settings, 1, 0, version, open, put, append, get, remove, scan, peer_nothing, nullptr, close,
                peer_error, Store::key_bytes};
    }
};

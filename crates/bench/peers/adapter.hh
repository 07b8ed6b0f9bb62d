// Shared by the C++ adapters: turns exceptions into errors at the C boundary.
#pragma once

#include <exception>

#include "adapter.h"

// Runs `call`; an exception becomes an error with its text.
template <class Call>
int guarded(Call call) noexcept {
    try {
        return call();
    } catch (const std::exception &error) {
        return peer_fail("%s", error.what());
    } catch (...) {
        return peer_fail("an exception that is no std::exception");
    }
}

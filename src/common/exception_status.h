// What an exception means for the request or the model at work when it reaches the barrier of its
// thread. Nothing throws across modules on purpose; what arrives here is a failed allocation, or a
// bug.
#pragma once

#include <utility>

#include "common/status.h"

namespace penstock {

// In a catch block: kResourceExhausted for bad_alloc and length_error, else kInternal with what().
Status StatusOfException();

// In a catch block: logs "`where`: what()"; drops the line where there is no memory for it.
void LogException(const char* where) noexcept;

// Runs `work`; an exception is logged and goes no further. True: there was none.
template <typename Work>
bool RunGuarded(const char* where, Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return true;
  } catch (...) {
    LogException(where);
    return false;
  }
}

}  // namespace penstock

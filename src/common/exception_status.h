// The exception barrier of a thread: nothing throws across modules on purpose, so what is caught
// there is a failed allocation, or a bug; it ends the request or the model at work and no other.
#pragma once

#include <utility>

#include "common/status.h"

namespace penstock {

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

// Of the exception being handled; to be called within catch (...). std::bad_alloc and
// std::length_error, which is what too large a container throws: kResourceExhausted, try again in a
// second. All others: kInternal with their text. Throws nothing, whatever memory is left.
Status ExceptionStatus() noexcept;

// A Status with `message`, or without memory for it one that says so.
Status MakeStatus(StatusCode code, const char* message) noexcept;

}  // namespace penstock

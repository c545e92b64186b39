// The exception barrier of a thread: no module throws to another on purpose, so an exception here
// is a failed allocation or a bug; it ends the request or the model at work and no other.
#pragma once

#include <utility>

#include "base/status.h"

namespace penstock {

// In a catch block: logs "`where`: what()"; drops the line if out of memory.
void LogException(const char* where) noexcept;

// Runs `work`; logs an exception and stops it. True: there was none.
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

// The Status of the exception being handled; to be called within catch (...). std::bad_alloc and
// std::length_error (a container became too large): kResourceExhausted, try again in a second. All
// others: kInternal with their text. Throws nothing, even when out of memory.
Status ExceptionStatus() noexcept;

// A Status with `message`; when out of memory, one that says so.
Status MakeStatus(StatusCode code, const char* message) noexcept;

}  // namespace penstock

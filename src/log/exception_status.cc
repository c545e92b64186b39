#include "log/exception_status.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "log/log.h"

namespace penstock {
namespace {

// Short enough for a string that allocates nothing.
constexpr const char* kOutOfMemory = "out of memory";

}  // namespace

Status MakeStatus(StatusCode code, const char* message) noexcept {
  try {
    return {code, message};
  } catch (...) {
    return {code, kOutOfMemory};
  }
}

Status ExceptionStatus() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, kOutOfMemory).WithRetryAfter(1);
  } catch (const std::length_error&) {
    return Status(StatusCode::kResourceExhausted, kOutOfMemory).WithRetryAfter(1);
  } catch (const std::exception& error) {
    return MakeStatus(StatusCode::kInternal, error.what());
  } catch (...) {
    return MakeStatus(StatusCode::kInternal, "unknown error");
  }
}

void LogException(const char* where) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    try {
      LogError("{}: {}", where, error.what());
    } catch (...) {
    }
  } catch (...) {
  }
}

}  // namespace penstock

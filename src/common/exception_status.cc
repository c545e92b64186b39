#include "common/exception_status.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "common/log.h"

namespace penstock {

Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "there is not enough memory").WithRetryAfter(1);
  } catch (const std::length_error&) {
    return Status(StatusCode::kResourceExhausted, "more memory is needed than can be had")
        .WithRetryAfter(1);
  } catch (const std::exception& e) {
    return Status::Internal(e.what());
  } catch (...) {
    return Status::Internal("an unknown exception");
  }
}

void LogException(const char* where) noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    try {
      LogError("{}: {}", where, e.what());
    } catch (...) {
    }
  } catch (...) {
  }
}

}  // namespace penstock

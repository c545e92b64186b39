// What an exception barrier makes of what it caught.
#pragma once

#include "common/status.h"

namespace penstock {

// Of the exception being handled; to be called within catch (...). std::bad_alloc and
// std::length_error, which is what too large a container throws: kResourceExhausted, try again in a
// second. All others: kInternal with their text. Throws nothing, whatever memory is left.
Status ExceptionStatus() noexcept;

// A Status with `message`, or without memory for it one that says so.
Status MakeStatus(StatusCode code, const char* message) noexcept;

}  // namespace penstock

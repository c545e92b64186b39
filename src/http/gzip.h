// Packing of answers, and unpacking of what clients have packed (RFC 1952).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "threads/byte_budget.h"

namespace penstock::http {

// `text` packed, fast rather than small. Throws std::bad_alloc.
std::string Gzip(std::string_view text);

// Unpacks to `text`, which is empty. Room is taken from `memory`, which may be null, before it is
// filled, and `counted` says how much. kPayloadTooLarge: more than `bytes_max` come out;
// kInvalidArgument: not one whole member of gzip; errors of `memory`. Throws std::bad_alloc.
Status Gunzip(std::string_view packed, size_t bytes_max, RequestMemory* memory, std::string* text,
              int64_t* counted);

}  // namespace penstock::http

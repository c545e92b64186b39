// Packing of answers (RFC 1952).
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// `text` packed, fast rather than small. Throws std::bad_alloc.
std::string Gzip(std::string_view text);

}  // namespace penstock

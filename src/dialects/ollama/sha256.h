// SHA-256 of short texts.
#pragma once

#include <string>
#include <string_view>

namespace penstock::dialects {

// 64 hexadecimal digits.
std::string Sha256Hex(std::string_view text);

}  // namespace penstock::dialects

// Whether bytes are UTF-8; simdjson's check, kept out of the files that ask.
#pragma once

#include <string_view>

namespace penstock {

bool IsValidUtf8(std::string_view text);

}  // namespace penstock

// Base64 with the standard alphabet (RFC 4648, section 4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

void AppendBase64(std::span<const uint8_t> bytes, std::string* out);  // padded
// The bytes of `text`, which may lack its padding. nullopt: it is not base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace penstock

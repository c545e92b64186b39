#include "text/precompiled_charsmap.h"

#include <cstring>

#include "base/base64.h"
#include "unicode/utf8.h"

namespace penstock::text {
Expected<PrecompiledCharsmap> PrecompiledCharsmap::FromBase64(std::string_view base64) {
  const auto blob = DecodeBase64(base64);
  if (!blob) return Status::InvalidArgument("not base64", "normalizer.precompiled_charsmap");
  return FromBytes(*blob);
}

Expected<PrecompiledCharsmap> PrecompiledCharsmap::FromBytes(std::string_view blob) {
  const auto broken = [](const char* why) {
    return Status::InvalidArgument(why, "normalizer.precompiled_charsmap");
  };
  uint32_t trie_bytes = 0;
  if (blob.size() < 4) return broken("shorter than its header");
  std::memcpy(&trie_bytes, blob.data(), 4);
  blob.remove_prefix(4);
  if (trie_bytes > blob.size()) return broken("trie is cut off");
  PrecompiledCharsmap map;
  map.units_.resize(trie_bytes / 4);
  if (map.units_.empty()) return broken("trie is empty");
  std::memcpy(map.units_.data(), blob.data(), map.units_.size() * 4);
  map.replacements_ = blob.substr(map.units_.size() * 4);
  if (!IsValidUtf8(map.replacements_)) return broken("replacements are not valid UTF-8");
  return map;
}

std::optional<std::string_view> PrecompiledCharsmap::Find(std::string_view text) const {
  // Unit: bits 0-7 label (bit 31 marks a value), bit 8 has a leaf, bits 10-30 offset, which
  // bit 9 shifts by 8 more.
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  uint32_t at = offset(units_[0]);
  for (char c : text) {
    const uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    at ^= byte;
    if (at >= units_.size()) return std::nullopt;
    const uint32_t unit = units_[at];
    if ((unit & ((1u << 31) | 0xFF)) != byte) return std::nullopt;
    at ^= offset(unit);
    if (at >= units_.size()) return std::nullopt;
    if (unit >> 8 & 1) {
      const size_t begin = units_[at] & 0x7FFFFFFF;
      if (begin > replacements_.size()) return std::nullopt;
      const size_t end = replacements_.find('\0', begin);
      return std::string_view(replacements_)
          .substr(begin, end == std::string::npos ? end : end - begin);
    }
  }
  return std::nullopt;
}

}  // namespace penstock::text

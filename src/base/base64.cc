#include "base/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace penstock {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The value of each byte as a digit; -1: it is not one.
constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

}  // namespace

void AppendBase64(std::span<const uint8_t> bytes, std::string* out) {
  // EVP_EncodeBlock counts in int; a multiple of 3 bytes makes whole groups, so pieces join.
  constexpr size_t kPieceBytesMax = 12 << 20;
  while (!bytes.empty()) {
    const auto piece = bytes.subspan(0, std::min(bytes.size(), kPieceBytesMax));
    const size_t text_bytes = (piece.size() + 2) / 3 * 4;
    const size_t at = out->size();
    out->resize(at + text_bytes + 1);  // it ends with a NUL
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out->data() + at), piece.data(),
                    static_cast<int>(piece.size()));
    out->resize(at + text_bytes);
    bytes = bytes.subspan(piece.size());
  }
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 == 0 && text.ends_with('=')) text.remove_suffix(text.ends_with("==") ? 2 : 1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
  }
  return bytes;
}

}  // namespace penstock

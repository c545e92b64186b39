// How values are stored in Redis, and which replies are trusted.
//
//   with a secret     "PNS2", the value's length (u32), HMAC-SHA256 cut to 128 bits, the value
//   without           "PNS1", the value's length (u32), XXH3 of 64 bits, the value
//
// Both are over the entry's key and the value, so a value under another key is refused. The first
// is authentication: only a holder of the secret can make a trusted value, and the worst a hostile
// Redis can do is to return nothing or an older value of the same key, which is the same, as keys
// name all that a value depends on. The second finds accidents only: anyone can compute it.
// Integers are little-endian, as on all machines this runs on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::cache {

class RemoteSeal {
 public:
  static constexpr size_t kSecretBytesMin = 16;
  static constexpr size_t kSecretBytesMax = 1024;

  // "" = no secret.
  explicit RemoteSeal(std::string secret) : secret_(std::move(secret)) {}

  bool authenticates() const { return !secret_.empty(); }
  // The value as stored, and back; nothing if it was not sealed under this key.
  std::string Seal(std::string_view key, std::string_view value) const;
  std::optional<std::string_view> Open(std::string_view key, std::string_view sealed) const;

 private:
  std::string secret_;
};

// Whether `bytes` are floats, all of them finite.
bool AreFiniteFloats(std::string_view bytes);

}  // namespace penstock::cache

#include "cache/cache_salt.h"

#include <openssl/sha.h>

#include <array>
#include <cstring>
#include <random>

namespace penstock::cache {
namespace {

// Hashes the parts and their lengths, so that no two lists of parts are hashed alike.
uint64_t SaltOf(std::string_view first, std::string_view second) {
  std::string text;
  text.reserve(first.size() + second.size() + 2 * sizeof(uint64_t));
  for (const std::string_view part : {first, second}) {
    const uint64_t size = part.size();
    text.append(reinterpret_cast<const char*>(&size), sizeof size);
    text.append(part);
  }
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  uint64_t salt = 0;
  std::memcpy(&salt, digest.data(), sizeof salt);
  salt &= ~uint64_t{1};
  return salt == 0 ? 2 : salt;
}

}  // namespace

std::string NewCacheSecret() {
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 8; ++i) {
    const uint32_t word = random();
    secret.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return secret;
}

uint64_t CacheSaltOf(std::string_view secret, std::string_view client) {
  return secret.empty() || client.empty() ? 0 : SaltOf(secret, client);
}

uint64_t JoinCacheSalt(uint64_t salt, std::string_view text) {
  if (text.empty()) return salt;
  return SaltOf({reinterpret_cast<const char*>(&salt), sizeof salt}, text);
}

}  // namespace penstock::cache

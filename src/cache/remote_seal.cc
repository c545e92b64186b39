#include "cache/remote_seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <xxhash.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace penstock::cache {
namespace {

constexpr std::string_view kChecked = "PNS1";  // the last: format
constexpr std::string_view kAuthenticated = "PNS2";
constexpr size_t kSizeBytes = sizeof(uint32_t);
constexpr size_t kMacBytes = 16;

using Mac = std::array<unsigned char, kMacBytes>;

void Failed(bool failed) {
  if (failed) throw std::bad_alloc();  // the only other reason
}

// HMAC-SHA256 over the key's length, the key and the value.
Mac Authenticate(const std::string& secret, std::string_view key, std::string_view value) {
  static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  Failed(hmac == nullptr);
  const std::unique_ptr<EVP_MAC_CTX, void (*)(EVP_MAC_CTX*)> context(EVP_MAC_CTX_new(hmac),
                                                                     EVP_MAC_CTX_free);
  char sha256[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", sha256, 0),
                               OSSL_PARAM_construct_end()};
  const uint64_t key_bytes = key.size();
  std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
  size_t size = 0;
  const auto bytes = [](const void* data) { return static_cast<const unsigned char*>(data); };
  Failed(context == nullptr ||
         EVP_MAC_init(context.get(), bytes(secret.data()), secret.size(), params) != 1 ||
         EVP_MAC_update(context.get(), bytes(&key_bytes), sizeof key_bytes) != 1 ||
         EVP_MAC_update(context.get(), bytes(key.data()), key.size()) != 1 ||
         EVP_MAC_update(context.get(), bytes(value.data()), value.size()) != 1 ||
         EVP_MAC_final(context.get(), whole.data(), &size, whole.size()) != 1);
  Mac mac;
  std::memcpy(mac.data(), whole.data(), mac.size());
  return mac;
}

uint64_t Checksum(std::string_view key, std::string_view value) {
  return XXH3_64bits_withSeed(value.data(), value.size(), XXH3_64bits(key.data(), key.size()));
}

}  // namespace

std::string RemoteSeal::Seal(std::string_view key, std::string_view value) const {
  const auto size = static_cast<uint32_t>(value.size());
  std::string sealed;
  sealed.reserve(kChecked.size() + kSizeBytes + kMacBytes + value.size());
  sealed += authenticates() ? kAuthenticated : kChecked;
  sealed.append(reinterpret_cast<const char*>(&size), sizeof size);
  if (authenticates()) {
    const Mac mac = Authenticate(secret_, key, value);
    sealed.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  } else {
    const uint64_t checksum = Checksum(key, value);
    sealed.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  }
  sealed += value;
  return sealed;
}

std::optional<std::string_view> RemoteSeal::Open(std::string_view key,
                                                 std::string_view sealed) const {
  const std::string_view magic = authenticates() ? kAuthenticated : kChecked;
  const size_t sum_bytes = authenticates() ? kMacBytes : sizeof(uint64_t);
  if (sealed.size() < magic.size() + kSizeBytes + sum_bytes || !sealed.starts_with(magic)) {
    return std::nullopt;
  }
  sealed.remove_prefix(magic.size());
  uint32_t size = 0;
  std::memcpy(&size, sealed.data(), sizeof size);
  const char* const sum = sealed.data() + kSizeBytes;
  const std::string_view value = sealed.substr(kSizeBytes + sum_bytes);
  if (size != value.size()) return std::nullopt;
  if (authenticates()) {
    const Mac mac = Authenticate(secret_, key, value);
    if (CRYPTO_memcmp(mac.data(), sum, mac.size()) != 0) return std::nullopt;
  } else {
    const uint64_t checksum = Checksum(key, value);
    if (std::memcmp(&checksum, sum, sizeof checksum) != 0) return std::nullopt;
  }
  return value;
}

bool AreFiniteFloats(std::string_view bytes) {
  if (bytes.size() % sizeof(float) != 0) return false;
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace penstock::cache

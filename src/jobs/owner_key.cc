#include "jobs/owner_key.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <filesystem>
#include <random>

#include "base/regular_file.h"
#include "jobs/file_store.h"

namespace penstock::jobs {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr std::string_view kOwnerPrefix = "owner-";

std::string NewKey() {
  std::random_device random;
  std::string key;
  while (key.size() < kKeyBytes) {
    const uint32_t word = random();
    key.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return key;
}

}  // namespace

Expected<OwnerKey> OwnerKey::Open(const std::string& folder) {
  const std::string path = folder + "/owner-key";
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    const std::string key = NewKey();
    PENSTOCK_RETURN_IF_ERROR(WriteFileAtomically(path, key));
    return OwnerKey(key);
  }
  auto key = ReadRegularFile(path, kKeyBytes + 1);
  if (!key.ok()) return Status(StatusCode::kUnavailable, key.status().message());
  if (key->size() != kKeyBytes) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} must have {} bytes and has {}; without it the owners of "
                              "files are not known",
                              path, kKeyBytes, key->size()));
  }
  return OwnerKey(*std::move(key));
}

std::string OwnerKey::IdOf(std::string_view name) const {
  if (name.empty()) return "";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
       reinterpret_cast<const unsigned char*>(name.data()), name.size(), digest.data(), &size);
  std::string id(kOwnerPrefix);
  for (unsigned int i = 0; i < size; ++i) id += fmt::format("{:02x}", digest[i]);
  return id;
}

bool OwnerKey::IsName(std::string_view owner) {
  return !owner.empty() && !owner.starts_with(kOwnerPrefix);
}

}  // namespace penstock::jobs

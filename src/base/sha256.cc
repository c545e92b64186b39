#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <new>

namespace penstock {
namespace {

EVP_MD_CTX* Context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(Context(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr ||
      EVP_DigestInit_ex(Context(context_.get()), EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

void Sha256::Add(std::string_view bytes) {
  EVP_DigestUpdate(Context(context_.get()), bytes.data(), bytes.size());
}

std::string Sha256::Hex() const {
  const std::unique_ptr<void, Free> copy(EVP_MD_CTX_new());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (copy == nullptr || EVP_MD_CTX_copy_ex(Context(copy.get()), Context(context_.get())) != 1 ||
      EVP_DigestFinal_ex(Context(copy.get()), digest.data(), &size) != 1) {
    throw std::bad_alloc();
  }
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 digest;
  digest.Add(bytes);
  return digest.Hex();
}

}  // namespace penstock

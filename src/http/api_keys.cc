#include "http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace penstock {

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(DigestOf(key));
}

bool ApiKeys::Allows(std::string_view key) const {
  if (key.empty()) return false;
  const Digest digest = DigestOf(key);
  // No early exit: which key matched, and whether one did, takes the same time.
  unsigned match = 0;
  for (const Digest& known : digests_) {
    match |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0 ? 1u : 0u;
  }
  return match != 0;
}

std::string_view ApiKeys::KeyOf(const HttpRequest& request) {
  std::string_view authorization = request.Header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() > kBearer.size()) {
    bool bearer = true;
    for (size_t i = 0; i < kBearer.size(); ++i) {
      const char c = authorization[i];
      bearer = bearer && (c >= 'A' && c <= 'Z' ? c + 32 : c) == kBearer[i];
    }
    if (bearer) {
      authorization.remove_prefix(kBearer.size());
      while (authorization.starts_with(' ')) authorization.remove_prefix(1);
      return authorization;
    }
  }
  const std::string_view key = request.Header("x-api-key");
  return key.empty() ? request.Header("api-key") : key;
}

ApiKeys::Digest ApiKeys::DigestOf(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

}  // namespace penstock

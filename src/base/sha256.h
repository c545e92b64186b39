// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace penstock {

class Sha256 {
 public:
  Sha256();
  void Add(std::string_view bytes);
  // The digest of what was added so far in 64 hexadecimal digits; more may follow.
  std::string Hex() const;

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;  // EVP_MD_CTX
};

// The digest of `bytes` in 64 hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

}  // namespace penstock

#include "dialects/ollama/sha256.h"

#include <fmt/format.h>
#include <openssl/sha.h>

namespace penstock::dialects {

std::string Sha256Hex(std::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace penstock::dialects

// API keys: several, compared in time that does not depend on how much of a guess is right.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace penstock {

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  bool empty() const { return digests_.empty(); }
  bool Allows(std::string_view key) const;
  // Takes the key of "Authorization: Bearer", "X-API-Key" or "api-key"; "" = none was sent.
  static std::string_view KeyOf(const HttpRequest& request);

 private:
  using Digest = std::array<unsigned char, 32>;  // SHA-256: one length, whatever the key's
  static Digest DigestOf(std::string_view key);
  std::vector<Digest> digests_;
};

}  // namespace penstock

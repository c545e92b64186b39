// API keys: several, kept as SHA-256 digests, compared in time that does not depend on how much of
// a guess is right.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http/message.h"

namespace penstock::frontend {

inline constexpr size_t kApiKeyBytesMax = 4096;
inline constexpr size_t kApiKeyFileBytesMax = 1 << 20;

using KeyDigest = std::array<unsigned char, 32>;  // SHA-256: one length, whatever the key's
KeyDigest DigestOfKey(std::string_view key);
// Another one, in hexadecimal: the name of the key's owner in what is kept on the disk.
std::string OwnerNameOf(std::string_view key);

// kInvalidArgument for a key that no header can carry: an empty one, one of more than
// kApiKeyBytesMax bytes, with control characters, or with spaces at its ends. The message does not
// hold the key.
Status CheckApiKey(std::string_view key);

// A client's share beside others is in proportion to its weight.
inline constexpr uint32_t kKeyWeightMax = 1000;

// A line of a key file, without spaces at its ends: KEY, or KEY weight=N.
struct KeyLine {
  std::string_view key;
  uint32_t weight = 1;
};
// kInvalidArgument: what CheckApiKey refuses; a weight that is not 1 to kKeyWeightMax.
Expected<KeyLine> ParseKeyLine(std::string_view line);

class ApiKeys {
 public:
  ApiKeys() = default;
  explicit ApiKeys(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) Add(key);
  }
  void Add(std::string_view key) {
    digests_.push_back(DigestOfKey(key));
    weights_.push_back(1);
    owner_names_.push_back(OwnerNameOf(key));
  }
  // Adds the keys of a file: one a line (KeyLine); spaces around them, empty lines and lines that
  // begin with '#' are skipped; lines may end with CRLF. The bytes read are wiped.
  // kInvalidArgument, naming the file: it cannot be read, is not a regular file (a pipe cannot be
  // read again on a reload), has more than kApiKeyFileBytesMax bytes, no key, or a line that
  // ParseKeyLine refuses.
  Status AddFile(const std::string& path);

  bool empty() const { return digests_.empty(); }
  size_t size() const { return digests_.size(); }
  bool Allows(std::string_view key) const { return !key.empty() && Has(DigestOfKey(key)); }
  bool Has(const KeyDigest& digest) const { return Find(digest) != 0; }
  // The number of the key, from 1 on, in the order of adding; 0: unknown.
  size_t Find(const KeyDigest& digest) const;
  const std::vector<std::string>& owner_names() const { return owner_names_; }
  // The weight of the key with that number.
  uint32_t weight(size_t number) const { return weights_[number - 1]; }

  // Takes the key of "Authorization: Bearer", "X-API-Key" or "api-key"; "" = none was sent.
  static std::string_view KeyOf(const http::HttpRequest& request);

 private:
  std::vector<KeyDigest> digests_;
  std::vector<uint32_t> weights_;         // one a key
  std::vector<std::string> owner_names_;  // one a key
};

}  // namespace penstock::frontend

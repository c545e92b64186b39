// OwnerKey: names the owners of files and batches on the disk, by a keyed hash: without its
// key, a reader of the folder cannot test guesses of API keys.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::jobs {

class OwnerKey {
 public:
  // Reads FOLDER/owner-key, or makes it: 32 random bytes that only this user may read.
  // kUnavailable: it cannot be read or written, or is no such key.
  static Expected<OwnerKey> Open(const std::string& folder);

  // The owner with that name: "owner-" and 64 hexadecimal digits; "" of "".
  std::string IdOf(std::string_view name) const;
  // Owners of earlier versions stand in the folder by name.
  static bool IsName(std::string_view owner);

 private:
  explicit OwnerKey(std::string key) : key_(std::move(key)) {}

  std::string key_;
};

}  // namespace penstock::jobs

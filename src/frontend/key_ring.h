// KeyRing: the keys of users, of bulk work and of administrators, from flags and files. The files
// are read again on Reload, while requests are answered.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/status.h"
#include "frontend/api_keys.h"
#include "http/server_options.h"

namespace penstock::frontend {

// The rights of a key.
struct KeyRights {
  bool known = false;  // any of the keys
  bool bulk = false;   // its requests are bulk work
  bool admin = false;  // may use the routes of administrators
  // The key's number in the log: from 1 on, those of users first, then of bulk work, then of
  // administrators, each as flags and then files list them. 0: unknown.
  int32_t number = 0;
  uint32_t weight = 1;  // as its file says (KeyLine)
  KeyDigest digest{};   // of the key, known or not
};

// Immutable.
struct KeySets {
  ApiKeys users;
  ApiKeys bulk;
  ApiKeys admins;

  // Whether routes require a key. (Administrators' keys alone guard only their own routes.)
  bool Required() const { return !users.empty() || !bulk.empty(); }
  KeyRights RightsOf(std::string_view key) const;
};

class KeyRing {
 public:
  // Reads flags and files. kInvalidArgument names the flag's field and the fault.
  static Expected<std::shared_ptr<KeyRing>> Make(const http::ServerOptions& options);

  // Rereads the files; if one fails, all keys stay as they were.
  Status Reload();

  // Any thread.
  std::shared_ptr<const KeySets> Get() const;

 private:
  KeyRing() = default;

  KeySets of_flags_;
  std::vector<std::string> user_files_, bulk_files_, admin_files_;

  mutable std::mutex mutex_;
  std::shared_ptr<const KeySets> sets_;  // guarded by mutex_
};

}  // namespace penstock::frontend

// AllowedHosts: the hosts a request may name. A web page can make its own name resolve to 127.0.0.1
// (DNS rebinding) and then read the answers of a server there as if they were its own; but the
// request still names the page's host, which is not allowed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::frontend {

// Whether the first address of `host`, a name or an address to listen on, is this machine's own.
bool IsLoopback(const std::string& host);

class AllowedHosts {
 public:
  // kInvalidArgument for a name that is not a host without a port, "*.example.org" or "*".
  static Status Check(const std::vector<std::string>& names);

  // Allows `names` (checked: hosts, "*.example.org" = every host below example.org, "*" = any),
  // localhost and loopback addresses. No names: any host, but with `local` (a server without keys
  // that only this machine reaches) only hosts that no stranger can own: addresses, names below
  // .localhost, this machine's name, `listen_host`. Other names without a dot can be a top-level
  // domain, or what a neighbour in the network answers for.
  AllowedHosts(const std::vector<std::string>& names, bool local, const std::string& listen_host);

  // `host` as HostOf gives it; "" (HTTP/1.0 without Host) is allowed: no browser sends that.
  bool Allows(std::string_view host) const;

 private:
  bool any_ = false;
  bool local_ = false;
  std::vector<std::string> names_;
  std::vector<std::string> suffixes_;  // ".example.org"
};

}  // namespace penstock::frontend

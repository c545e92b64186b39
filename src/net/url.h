// URLs of HTTP (RFC 3986, RFC 9110): what a request needs of one, and where a redirect leads.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::net {

struct Url {
  bool tls = false;
  std::string host;          // a name in lower case, or an address; of IPv6 without brackets
  std::string port;          // "80" and "443" where it is not said
  std::string user;          // "name:password" before the host, decoded; "": none
  std::string target = "/";  // path and query as they are sent, percent-encoded

  // "host" or "host:port", as the header Host has it.
  std::string authority() const;
  bool has_default_port() const { return port == (tls ? "443" : "80"); }
  // Whether both are of one scheme, host and port.
  bool SameOrigin(const Url& other) const {
    return tls == other.tls && host == other.host && port == other.port;
  }
  std::string ToString() const;  // without user and fragment
};

// kInvalidArgument, naming what is wrong: another scheme than http and https, no host, a port beyond
// 65535, a character that may not stand in one. A fragment is left out.
Expected<Url> ParseUrl(std::string_view text);
// `location` of a redirect, relative to `base` or not. Errors: those of ParseUrl.
Expected<Url> Resolve(const Url& base, std::string_view location);

}  // namespace penstock::net

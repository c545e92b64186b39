// Checks of a request's header that the parser does not make. A header that two readers of the same
// bytes (a proxy in front and this server) could read differently is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace penstock::http {

// RFC 9110 5.6.2: a character of a field name or method.
bool IsTokenChar(unsigned char c);

// Checks a header's raw bytes for faults that parsing hides: folded lines (obs-fold), CR or LF
// outside CRLF, other control characters.
class HeaderLines {
 public:
  // Takes the bytes of a header in pieces, each byte once. Returns null or the error.
  const char* Feed(std::string_view bytes);

 private:
  unsigned char last_ = 0;
};

struct HeaderRefusal {
  int status = 400;
  std::string message;
};

// Checks a parsed header and sets request->host. `version` 11 = HTTP/1.1; `target` as sent.
//   400  not exactly one Host (HTTP/1.0: more than one); Host, or the authority of an absolute
//        target, that is not host[:port] (RFC 3986 3.2.2, 3.2.3); more than one Content-Length, or
//        one that is not a number; Transfer-Encoding in HTTP/1.0
//   501  a Transfer-Encoding that is not exactly "chunked"
std::optional<HeaderRefusal> CheckHeader(int version, std::string_view target,
                                         HttpRequest* request);

// Whether the connection persists after this request (RFC 9112 9.3), as far as the client says.
// All lines of Connection count.
bool AsksKeepAlive(int version, const HttpRequest& request);

// The host of "host[:port]": in lower case, without port, brackets and a dot at the end. Nothing
// if the text does not have that form: a name of letters, digits, "-._~!$&'()*+,;=" and %XX, an
// IPv4 address or an IPv6 address in brackets; a port up to 65535, which may be missing after ':'.
std::optional<std::string> HostOf(std::string_view authority);

}  // namespace penstock::http

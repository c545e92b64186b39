// A strict reader of HTTP/1.1 requests after RFC 9112, over a whole byte string: the requests that
// a proxy in front would see. Written for the fuzz target alone; shares nothing with the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::fuzz {

struct ReferenceRequest {
  std::string method, target, body;
  // The framing is right, so the handler must get it. False: the server may refuse it for other
  // reasons (Expect, Content-Encoding, Host, target, sizes).
  bool plain = true;
  bool keep_alive = true;  // another may follow
};

struct ReferenceLimits {
  size_t header_bytes_max;
  size_t body_bytes_max;
};

// The requests up to the first that is malformed or incomplete, or that ends the connection.
std::vector<ReferenceRequest> ReadRequests(std::string_view bytes, const ReferenceLimits& limits);

}  // namespace penstock::fuzz

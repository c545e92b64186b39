// Requests of hostile clients: huge, broken or never finished, with the client's manner and the
// right answers. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "load/http_load.h"

namespace penstock::lab {

enum class HostileManner {
  kAsk,            // sends all and reads the answers
  kLeaveInBody,    // resets the connection when the bytes, which are a part of a request, are sent
  kLeaveInAnswer,  // resets the connection when a part of the answer's body has come
  kHalfClose,      // sends all, says that no more will come, reads the answers
  kDrip,           // sends a byte at a time until the server answers or closes
  kReadSlowly,     // takes the answer a kilobyte at a time, and leaves after the time to hold
  kReadNothing,    // takes no byte of the answer, and leaves after the time to hold
  kStayIdle,       // reads the answers, then keeps the connection, silent, for a longer time
};

enum class HostileAnswer {
  kAny,      // any status of 2xx, 4xx or 5xx, or the connection closed
  kRefusal,  // the request is malformed: 4xx, 5xx or closed
  kServed,   // the request is right: 2xx, or 413, 429, 503 where it is over a limit
};

struct HostileRequest {
  std::string name;
  // Requests a second at the default rate; at another rate the shares stay the same.
  double weight = 1;
  std::string bytes;  // header and body as they go out; "" = the client connects and is silent
  HostileManner manner = HostileManner::kAsk;
  HostileAnswer right = HostileAnswer::kAny;
  int answers = 1;  // more where requests are pipelined
};

// Large bodies: 4 of 40 requests. Work that is valid and heavy: 1 of 40. The rest costs a server
// little: broken framing, broken JSON, pipelines, clients that drip. About 180 MiB of bytes.
std::vector<HostileRequest> MakeHostileRequests(const load::HttpTarget& target);

// A body of at least `bytes` bytes: {"inputs":["","",...]}. Public for tests.
std::string EmptyTextsBody(size_t bytes);

}  // namespace penstock::lab

// Requests that a server makes of its own routes: a line of a batch, an instance of a request to
// Vertex AI's route.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "http/message.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::http {
struct ServerOptions;
}  // namespace penstock::http

namespace penstock::metrics {
class Metrics;
}  // namespace penstock::metrics

namespace penstock::serving {

struct Route;
class RouteTable;

// Memory of the JSON parser for each byte of a body while it runs: a copy, 4 bytes of index, two
// words of the tape for every number of two bytes ("1,"), strings.
inline constexpr int64_t kParseMemoryPerByte = 16;

// What every call of a handler has.
struct InnerParts {
  api::Service* service;
  metrics::Metrics* metrics;
  const http::ServerOptions* options;
  const RouteTable* table;
};

// Has the handler of `route` answer `body`, whose parsing is counted in the request's memory
// (errors of that are the answer). `done` gets the answer, once, from any thread and not
// for long work; an empty Print: the request was lost. A stream is answered with an error: the
// caller refuses requests for one.
void CallInner(const InnerParts& parts, const Route* route,
               std::shared_ptr<const http::HttpRequest> request, std::string body,
               std::function<void(http::Exchange::Print)> done);

}  // namespace penstock::serving

// Log records of finished requests: a sentence in a text log, fields in a JSON log. Pure functions;
// text chosen by the client is made printable by the log (sentences) or here (fields).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "http/message.h"

namespace penstock::frontend {

struct RouteInfo;

struct RequestRecord {
  const http::HttpRequest* request;
  const RouteInfo* route = nullptr;  // null: none matched
  int status = 0;
  size_t body_bytes = 0;  // of the answer
  Clock::time_point end;
  int64_t items = -1;  // rows that a stream sent; -1: no stream
  // A gRPC call's code by name: "OK", "NOT_FOUND"; `status` is what HTTP would say. Null: HTTP.
  const char* grpc_code = nullptr;

  double ms() const {
    return std::chrono::duration<double, std::milli>(end - request->begin).count();
  }
};

// Where the protocol is gRPC, its code stands in place of the status.
// "POST /embed 200 1.5 ms, 20 bytes in, 90 out, model 'm', 1 rows, 4 tokens, id ..., from ...".
// Model and counts are printed where stages are timed and the request reached a model; ", 3 rows
// streamed" follows the bytes of a streamed answer.
std::string AccessSentence(const RequestRecord& record);
// "slow request: 126.0 ms, POST /embed, status 200, model 'm', 3 rows, 45 tokens; receive 1.000 ...
// ms; id ..., from ...". `left_out`: slow requests that got no line before this one.
std::string SlowSentence(const RequestRecord& record, int64_t left_out);

// For LogJsonFields, with `message` as the first field:
//   method, route (its path in the table; null: none), target (cut to 200 bytes), status, ms,
//   bytes_in, bytes_out, class ("interactive" or "bulk"), request_id, remote
//   grpc_code: where the protocol is gRPC
//   rows_streamed: where the answer was a stream
//   key: see KeyRights::number; where a key was needed and known
//   model, rows, tokens: where stages are timed and the request came to a model
//   stages: {"receive": ms, ...}, where they are timed
//   left_out: where it is not 0
std::string RequestFields(const char* message, const RequestRecord& record, int64_t left_out = 0);

}  // namespace penstock::frontend

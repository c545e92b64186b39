// What HTTP/1.1 and HTTP/2 do alike with a request, from its header to its last byte. Internal to
// the connection layer.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/header_checks.h"
#include "http/message.h"
#include "http/server_options.h"
#include "metrics/stages.h"

namespace penstock::http {

// A refused request's body of at most this size is read, to keep the connection.
inline constexpr uint64_t kDrainBytesMax = 64 << 10;

// With id, token and trace.
std::shared_ptr<HttpRequest> NewRequest(const ServerOptions& options, const std::string& remote,
                                        Clock::time_point begin);

// Sets target, path and, where the client sent a sane one, the id. False: a bad target.
bool SetTarget(std::string_view target, HttpRequest* request);

// `length`: the length that the client gives for its body; nullopt: none. `has_body`: a body
// follows.
//   413  longer than options.body_bytes_max
//   417  an Expect other than 100-continue (`expects`: the version has it)
//   415  a packed body
std::optional<HeaderRefusal> CheckBody(const ServerOptions& options, const HttpRequest& request,
                                       std::optional<uint64_t> length, bool has_body, bool expects);
bool Expects100(const HttpRequest& request);

// Takes from the request's budget before `bytes` of a body are kept.
Status TakeBodyMemory(const HttpRequest& request, size_t bytes);
// The status for an error of it.
int MemoryStatus(const Status& taken);

std::string BodyTooLong(const ServerOptions& options);      // 413
std::string HeaderTooLong(const ServerOptions& options);    // 431
std::string NotArrived(const ServerOptions& options);       // 408
std::string NotAnsweredInTime(const HttpRequest& request);  // 503

void EnterStage(const HttpRequest& request, metrics::Stage stage);

// What there is to do for `request` before it is answered: the time for it.
inline Clock::time_point AnswerDeadline(const HttpRequest& request) {
  return std::min(request.context.deadline, request.start_deadline);
}

}  // namespace penstock::http

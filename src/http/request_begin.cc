#include "http/request_begin.h"

#include "threads/byte_budget.h"

namespace penstock::http {
namespace {

// Memory of a request for each byte of its body: the byte, its parsed form (an id of two bytes
// takes four), and a copy where the answer repeats it (documents of a rerank request).
constexpr int64_t kMemoryPerBodyByte = 4;

// State of a request that connection and workers share, in one allocation.
struct Watched {
  explicit Watched(Clock::time_point begin) : trace(begin) {}
  CancelToken cancel;
  metrics::RequestTrace trace;
};

bool SameWord(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(), [](char c, char wanted) {
    return (c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) == wanted;
  });
}

}  // namespace

std::shared_ptr<HttpRequest> NewRequest(const ServerOptions& options, const std::string& remote,
                                        Clock::time_point begin) {
  auto request = std::make_shared<HttpRequest>();
  request->begin = begin;
  request->remote = remote;
  request->id = NewRequestId();
  if (options.stage_timers) {
    const auto watched = std::make_shared<Watched>(begin);
    request->context.cancel = {watched, &watched->cancel};
    request->context.trace = {watched, &watched->trace};
  } else {
    request->context.cancel = std::make_shared<CancelToken>();
  }
  return request;
}

bool SetTarget(std::string_view target, HttpRequest* request) {
  request->target = OriginForm(target);
  if (const auto id = request->Header("x-request-id"); IsSaneRequestId(id)) request->id = id;
  const std::string_view all = request->target;
  if (PercentDecode(all.substr(0, all.find('?')), &request->path) &&
      (request->path.starts_with('/') || request->path == "*")) {
    return true;
  }
  request->path = "/";
  return false;
}

bool Expects100(const HttpRequest& request) {
  return SameWord(request.Header("expect"), "100-continue");
}

std::optional<HeaderRefusal> CheckBody(const ServerOptions& options, const HttpRequest& request,
                                       std::optional<uint64_t> length, bool has_body,
                                       bool expects) {
  const auto limit = static_cast<uint64_t>(options.body_bytes_max);
  if (length && *length > limit) {
    return HeaderRefusal{413, "the request's body is " + std::to_string(*length) +
                                  " bytes long; at most " + std::to_string(limit) + " are allowed"};
  }
  if (expects && !request.Header("expect").empty() && !Expects100(request)) {
    return HeaderRefusal{417, "Expect: only 100-continue is known"};
  }
  const std::string_view encoding = request.Header("content-encoding");
  if (has_body && !encoding.empty() && !SameWord(encoding, "identity")) {
    return HeaderRefusal{415, "Content-Encoding: only identity is known"};
  }
  return std::nullopt;
}

Status TakeBodyMemory(const HttpRequest& request, size_t bytes) {
  RequestMemory* const memory = request.context.memory.get();
  if (memory == nullptr) return Status::Ok();
  return memory->Take(static_cast<int64_t>(bytes) * kMemoryPerBodyByte - memory->held());
}

int MemoryStatus(const Status& taken) {
  return taken.code() == StatusCode::kPayloadTooLarge ? 413 : 429;
}

std::string BodyTooLong(const ServerOptions& options) {
  return "the request's body is longer than " + std::to_string(options.body_bytes_max) +
         " bytes, the limit";
}

std::string HeaderTooLong(const ServerOptions& options) {
  return "the request's header is larger than " + std::to_string(options.header_bytes_max) +
         " bytes, the limit";
}

std::string NotArrived(const ServerOptions& options) {
  return "the request did not arrive within " + std::to_string(options.read_timeout.count()) +
         " ms";
}

std::string NotAnsweredInTime(const HttpRequest& request) {
  return Clock::now() < request.context.deadline
             ? "the first part of the answer was not ready within --stream-start-timeout-ms"
             : "the request's time ran out before it was answered";
}

void EnterStage(const HttpRequest& request, metrics::Stage stage) {
  if (metrics::RequestTrace* const trace = request.context.trace.get()) trace->Enter(stage);
}

}  // namespace penstock::http

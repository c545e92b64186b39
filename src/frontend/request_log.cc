#include "frontend/request_log.h"

#include <fmt/format.h>

#include <cmath>

#include "base/printable.h"
#include "frontend/route_info.h"
#include "json/json_writer.h"
#include "metrics/stages.h"

namespace penstock::frontend {
namespace {

constexpr size_t kLoggedTargetBytesMax = 200;

std::string_view Target(const http::HttpRequest& request) {
  return std::string_view(request.target).substr(0, kLoggedTargetBytesMax);
}

// The trace of a request that reached a model, else null.
const metrics::RequestTrace* ModelTrace(const http::HttpRequest& request) {
  const metrics::RequestTrace* const trace = request.context.trace.get();
  return trace != nullptr && *trace->model() != '\0' ? trace : nullptr;
}

std::string ModelPhrase(const http::HttpRequest& request) {
  const metrics::RequestTrace* const trace = ModelTrace(request);
  if (trace == nullptr) return "";
  return fmt::format(", model '{}', {} rows, {} tokens", trace->model(), trace->rows(),
                     trace->tokens());
}

std::string Outcome(const RequestRecord& record) {
  return record.grpc_code != nullptr ? record.grpc_code : std::to_string(record.status);
}

std::string StreamPhrase(const RequestRecord& record) {
  return record.items < 0 ? "" : fmt::format(", {} rows streamed", record.items);
}

// Microseconds are enough.
double Rounded(double ms) { return std::round(ms * 1e3) / 1e3; }

std::string Logged(std::string_view text) {
  return Printable(text, kPrintableBytesMax, AsciiControls::kKept);
}

}  // namespace

std::string AccessSentence(const RequestRecord& record) {
  const http::HttpRequest& request = *record.request;
  return fmt::format("{} {} {} {:.1f} ms, {} bytes in, {} out{}{}, id {}, from {}", request.method,
                     Target(request), Outcome(record), record.ms(), request.body_bytes,
                     record.body_bytes, StreamPhrase(record), ModelPhrase(request), request.id,
                     request.remote);
}

std::string SlowSentence(const RequestRecord& record, int64_t left_out) {
  const http::HttpRequest& request = *record.request;
  std::string line = fmt::format(
      "slow request: {:.1f} ms, {}, status {}{}{}", record.ms(),
      record.route == nullptr ? "no route"
                              : fmt::format("{} {}", record.route->method, record.route->path),
      Outcome(record), StreamPhrase(record), ModelPhrase(request));
  if (const metrics::RequestTrace* const trace = request.context.trace.get()) {
    line += ';';
    for (size_t s = 0; s < metrics::kStages; ++s) {
      const auto stage = static_cast<metrics::Stage>(s);
      line += fmt::format(" {} {:.3f}", metrics::StageName(stage),
                          static_cast<double>(trace->ns(stage)) / 1e6);
    }
    line += " ms";
  }
  line += fmt::format("; id {}, from {}", request.id, request.remote);
  if (left_out > 0) line += fmt::format("; {} more were slow since the last line", left_out);
  return line;
}

std::string RequestFields(const char* message, const RequestRecord& record, int64_t left_out) {
  const http::HttpRequest& request = *record.request;
  std::string out;
  JsonWriter json(&out);
  json.Field("message", message).Field("method", Logged(request.method)).Key("route");
  if (record.route == nullptr) {
    json.Null();
  } else {
    json.String(record.route->path);
  }
  json.Field("target", Logged(Target(request))).Field("status", record.status);
  json.Field("ms", Rounded(record.ms())).Field("bytes_in", request.body_bytes);
  json.Field("bytes_out", record.body_bytes);
  if (record.grpc_code != nullptr) json.Field("grpc_code", record.grpc_code);
  if (record.items >= 0) json.Field("rows_streamed", record.items);
  json.Field("class", request.context.priority == Priority::kBulk ? "bulk" : "interactive");
  if (request.key_number > 0) json.Field("key", request.key_number);
  if (const metrics::RequestTrace* const trace = ModelTrace(request)) {
    json.Field("model", Logged(trace->model())).Field("rows", trace->rows());
    json.Field("tokens", trace->tokens());
  }
  json.Field("request_id", Logged(request.id)).Field("remote", Logged(request.remote));
  if (const metrics::RequestTrace* const trace = request.context.trace.get()) {
    json.Key("stages").BeginObject();
    for (size_t s = 0; s < metrics::kStages; ++s) {
      const auto stage = static_cast<metrics::Stage>(s);
      json.Field(metrics::StageName(stage), Rounded(static_cast<double>(trace->ns(stage)) / 1e6));
    }
    json.EndObject();
  }
  if (left_out > 0) json.Field("left_out", left_out);
  return out;
}

}  // namespace penstock::frontend

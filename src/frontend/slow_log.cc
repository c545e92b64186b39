#include "frontend/slow_log.h"

#include <algorithm>
#include <utility>

#include "frontend/route_info.h"

namespace penstock::frontend {
namespace {

// A token of a text may take the limit divided by this.
constexpr int64_t kTokensPerLimit = 4;

}  // namespace

SlowLog::SlowLog(std::chrono::milliseconds limit, metrics::Metrics* metrics)
    : limit_(limit),
      slow_(metrics->AddCounter("penstock_slow_requests_total",
                                "Interactive requests that took longer than --slow-request-ms, of "
                                "text to its first token or by its pace.")) {}

bool SlowLog::IsSlow(const http::HttpRequest& request, Clock::time_point now) const {
  if (limit_.count() == 0 || request.context.priority != Priority::kInteractive) return false;
  const std::chrono::nanoseconds whole = now - request.begin;
  if (whole < limit_) return false;
  const metrics::RequestTrace* const trace = request.context.trace.get();
  const int64_t tokens = trace == nullptr ? 0 : trace->text_tokens();
  if (tokens == 0) return true;
  const std::chrono::nanoseconds decode(trace->ns(metrics::Stage::kDecode));
  // The first token is there when decoding begins.
  const std::chrono::nanoseconds pace = decode / std::max<int64_t>(1, tokens - 1);
  return whole - decode >= limit_ || pace * kTokensPerLimit >= limit_;
}

std::optional<int64_t> SlowLog::Pass(Clock::time_point now) {
  slow_.Add();
  return lines_.Pass(now);
}

void SlowLog::Keep(const RequestRecord& record) {
  SlowRequest slow;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  slow.end_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  slow.ms = record.ms();
  if (record.route != nullptr) {
    slow.method = record.route->method;
    slow.path = record.route->path;
  }
  slow.status = record.status;
  slow.bytes_in = record.request->body_bytes;
  slow.bytes_out = record.body_bytes;
  slow.id = record.request->id;
  if (const metrics::RequestTrace* const trace = record.request->context.trace.get()) {
    slow.model = trace->model();
    slow.rows = trace->rows();
    slow.tokens = trace->tokens();
    slow.timed = true;
    for (size_t s = 0; s < metrics::kStages; ++s)
      slow.stage_ns[s] = trace->ns(static_cast<metrics::Stage>(s));
  }
  const std::lock_guard lock(mutex_);
  if (kept_.size() == kKeptMax) kept_.pop_front();
  kept_.push_back(std::move(slow));
}

std::vector<SlowRequest> SlowLog::Kept() const {
  const std::lock_guard lock(mutex_);
  return {kept_.rbegin(), kept_.rend()};
}

}  // namespace penstock::frontend

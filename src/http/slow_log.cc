#include "http/slow_log.h"

#include <fmt/format.h>

#include "metrics/stages.h"

namespace penstock {

SlowLog::SlowLog(std::chrono::milliseconds limit, Metrics* metrics)
    : limit_(limit),
      slow_(metrics->AddCounter("penstock_slow_requests_total",
                                "Interactive requests that took longer than --slow-request-ms.")) {}

std::optional<std::string> SlowLog::Line(const HttpRequest& request, const std::string& route,
                                         int status, Clock::time_point now) {
  slow_.Add();
  int64_t left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    if (now - second_begin_ >= std::chrono::seconds(1)) {
      second_begin_ = now;
      lines_ = 0;
    }
    if (lines_ == kLinesPerSecondMax) {
      ++left_out_;
      return std::nullopt;
    }
    ++lines_;
    std::swap(left_out, left_out_);
  }
  std::string line = fmt::format(
      "slow request: {:.1f} ms, {}, status {}",
      std::chrono::duration<double, std::milli>(now - request.begin).count(), route, status);
  if (const RequestTrace* const trace = request.context.trace.get()) {
    line += fmt::format(", model '{}', {} rows, {} tokens;", trace->model(), trace->rows(),
                        trace->tokens());
    for (size_t s = 0; s < kStages; ++s) {
      const auto stage = static_cast<Stage>(s);
      line +=
          fmt::format(" {} {:.3f}", StageName(stage), static_cast<double>(trace->ns(stage)) / 1e6);
    }
    line += " ms";
  }
  line += fmt::format("; id {}, from {}", request.id, request.remote);
  if (left_out > 0) line += fmt::format("; {} more were slow since the last line", left_out);
  return line;
}

}  // namespace penstock

#include "http/slow_log.h"

#include <utility>

namespace penstock {

SlowLog::SlowLog(std::chrono::milliseconds limit, Metrics* metrics)
    : limit_(limit),
      slow_(metrics->AddCounter("penstock_slow_requests_total",
                                "Interactive requests that took longer than --slow-request-ms.")) {}

std::optional<int64_t> SlowLog::Pass(Clock::time_point now) {
  slow_.Add();
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
  return std::exchange(left_out_, 0);
}

}  // namespace penstock

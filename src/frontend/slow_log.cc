#include "frontend/slow_log.h"

namespace penstock {

SlowLog::SlowLog(std::chrono::milliseconds limit, Metrics* metrics)
    : limit_(limit),
      slow_(metrics->AddCounter("penstock_slow_requests_total",
                                "Interactive requests that took longer than --slow-request-ms.")) {}

std::optional<int64_t> SlowLog::Pass(Clock::time_point now) {
  slow_.Add();
  return lines_.Pass(now);
}

}  // namespace penstock

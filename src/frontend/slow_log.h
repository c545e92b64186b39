// The log of slow requests: a line with every stage for a request that took longer than a limit,
// a few lines a second at most; those left out are counted and told with the next line. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/log_limit.h"
#include "http/message.h"
#include "metrics/metrics.h"

namespace penstock {

class SlowLog {
 public:
  static constexpr int kLinesPerSecondMax = 5;

  // `limit` 0: nothing is slow. `metrics` must outlive it.
  SlowLog(std::chrono::milliseconds limit, Metrics* metrics);

  bool IsSlow(const HttpRequest& request, Clock::time_point now) const {
    return limit_.count() > 0 && now - request.begin >= limit_ &&
           request.context.priority == Priority::kInteractive;  // bulk waits by design
  }
  // Counts a slow request that ended at `now`. Returns the number left out since the last line if
  // this request gets a line, nothing if it is left out.
  std::optional<int64_t> Pass(Clock::time_point now);

 private:
  const std::chrono::milliseconds limit_;
  Counter& slow_;
  LogLimit lines_{kLinesPerSecondMax};
};

}  // namespace penstock

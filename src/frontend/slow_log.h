// The log of slow requests: a line with every stage for a request that took longer than a limit,
// a few lines a second at most; those left out are counted and told with the next line. The last
// of these requests are kept, for GET /v1/requests. Any thread.
//
// A long text takes long at any pace. So a request for text is slow where the time without its
// decoding reaches the limit (the first token came late), or where its tokens come so slowly that
// one takes a quarter of the limit: with the default of 1000 ms fewer than four a second, slower
// than people read. Without stage timers this is not known, and the whole time counts.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "frontend/request_log.h"
#include "http/message.h"
#include "log/log_limit.h"
#include "metrics/metrics.h"
#include "metrics/stages.h"

namespace penstock::frontend {

// A request that was slow. Holds no text that a client sent, but for the id.
struct SlowRequest {
  int64_t end_unix_ms = 0;
  double ms = 0;
  const char* method = "";  // of the route; "": none matched
  const char* path = "";
  int status = 0;
  size_t bytes_in = 0;
  size_t bytes_out = 0;
  std::string id;
  // Where stages are timed and the request came to a model.
  std::string model;
  int64_t rows = 0;
  int64_t tokens = 0;
  bool timed = false;
  std::array<int64_t, metrics::kStages> stage_ns{};
};

class SlowLog {
 public:
  static constexpr int kLinesPerSecondMax = 5;
  static constexpr size_t kKeptMax = 100;

  // `limit` 0: nothing is slow. `metrics` must outlive it.
  SlowLog(std::chrono::milliseconds limit, metrics::Metrics* metrics);

  // Whether a request that ended at `now` was slow. Bulk work waits by design and never is.
  bool IsSlow(const http::HttpRequest& request, Clock::time_point now) const;
  // Counts a slow request that ended at `now`. Returns the number left out since the last line if
  // this request gets a line, nothing if it is left out.
  std::optional<int64_t> Pass(Clock::time_point now);
  // Keeps the request in place of the oldest one.
  void Keep(const RequestRecord& record);
  // The last kKeptMax requests, newest first.
  std::vector<SlowRequest> Kept() const;
  std::chrono::milliseconds limit() const { return limit_; }
  uint64_t count() const { return slow_.value(); }

 private:
  const std::chrono::milliseconds limit_;
  metrics::Counter& slow_;
  LogLimit lines_{kLinesPerSecondMax};
  mutable std::mutex mutex_;
  std::deque<SlowRequest> kept_;  // guarded by mutex_; oldest first
};

}  // namespace penstock::frontend

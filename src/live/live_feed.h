// LiveFeed: what the server does, from second to second, for clients that watch it (GET /v1/live).
//
// One thread reads the service's counters each second, whether there are watchers or not, so that a
// page opened late has a history: kPointsMax points in a ring, printed once. Watchers get the
// history and then the same bytes each second. Nothing is recorded for it in the path of requests.
//
// A watcher gets a point once the kernel has taken the one before: one that reads slowly misses
// points, one that reads nothing is dropped by its connection (--write-timeout-ms). So memory is
// kPointsMax printed points, and for each of at most kWatchersMax watchers a history.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/service.h"
#include "base/status.h"
#include "frontend/http_metrics.h"
#include "http/message.h"
#include "http/server_options.h"
#include "http/stream.h"
#include "telemetry/snapshot.h"

namespace penstock::live {

// The last `max` texts, oldest first. Not for several threads.
class TextRing {
 public:
  explicit TextRing(size_t max) : max_(max) {}
  void Push(std::string text);
  size_t size() const { return texts_.size(); }
  // "a,b,c"
  std::string Joined() const;

 private:
  const size_t max_;
  std::deque<std::string> texts_;
};

class LiveFeed {
 public:
  static constexpr size_t kPointsMax = 300;  // five minutes
  static constexpr size_t kWatchersMax = 100;

  // Service and metrics must outlive it.
  LiveFeed(api::Service* service, frontend::HttpMetrics* http, const http::ServerOptions& options,
           std::chrono::milliseconds interval);
  ~LiveFeed();  // Stop()
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // Answers with the stream of events, until the client leaves. Any thread. kResourceExhausted: too
  // many watch; kUnavailable: Stop() was called.
  Status Watch(const http::HttpRequest& request, const http::Responder& respond);
  size_t watchers() const { return watcher_count_.load(std::memory_order_relaxed); }

  // Ends all streams. Watch refuses from here on.
  void Stop();

 private:
  struct Watcher {
    std::unique_ptr<http::Stream> stream;
    Clock::time_point deadline;
  };
  void Run();
  void Tick();
  void Send(const std::string& events);
  std::string PrintHistory() const;
  std::string PrintStatsEvent() const;

  api::Service* const service_;
  frontend::HttpMetrics* const http_;
  const bool stage_timers_;
  const std::chrono::milliseconds interval_;

  // The thread's own.
  telemetry::Snapshot before_;
  frontend::HttpMetrics::FailureTotals failures_before_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;        // guarded by mutex_, as the rest
  TextRing points_{kPointsMax};  // JSON arrays
  std::list<Watcher> watchers_;
  std::atomic<size_t> watcher_count_{0};
  std::thread thread_;
};

}  // namespace penstock::live

// LiveWatchers: clients that watch GET /v1/live as the web page does, and throw away what comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "load/http_load.h"

namespace penstock::lab {

// One thread reads all of them. Linux only.
class LiveWatchers {
 public:
  // Returns when each has got its history. kUnavailable: a connection failed, was answered with
  // another status than 200, or sent nothing for ten seconds. No TLS.
  static Expected<std::unique_ptr<LiveWatchers>> Open(const load::HttpTarget& target, int count);
  ~LiveWatchers();  // closes the connections
  LiveWatchers(const LiveWatchers&) = delete;
  LiveWatchers& operator=(const LiveWatchers&) = delete;

  uint64_t bytes() const { return bytes_.load(); }  // read so far, all together
  double thread_s() const { return static_cast<double>(thread_ns_.load()) / 1e9; }

 private:
  LiveWatchers() = default;
  void Read();

  std::vector<int> sockets_;
  int wake_ = -1;  // an eventfd that ends the thread
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int64_t> thread_ns_{0};  // processor time of the thread
  std::atomic<size_t> begun_{0};       // that have got their history
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace penstock::lab

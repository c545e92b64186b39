// LogWriter: writes lines to a descriptor from a thread of its own, so that no other thread waits
// for their reader: a pipe that is not emptied, a terminal that is stopped, a disk that hangs.
// What does not fit the queue is dropped and counted; once there is room again, a line of the log
// says so.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

// Writes all of `text`, waiting as long as that takes. False: it cannot be written.
bool WriteWhole(int fd, std::string_view text);

class LogWriter {
 public:
  struct Options {
    int fd = 2;
    size_t queue_bytes_max = 256 << 10;
    // Both called by the thread: before it writes; after it wrote, with the number of lines dropped
    // since the last call. Neither may wait for the thread.
    std::function<void()> before_write = [] {};
    std::function<void(uint64_t lines)> on_dropped = [](uint64_t) {};
  };
  // Starts the thread, which has no end: it may hang in a write for ever, so nothing waits for it,
  // and the object must live as long as the process.
  static LogWriter* Start(Options options);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Queues a line, its end included, or drops it. Does not block. Any thread.
  void Write(std::string_view line) noexcept;
  // Waits until all that was queued before is written or cannot be. False: not within `timeout`.
  bool Flush(std::chrono::milliseconds timeout);
  // Lines dropped so far, also those that could not be written.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  explicit LogWriter(Options options) : options_(std::move(options)) {}
  [[noreturn]] void Run();

  const Options options_;
  std::atomic<uint64_t> dropped_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::string queue_;          // guarded by mutex_
  size_t writing_bytes_ = 0;   // guarded by mutex_: taken out of the queue, not yet written
  uint64_t queued_bytes_ = 0;  // guarded by mutex_: since the start
  uint64_t done_bytes_ = 0;    // guarded by mutex_: of these
};

// From now on such a thread writes the lines of log/log.h to stderr. At most once. FlushLog
// waits for it a second at most, and is called at the end of the process; `_exit` does not call it.
void StartLogWriter();
// Lines lost since then.
uint64_t LogDropped();

}  // namespace penstock

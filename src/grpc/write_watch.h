// WriteWatch: notices a client that does not take what is written to it, so that it does not keep
// the memory of its answers for ever. Any thread.
#pragma once

#include <grpcpp/alarm.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace penstock {

class WriteWatch : public std::enable_shared_from_this<WriteWatch> {
 public:
  // `late` is called when a write has taken longer than `timeout`; it must not block.
  WriteWatch(std::chrono::milliseconds timeout, std::function<void()> late)
      : timeout_(timeout), late_(std::move(late)) {}

  // A write begins; the one before it has ended.
  void Begin();
  void End();
  // `late` is not called from here on.
  void Stop();

 private:
  using SystemClock = std::chrono::system_clock;  // of gRPC's alarms

  void Arm(SystemClock::time_point when);  // under the lock
  void Ring();

  const std::chrono::milliseconds timeout_;
  const std::function<void()> late_;
  std::mutex mutex_;
  // All guarded by mutex_.
  grpc::Alarm alarm_;
  SystemClock::time_point begin_;
  bool armed_ = false;
  bool writing_ = false;
  bool stopped_ = false;
};

}  // namespace penstock

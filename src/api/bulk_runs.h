// Bulk runs: the long jobs, such as embedding a whole collection anew, that clients announce. A
// request that carries a run's id is bulk work; at the end of a run the server decides whether the
// memory that the run made it take goes back to the system.
//
//   Begin --> open --> End
//                 \--> forgotten when no request of it was there for kIdleMax
//
// Any thread may call; one mutex, which requests without an id never take.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/cancel.h"
#include "common/status.h"

namespace penstock {

class BulkRuns {
 public:
  static constexpr size_t kRunsMax = 16;
  static constexpr std::chrono::seconds kIdleMax{600};
  static constexpr size_t kIdBytesMax = 64;

  explicit BulkRuns(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  // The id of a new run. `served` counts the requests the server has taken so far.
  // kResourceExhausted: kRunsMax are open.
  Expected<std::string> Begin(uint64_t served);

  // A request of the run has come; it is there until the place is let go. kNotFound names the
  // field "bulk_run".
  Expected<std::shared_ptr<const void>> Enter(const std::string& id);

  struct Ended {
    int64_t requests = 0;       // that carried the id
    uint64_t served_since = 0;  // of all clients, since Begin
    size_t others = 0;          // runs that are open still
  };
  // kNotFound names the field "id".
  Expected<Ended> End(const std::string& id, uint64_t served);

  size_t open();

 private:
  struct Run {
    uint64_t served_at_begin = 0;
    int64_t requests = 0;
    int64_t in_flight = 0;
    Clock::time_point used_at;
  };
  void ForgetIdle();  // under mutex_
  static Status Unknown(const std::string& id, std::string field);

  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Run>> runs_;  // guarded by mutex_, and what they hold
};

// What is known when a run has ended.
struct ReleaseFacts {
  uint64_t served_since = 0;
  size_t other_runs = 0;
  int64_t in_flight = 0;
  uint64_t held_bytes = 0;  // of caches, activations and free heap
};
struct ReleaseDecision {
  bool release = false;
  std::string reason;
};
// Below, taking memory again would cost more than it saves: a chunk of the activations' arena.
inline constexpr uint64_t kReleaseBytesMin = 8 << 20;
ReleaseDecision DecideRelease(const ReleaseFacts& facts);

}  // namespace penstock

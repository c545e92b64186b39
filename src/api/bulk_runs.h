// Bulk runs: the long jobs, such as embedding a whole collection anew, that clients announce. A
// request that carries a run's id is bulk work; at the end of a run the server decides whether
// memory taken for the run goes back to the system.
//
//   Begin --> open --> End
//                 \--> forgotten after kIdleMax without a request
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

#include "base/status.h"
#include "threads/request_context.h"

namespace penstock::api {

class BulkRuns {
 public:
  static constexpr size_t kRunsMax = 16;
  static constexpr size_t kRunsOfClientMax = 4;
  static constexpr std::chrono::seconds kIdleMax{600};
  // Where kRunsMax runs are open, one that was idle this long makes room for a new one.
  static constexpr std::chrono::seconds kIdleWhenFull{60};
  static constexpr size_t kIdBytesMax = 64;

  explicit BulkRuns(std::function<Clock::time_point()> now = Clock::now)
      : state_(std::make_shared<State>(std::move(now))) {}

  // The id of a new run of this client. `served` counts the requests the server has taken so far.
  // kResourceExhausted: the client has kRunsOfClientMax open, or all clients kRunsMax.
  Expected<std::string> Begin(uint64_t served, uint64_t client = 0);

  // Counts a request of the run in until the returned pointer is released, which may be after the
  // end of this object. kNotFound names the field "bulk_run".
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
    uint64_t client = 0;
    uint64_t served_at_begin = 0;
    int64_t requests = 0;
    int64_t in_flight = 0;
    Clock::time_point used_at;
  };
  // Shared with the requests counted in.
  struct State {
    explicit State(std::function<Clock::time_point()> now_in) : now(std::move(now_in)) {}
    void ForgetIdle();  // under mutex
    void EvictIdle();   // under mutex

    const std::function<Clock::time_point()> now;
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<Run>> runs;  // guarded by mutex, as the runs themselves
  };
  struct Place;
  static Status Unknown(const std::string& id, std::string field);

  const std::shared_ptr<State> state_;
};

// The state at the end of a run.
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
// Releasing less saves less than taking it again costs: a chunk of the activations' arena.
inline constexpr uint64_t kReleaseBytesMin = 8 << 20;
ReleaseDecision DecideRelease(const ReleaseFacts& facts);

}  // namespace penstock::api

// LivenessProbe: how long a server takes to answer /livez while it is under load.
#pragma once

#include <cstdint>
#include <memory>

#include "load/http_load.h"
#include "load/latency.h"

namespace penstock::lab {

// Asks for /livez again and again on a thread and a connection of its own, at a high priority
// where the system allows it, and measures how long answers take.
class LivenessProbe {
 public:
  struct Result {
    load::LatencyHistogram answer;  // from the request's write to the answer's end
    // As `answer`, but until the kernel had the answer, so that the probe's own wait for a
    // processor is left out; and with the probes that would have been sent while one was waiting,
    // so that a stall weighs as long as it lasted. A missing answer counts as the time waited.
    load::LatencyHistogram arrival;
    load::LatencyHistogram
        self_late;          // how late this thread itself was woken: its share of a starving
    uint64_t failures = 0;  // no answer, or not 200
    bool raised_priority = false;
  };
  LivenessProbe(const load::HttpTarget& target, double interval_ms);
  ~LivenessProbe();
  // Ends the thread.
  Result Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::lab

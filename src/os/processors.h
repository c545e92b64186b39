// How many processors this process may use: by its affinity, and by the time that the quotas of its
// control group and of those above it leave it (versions 1 and 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "os/topology.h"

namespace penstock {

struct ProcessorLimits {
  size_t online = 1;       // of the machine
  size_t allowed = 1;      // by affinity
  double quota = 0;        // in processors, of the group that has the least; 0: none
  const char* quota_file;  // where that was read: "cpu.max", "cpu.cfs_quota_us"; null: nowhere

  // Whether the quota ends before the processors do.
  bool cut() const { return quota > 0 && quota < static_cast<double>(allowed); }
  // That are worth a thread each: whole ones, at least 1.
  size_t usable() const;
  // "64 processors", "8 of 64 processors (affinity)", "2 of 64 processors (cpu.max)".
  std::string Text() const;
};
ProcessorLimits ReadProcessorLimits();
// The quotas alone, with the files of the system under `root`, as "/" has them: for tests.
ProcessorLimits ReadProcessorLimitsIn(const std::string& root, size_t online, size_t allowed);

// ReadProcessorLimits().usable().
size_t UsableProcessors();

// How a pool that computes is to be made.
struct ThreadPlan {
  size_t threads = 1;
  // The processors that each thread is pinned to, those of one core: where every core that is
  // allowed gets a thread, and no quota cuts them. Else empty: others may have some of these
  // processors, and the system knows which are free.
  std::vector<std::vector<int>> places;
  // The L3 cache of each pinned thread. Empty: all are taken to share one.
  std::vector<size_t> l3;
  // The processors near each memory node; empty: all are near the same.
  std::vector<std::vector<int>> nodes;
  // Waiting threads spin. Under a quota that would spend the time in which others work.
  bool spin = true;
  // Threads that can run at the same time. Tests have more: these yield as soon as they wait.
  size_t at_once = SIZE_MAX;
};

// `wanted`: threads, of which those beyond the processors that affinity allows are left out: they
// would only wait. 0: one for each core that may be used, as the second thread of a core adds next to
// nothing to kernels that keep its units busy, and for each whole processor of a quota.
ThreadPlan PlanThreads(size_t wanted, bool may_pin, const ProcessorLimits& limits,
                       const Topology& topology);
// For the processors that this process may use.
ThreadPlan PlanThreads(size_t wanted, bool may_pin);

}  // namespace penstock

// How many processors this process may use: by its affinity, and by the time that the quotas of its
// control group and of those above it leave it (versions 1 and 2).
#pragma once

#include <cstddef>
#include <string>

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

// How a pool that computes is to be made. `wanted`: threads, 0 for as many as can be used.
struct ThreadPlan {
  size_t threads = 1;
  // To processors: where the threads are as many as the processors that are allowed, and no quota
  // cuts them. Else others may have some of these processors, and the system knows which are free.
  bool pin = false;
  // Waiting threads spin. Under a quota that would spend the time in which others work.
  bool spin = true;
};
ThreadPlan PlanThreads(size_t wanted, bool may_pin, const ProcessorLimits& limits);

}  // namespace penstock

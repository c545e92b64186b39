// Points in time and durations as numbers; for this module's own source files.
#pragma once

#include <chrono>
#include <cstdint>

#include "threads/request_context.h"

namespace penstock::sched {

inline int64_t Nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

inline double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace penstock::sched

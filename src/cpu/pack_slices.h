// Work in slices: of a load that shares the processor with models that serve. A slice is as large
// as the pace of those before allows, so that nobody waits for more than one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "threads/request_context.h"

namespace penstock::cpu {

struct SliceRule {
  // The most that a slice may take, and what it aims at: a pace that halves from one slice to the
  // next, for want of processors, keeps to the limit.
  static constexpr std::chrono::nanoseconds kLimit = std::chrono::milliseconds(10);
  static constexpr std::chrono::nanoseconds kAim = kLimit / 2;
};

// Calls slice(begin, end) for [0, count) cut into slices, which returns how long its part that
// counts took. `first`: items of the first slice, few enough for any machine. Later ones grow to
// twice the one before at most.
template <typename Slice>
void RunInSlices(size_t count, size_t first, Slice&& slice) {
  size_t items = std::max<size_t>(1, first);
  for (size_t begin = 0; begin < count;) {
    const size_t end = std::min(count, begin + items);
    const std::chrono::nanoseconds took = slice(begin, end);
    const double each =
        static_cast<double>(std::max<int64_t>(1, took.count())) / static_cast<double>(end - begin);
    const double aimed = static_cast<double>(SliceRule::kAim.count()) / each;
    items = static_cast<size_t>(std::clamp(aimed, 1.0, 2.0 * static_cast<double>(items)));
    begin = end;
  }
}

}  // namespace penstock::cpu

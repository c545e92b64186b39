// TensorRunTimes: how long a model's runs take by their rows, as moving averages, for which runs a
// submitting thread may do itself and how large a bulk batch may be.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace penstock::sched {

// Any thread; of two that observe at once one may be lost.
class TensorRunTimes {
 public:
  void Observe(uint32_t rows, double seconds) {
    constexpr double kNewest = 0.1;
    std::atomic<double>& average = seconds_[Index(rows)];
    const double old = average.load(std::memory_order_relaxed);
    average.store(old == 0 ? seconds : old + kNewest * (seconds - old), std::memory_order_relaxed);
  }
  // The average time of a run of `rows` rows; if no such run was seen, that of the next larger size
  // that was; 0 if there is none.
  double Seconds(uint32_t rows) const {
    for (size_t i = Index(rows); i < kSizes; ++i) {
      if (const double known = seconds_[i].load(std::memory_order_relaxed); known > 0) return known;
    }
    return 0;
  }
  // The largest run up to `rows_max` that takes no longer, at least 1 row; rows_max if none took
  // longer.
  uint32_t RowsWithin(double seconds, uint32_t rows_max) const {
    for (size_t i = 0; i < kSizes; ++i) {
      const double known = seconds_[i].load(std::memory_order_relaxed);
      if (known > seconds) return std::min(rows_max, i < 2 ? 1 : uint32_t{1} << (i - 1));
    }
    return rows_max;
  }

 private:
  static constexpr size_t kSizes = 33;
  // Runs of 2^(i-1) + 1 to 2^i rows are one size.
  static size_t Index(uint32_t rows) {
    return static_cast<size_t>(std::bit_width(std::max(rows, 1u) - 1));
  }

  std::array<std::atomic<double>, kSizes> seconds_{};
};

}  // namespace penstock::sched

#include "bench/arithmetic_peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace penstock::bench {

double ArithmeticPeak(const cpu::Kernels& kernels, numbers::DType dtype, ThreadPool* pool) {
  constexpr size_t kSteps = 200000;  // about 1.5 ms
  double best = 0;
  // The first time, threads may have to be woken.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> done(pool->threads(), 0);
    pool->ParallelFor(4 * pool->threads(), [&](size_t, size_t thread) {
      done[thread] += kernels.peak(dtype, kSteps / (dtype == numbers::DType::kF32 ? 1 : 2));
    });
    double operations = 0;
    for (double d : done) operations += d;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / seconds.count());
  }
  return best;
}

}  // namespace penstock::bench

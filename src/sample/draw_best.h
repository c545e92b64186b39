// The draw from the best logits of a row: one source for the host and for a device, in arithmetic
// without fused operations (g++ -ffp-contract=off, nvcc --fmad=false), so that both draw the same
// token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PENSTOCK_HOST_DEVICE __host__ __device__
#else
#define PENSTOCK_HOST_DEVICE
#endif

namespace penstock::sample {

// Steps 3 to 7 of sampler.h for a token that is drawn from the best alone.
struct DrawRule {
  double uniform;     // in [0, 1), the number that draws it
  float temperature;  // 0: greedy
  float top_p;
  float min_p;
  int32_t keep;  // top-k, 1 to kCandidatesMax; 0: nothing is drawn
};

// exp(-d) for d >= 0; 0 from 708 on. Relative error below 1e-15: Cody and Waite's reduction to
// |r| <= ln 2 / 2, then Taylor's series to the thirteenth power, whose next term is below 5e-18.
PENSTOCK_HOST_DEVICE inline double ExpNegative(double d) {
  if (!(d < 708)) return 0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const auto n = static_cast<int32_t>(d * 1.4426950408889634 + 0.5);
  const auto whole = static_cast<double>(n);
  const double r = (whole * kLn2High - d) + whole * kLn2Low;
  // 1 / 13!, 1 / 12!, ... 1.
  constexpr double kTerms[] = {1.0 / 6227020800,
                               1.0 / 479001600,
                               1.0 / 39916800,
                               1.0 / 3628800,
                               1.0 / 362880,
                               1.0 / 40320,
                               1.0 / 5040,
                               1.0 / 720,
                               1.0 / 120,
                               1.0 / 24,
                               1.0 / 6,
                               0.5,
                               1.0,
                               1.0};
  double sum = 0;
  for (const double term : kTerms) sum = sum * r + term;
  const uint64_t bits = static_cast<uint64_t>(1023 - n) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return sum * scale;
}

// Which of `count` logits, the best first, is drawn (steps 3, 5 to 7; step 4: count <= rule.keep).
// logit(i) is the i-th. `weights`: [count], scratch.
template <typename LogitAt>
PENSTOCK_HOST_DEVICE inline int32_t DrawBest(const DrawRule& rule, int32_t count, double* weights,
                                             LogitAt&& logit) {
  if (rule.temperature == 0 || count == 1) return 0;
  const auto temperature = static_cast<double>(rule.temperature);
  const auto first = static_cast<double>(logit(0));
  double total = 0;
  for (int32_t i = 0; i < count; ++i) {
    weights[i] = ExpNegative((first - static_cast<double>(logit(i))) / temperature);
    total += weights[i];
  }
  int32_t kept = count;
  if (rule.top_p < 1) {
    const double target = static_cast<double>(rule.top_p) * total;
    double sum = weights[0];
    for (kept = 1; kept < count && sum < target; ++kept) sum += weights[kept];
  }
  while (kept > 1 &&
         (weights[kept - 1] < static_cast<double>(rule.min_p) || weights[kept - 1] == 0))
    --kept;
  double kept_sum = 0;
  for (int32_t i = 0; i < kept; ++i) kept_sum += weights[i];
  const double target = rule.uniform * kept_sum;
  double sum = weights[0];
  int32_t chosen = 0;
  while (chosen + 1 < kept && sum <= target) sum += weights[++chosen];
  return chosen;
}

}  // namespace penstock::sample

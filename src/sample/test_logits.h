// For tests and benchmarks: random logits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace penstock::sample {

// Normal logits; with `step` > 0 they are multiples of it, so that many are equal.
inline std::vector<float> RandomLogits(size_t count, uint32_t seed, float spread = 3,
                                       float step = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& x : logits) {
    x = normal(random);
    if (step > 0) x = std::round(x / step) * step;
  }
  return logits;
}

}  // namespace penstock::sample

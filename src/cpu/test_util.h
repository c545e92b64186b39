// What tests of products share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cpu/kernels.h"

namespace penstock {

// Normal numbers, the same for the same seed.
inline std::vector<float> NormalFloats(size_t n, unsigned seed, float mean, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, spread);
  std::vector<float> out(n);
  for (float& v : out) v = normal(random);
  return out;
}

inline std::unique_ptr<Backend> NewTestBackend(const cpu::Kernels& kernels, int threads) {
  auto backend =
      NewCpuBackend({.threads = threads, .pin = false, .isa = cpu::IsaName(kernels.isa)});
  EXPECT_TRUE(backend.ok());
  return *std::move(backend);
}

}  // namespace penstock

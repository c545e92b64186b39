// Helpers for tests of operations.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "cpu/cpu_device.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"
#include "program/view.h"

namespace penstock::cpu {

// Normal numbers, the same for the same seed.
inline std::vector<float> NormalFloats(size_t n, unsigned seed, float mean, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, spread);
  std::vector<float> out(n);
  for (float& v : out) v = normal(random);
  return out;
}

inline std::unique_ptr<CpuDevice> NewTestDevice(const Kernels& kernels, int threads) {
  return std::make_unique<CpuDevice>(&kernels, ThreadPlan{.threads = static_cast<size_t>(threads)});
}

// weight: [out, in]; bias: [out], or empty; factors: of the columns, or empty.
inline std::unique_ptr<PanelLinear> PackFor(CpuDevice* device, const std::vector<float>& weight,
                                            const std::vector<float>& bias, size_t in,
                                            numbers::DType dtype,
                                            const std::vector<float>& factors = {}) {
  program::LinearRows rows = {program::ViewOf(weight, static_cast<int64_t>(in)), {}};
  if (!bias.empty()) rows.bias = program::ViewOf(bias, static_cast<int64_t>(bias.size()));
  auto packed = std::make_unique<PanelLinear>(rows, program::PackOptions{dtype, factors},
                                              static_cast<size_t>(device->kernels->panel),
                                              &device->weight_arena);
  device->ReserveLinear(*packed);
  return packed;
}

}  // namespace penstock::cpu

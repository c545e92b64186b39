// The device that goldens run on.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "cuda/cuda_backend.h"
#include "cuda/device_driver.h"
#include "cuda/device_emulated.h"

namespace penstock::cuda {

// The emulated device; with PENSTOCK_TEST_DEVICE=cuda the GPU of this machine, whatever is asked of
// the emulated one.
inline bool OnGpu() {
  const char* const device = std::getenv("PENSTOCK_TEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}
inline std::unique_ptr<Device> TestDevice(const EmulatedOptions& options) {
  if (!OnGpu()) return NewEmulatedDevice(options);
  auto device = OpenDriverDevice({});
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return device.ok() ? *std::move(device) : NewEmulatedDevice(options);
}

}  // namespace penstock::cuda

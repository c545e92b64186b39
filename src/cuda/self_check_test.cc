#include "cuda/self_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device_emulated.h"

namespace penstock::cuda {
namespace {

class SelfCheck : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "not under the thread sanitizer";
#endif
  }
  static std::vector<KernelHash> Run(const EmulatedOptions& options) {
    const auto device = NewEmulatedDevice(options);
    auto results = CheckKernelHashes(device.get());
    EXPECT_TRUE(results.ok()) << results.status().ToString();
    EXPECT_EQ(device->allocated_bytes(), 0u);
    return results.ok() ? *results : std::vector<KernelHash>();
  }
};

TEST_F(SelfCheck, TheEmulatorHasTheHashesOfTheTable) {
  const auto before = Run({.tensor_core = kAmpere}), from = Run({.tensor_core = kHopper});
  ASSERT_EQ(before.size(), kKernels);
  ASSERT_EQ(from.size(), kKernels);
  std::string table;
  bool same = true;
  for (size_t i = 0; i < kKernels; ++i) {
    same = same && before[i].ok() && from[i].ok();
    table += fmt::format("PENSTOCK_KERNEL_HASH({}, {:#x}, {:#x})\n", from[i].kernel, before[i].hash,
                         from[i].hash);
  }
  EXPECT_TRUE(same) << "the table of these kernels:\n" << table;
}

// Tensor cores of another kind, or a wrong order, would be told from the hashes.
TEST_F(SelfCheck, HashesTellTensorCoresApart) {
  const auto before = Run({.tensor_core = kAmpere}), from = Run({.tensor_core = kHopper});
  for (size_t i = 0; i < kKernels; ++i) {
    const std::string name = from[i].kernel;
    const bool in_f32 = name.starts_with("rows_") || name.ends_with("_f32");
    EXPECT_EQ(before[i].hash == from[i].hash, in_f32) << name;
  }
}

TEST_F(SelfCheck, DoesNotDependOnTheOrderOfThreads) {
  for (const auto& one : Run({.order = emulator::WakeOrder::kRandom,
                         .seed = 5,
                         .late_copies = true,
                         .overlaps = true})) {
    EXPECT_TRUE(one.ok()) << one.kernel;
  }
}

TEST_F(SelfCheck, AFailureOfTheDeviceIsToldWithTheKernel) {
  const auto device = NewEmulatedDevice({});
  device->FailCall(8, true);
  const auto results = CheckKernelHashes(device.get());
  EXPECT_EQ(results.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(results.status().message().find("gemm_mma_128x128_f16: "), 0u)
      << results.status().message();
}

}  // namespace
}  // namespace penstock::cuda

#include "cuda/self_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/device_emulated.h"
#include "cuda/race_hooks.h"

namespace penstock::cuda {
namespace {

class SelfCheck : public testing::Test {
 protected:
  static std::vector<KernelHash> Run(const EmulatedOptions& options) {
    const auto device = NewEmulatedDevice(options);
    auto results = CheckKernelHashes(device.get());
    EXPECT_TRUE(results.ok()) << results.status().ToString();
    EXPECT_EQ(device->allocated_bytes(), 0u);
    return results.ok() ? *results : std::vector<KernelHash>();
  }
  // Null: the device does not have the kernel.
  static const KernelHash* Find(const std::vector<KernelHash>& hashes, const std::string& kernel) {
    const auto found = std::find_if(hashes.begin(), hashes.end(),
                                    [&](const KernelHash& one) { return one.kernel == kernel; });
    return found == hashes.end() ? nullptr : &*found;
  }
};

TEST_F(SelfCheck, TheEmulatorHasTheHashesOfTheTable) {
  const auto before = Run({.tensor_core = kAmpere}), from = Run({.tensor_core = kHopper});
  ASSERT_EQ(from.size(), kKernels);
  std::string table;
  bool same = true;
  for (const KernelHash& one : from) {
    const KernelHash* const older = Find(before, one.kernel);
    same = same && one.ok() && (older == nullptr || older->ok());
    table += fmt::format("PENSTOCK_KERNEL_HASH({}, {:#x}, {:#x})\n", one.kernel,
                         older == nullptr ? 0 : older->hash, one.hash);
  }
  EXPECT_TRUE(same) << "the table of these kernels:\n" << table;
}

// Tensor cores of another kind, or a wrong order, would be told from the hashes.
TEST_F(SelfCheck, HashesTellTensorCoresApart) {
  if (race::kOn) GTEST_SKIP() << "the same launches as before";
  const auto before = Run({.tensor_core = kAmpere}), from = Run({.tensor_core = kHopper});
  for (const KernelHash& one : from) {
    const std::string name = one.kernel;
    const KernelHash* const older = Find(before, name);
    EXPECT_EQ(older == nullptr, name.starts_with("gemm_wgmma")) << name;
    if (older == nullptr) continue;
    const bool by_tensor_cores = (name.starts_with("gemm_") || name.starts_with("attention_") ||
                                  name.starts_with("paged_mma_")) &&
                                 !name.ends_with("_f32");
    EXPECT_NE(older->hash == one.hash, by_tensor_cores) << name;
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
  EXPECT_EQ(results.status().message().find("gemm_wgmma_f16: "), 0u) << results.status().message();
}

}  // namespace
}  // namespace penstock::cuda

// The self-check of a device: every kernel on fixed inputs, whose results must be those of the
// emulator to the bit (self_check_hashes.inc).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cuda/device.h"

namespace penstock::cuda {

struct KernelHash {
  const char* kernel;
  uint64_t hash;      // of the bytes of all results
  uint64_t expected;  // for its compute capability
  bool ok() const { return hash == expected; }
};

// One for each kernel that the device has, in the order of KernelId. Takes 2 MB of the device, and 2 MB of pinned memory. Errors: the device's.
Expected<std::vector<KernelHash>> CheckKernelHashes(Device* device);

}  // namespace penstock::cuda

// The time of every kernel of an encoder in f16 on a device.
#pragma once

#include <vector>

#include "base/status.h"
#include "cuda/device.h"
#include "program/kernel_time.h"

namespace penstock::cuda {

// For each number of tokens: the four products of a layer by each kernel that can do them, attention,
// norm, embedding; then what a node of a graph takes that has nothing to do. Takes memory for the
// largest number, about 18 KB a token at a width of 768, and 12 layers of weights. Errors: the
// device's.
Expected<std::vector<program::KernelTime>> TimeKernels(Device* device,
                                                       const program::KernelTimeOptions& options);

}  // namespace penstock::cuda

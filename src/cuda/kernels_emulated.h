// Kernels as functions of the emulator.
#pragma once

#include <functional>

#include "cuda/device.h"

namespace penstock::cuda {

// What each thread of the launch runs; `launch` must outlive it.
std::function<void()> EmulatedKernel(const KernelLaunch& launch);

}  // namespace penstock::cuda

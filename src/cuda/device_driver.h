// A GPU by NVIDIA's driver, which is opened at run time: nothing of CUDA is linked.
//
// The driver library is libcuda.so.1; the environment variable PENSTOCK_CUDA_DRIVER names another
// file. CUDA_VISIBLE_DEVICES says which GPU is the first one, which is taken.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cuda/device.h"
#include "cuda/kernel_images.h"

namespace penstock::cuda {

struct DriverOptions {
  std::string library;  // empty: as above
  int number = 0;       // of the GPU, from 0, in the driver's order
  std::span<const KernelImage> images = BuiltKernelImages();
};

// Opens a GPU. The first allocation creates its context, which takes memory. Errors: kUnavailable
// where the driver or the GPU is missing; kUnsupported where the program has no kernels for this GPU
// or the driver lacks a function.
Expected<std::unique_ptr<Device>> OpenDriverDevice(const DriverOptions& options = {});

}  // namespace penstock::cuda

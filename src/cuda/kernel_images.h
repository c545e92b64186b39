// The kernels as compiled for GPUs, which are data in the program (cmake/cuda.cmake).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::cuda {

// Kernels of one compilation, zstd-compressed.
struct KernelImage {
  const char* name;                                         // "sm_90a"
  int major, minor;                                         // compute capability that it is for
  enum class Runs { kHere, kMinorsAbove, kAllAbove } runs;  // besides; kAllAbove: PTX
  std::span<const unsigned char> compressed;
};

// What the program was built with; empty: without kernels.
std::span<const KernelImage> BuiltKernelImages();

// The best one for a GPU; null: none runs there.
const KernelImage* FindKernelImage(std::span<const KernelImage> images, int major, int minor);
// kInternal: the image is broken.
Expected<std::vector<char>> UnpackKernelImage(const KernelImage& image);

}  // namespace penstock::cuda

// The kernels of a GPU, compiled for each architecture (tools/check_cuda.py).
#include "cuda/attention-inl.h"
#include "cuda/attention_f32-inl.h"
#include "cuda/gemm_f32-inl.h"
#include "cuda/gemm_mma-inl.h"
#include "cuda/gemm_narrow-inl.h"
#include "cuda/gemm_wgmma-inl.h"
#include "cuda/logits-inl.h"
#include "cuda/paged_attention-inl.h"
#include "cuda/paged_mma-inl.h"
#include "cuda/rows-inl.h"
#include "cuda/unpack-inl.h"

using namespace penstock::cuda;  // NOLINT: the kernels' own file

// Blocks that a multiprocessor shall hold.
template <typename Kernel>
constexpr int ResidentOf() {
  if constexpr (requires { Kernel::kResident; }) return Kernel::kResident;
  return 1;
}

#define PENSTOCK_KERNEL(name, args, ...)                                   \
  SIMT_KERNEL void SIMT_BOUNDS((__VA_ARGS__::kThreads), (ResidentOf<__VA_ARGS__>()))               \
  name(const __grid_constant__ args a) {                                   \
    __VA_ARGS__::Run(a);                                                   \
  }
#include "cuda/kernel_list.inc"

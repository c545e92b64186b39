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

#define PENSTOCK_KERNEL(name, args, ...)                                            \
  SIMT_KERNEL void SIMT_BOUNDS((__VA_ARGS__::kThreads), 1) name(const __grid_constant__ args a) { \
    __VA_ARGS__::Run(a);                                                            \
  }
#include "cuda/kernel_list.inc"

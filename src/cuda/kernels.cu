// The kernels of a GPU, compiled for each architecture (tools/check_cuda.py).
#include "cuda/gemm_mma-inl.h"

using namespace penstock::cuda;  // NOLINT: the kernels' own file

#define PENSTOCK_GEMM(name, tile, half)                                                  \
  SIMT_KERNEL void SIMT_BOUNDS(tile<half>::kThreads, 1) name(const GemmArgs a) { \
    tile<half>::Run(a);                                                                  \
  }
PENSTOCK_GEMM(gemm_mma_128x128_f16, GemmMmaLarge, true)
PENSTOCK_GEMM(gemm_mma_128x128_bf16, GemmMmaLarge, false)
PENSTOCK_GEMM(gemm_mma_64x64_f16, GemmMmaMiddle, true)
PENSTOCK_GEMM(gemm_mma_64x64_bf16, GemmMmaMiddle, false)
PENSTOCK_GEMM(gemm_mma_32x64_f16, GemmMmaSmall, true)
PENSTOCK_GEMM(gemm_mma_32x64_bf16, GemmMmaSmall, false)

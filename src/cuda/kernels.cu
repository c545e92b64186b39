// The kernels of a GPU, compiled for each architecture (tools/check_cuda.py).
#include "cuda/attention-inl.h"
#include "cuda/gemm_mma-inl.h"
#include "cuda/rows-inl.h"

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

#define PENSTOCK_ATTENTION(name, depth, half)                                                  \
  SIMT_KERNEL void SIMT_BOUNDS(128, 1) name(const AttentionArgs a) { Attention<depth, half>::Run(a); }
PENSTOCK_ATTENTION(attention_32_f16, 32, true)
PENSTOCK_ATTENTION(attention_32_bf16, 32, false)
PENSTOCK_ATTENTION(attention_64_f16, 64, true)
PENSTOCK_ATTENTION(attention_64_bf16, 64, false)
PENSTOCK_ATTENTION(attention_128_f16, 128, true)
PENSTOCK_ATTENTION(attention_128_bf16, 128, false)

SIMT_KERNEL void SIMT_BOUNDS(32 * kRowsABlock, 1) rows_norm(const NormArgs a) { RunNorm(a); }
SIMT_KERNEL void SIMT_BOUNDS(32 * kRowsABlock, 1) rows_embed(const EmbedArgs a) { RunEmbed(a); }
SIMT_KERNEL void SIMT_BOUNDS(32 * kRowsABlock, 1) rows_pool(const PoolArgs a) { RunPool(a); }

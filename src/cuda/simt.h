// The primitives that kernels are written over: one source, compiled by nvcc for a GPU and by any
// compiler for the emulator. Both files below have the same names, with the same meaning.
//
// Blocks are 1-D, a multiple of 32 threads up to 512; grids are 2-D. Every primitive of a warp is
// called by all 32 lanes, from one place in the source. Kernels never leave before a Sync that
// others reach, and every thread waits once for the kernel before, also one that has nothing to do.
#pragma once

#ifdef __CUDACC__
#include "cuda/simt_cuda-inl.h"
#else
#include "cuda/simt_emulated-inl.h"
#endif

// The primitives of simt.h on a GPU, from compute capability 8.0 on: what each means is said in
// simt_emulated-inl.h. nvcc -std=c++20 -O3 --fmad=false, no fast math.
#pragma once

#include <cstdint>

#include "cuda/tile_map.h"

#define SIMT_FN __device__ __forceinline__
#define SIMT_KERNEL extern "C" __global__
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)

namespace penstock::cuda::simt {

struct alignas(16) Words {
  uint32_t w[4];
};
struct alignas(8) TwoWords {
  uint32_t w[2];
};

SIMT_FN uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// --- Places -------------------------------------------------------------------------------------

SIMT_FN int ThreadX() { return static_cast<int>(threadIdx.x); }
SIMT_FN int Lane() { return ThreadX() % 32; }
// From lane 0, so that the compiler knows that all lanes have it.
SIMT_FN int WarpIndex() { return __shfl_sync(~0U, ThreadX() / 32, 0); }
SIMT_FN int BlockX() { return static_cast<int>(blockIdx.x); }
SIMT_FN int BlockY() { return static_cast<int>(blockIdx.y); }
SIMT_FN int GridX() { return static_cast<int>(gridDim.x); }
SIMT_FN int GridY() { return static_cast<int>(gridDim.y); }
template <typename T>
SIMT_FN T* Shared() {
  extern __shared__ __align__(1024) unsigned char penstock_shared[];
  return reinterpret_cast<T*>(penstock_shared);
}

// --- Barriers -----------------------------------------------------------------------------------

SIMT_FN void Sync() { __syncthreads(); }
SIMT_FN void SyncBarrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
SIMT_FN void SyncWarp() { __syncwarp(); }

// --- Warps --------------------------------------------------------------------------------------

template <typename T>
SIMT_FN T Shuffle(T value, int lane) {
  return __shfl_sync(~0U, value, lane);
}
template <typename T>
SIMT_FN T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(~0U, value, mask);
}
SIMT_FN float WarpSum(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}
SIMT_FN float WarpMax(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, ShuffleXor(value, mask));
  return value;
}

SIMT_FN void LoadMatrix4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}
SIMT_FN void LoadMatrix4Transposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}
SIMT_FN uint32_t Transpose(uint32_t value) {
  uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
  return result;
}

#define PENSTOCK_MMA(type)                                                            \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
SIMT_FN void Mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  PENSTOCK_MMA("bf16");
}
SIMT_FN void MmaHalf(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  PENSTOCK_MMA("f16");
}
#undef PENSTOCK_MMA

// --- Copies to shared memory --------------------------------------------------------------------

SIMT_FN void CopyAsync16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}
SIMT_FN void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
SIMT_FN void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

using Barrier = uint64_t;
SIMT_FN void BarrierInit(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals)
               : "memory");
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
SIMT_FN void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
SIMT_FN void BarrierArrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
SIMT_FN void BarrierExpect(Barrier* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
SIMT_FN void BarrierWait(Barrier* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra end;\n"
      "bra again;\n"
      "end:\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
SIMT_FN void FenceProxyAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
SIMT_FN void CopyBulk(void* shared, const void* global, uint32_t bytes, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}
SIMT_FN void CopyTile(void* shared, const TileMap& map, int column, int row, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(SharedAddress(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(barrier))
      : "memory");
}
#endif

// --- Products of four warps ---------------------------------------------------------------------

// What sm_90a alone has; kernels for others have empty bodies.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kHasWgmma = true;
// Rows of 128 bytes in the swizzle of 128 bytes, eight of them 1,024 bytes.
SIMT_FN uint64_t TileDescriptor(const void* shared) {
  return (SharedAddress(shared) & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 |
         uint64_t{1} << 62;
}
SIMT_FN void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SIMT_FN void WgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroups>
SIMT_FN void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
SIMT_FN void WgmmaTake(float (&d)[24][4]) {
  SIMT_UNROLL
  for (int n = 0; n < 24; ++n) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[n][i])::"memory");
  }
}
template <int kRegisters>
SIMT_FN void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SIMT_FN void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// clang-format off
#define PENSTOCK_D4(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define PENSTOCK_WGMMA(type)                                                                  \
  asm volatile(                                                                               \
      "{\n"                                                                                   \
      ".reg .pred adds;\n"                                                                    \
      "setp.ne.b32 adds, %98, 0;\n"                                                           \
      "wgmma.mma_async.sync.aligned.m64n192k16.f32." type "." type " {"                       \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "      \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "      \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "      \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "      \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"        \
      "}, %96, %97, adds, 1, 1, 0, 0;\n"                                                      \
      "}"                                                                                     \
      : PENSTOCK_D4(0), PENSTOCK_D4(1), PENSTOCK_D4(2), PENSTOCK_D4(3),                       \
        PENSTOCK_D4(4), PENSTOCK_D4(5), PENSTOCK_D4(6), PENSTOCK_D4(7),                       \
        PENSTOCK_D4(8), PENSTOCK_D4(9), PENSTOCK_D4(10), PENSTOCK_D4(11),                     \
        PENSTOCK_D4(12), PENSTOCK_D4(13), PENSTOCK_D4(14), PENSTOCK_D4(15),                   \
        PENSTOCK_D4(16), PENSTOCK_D4(17), PENSTOCK_D4(18), PENSTOCK_D4(19),                   \
        PENSTOCK_D4(20), PENSTOCK_D4(21), PENSTOCK_D4(22), PENSTOCK_D4(23)                    \
      : "l"(x), "l"(w), "r"(static_cast<int>(adds)))
// clang-format on
template <bool kHalf>
SIMT_FN void Wgmma(float (&d)[24][4], uint64_t x, uint64_t w, bool adds) {
  if constexpr (kHalf) {
    PENSTOCK_WGMMA("f16");
  } else {
    PENSTOCK_WGMMA("bf16");
  }
}
#undef PENSTOCK_WGMMA
#undef PENSTOCK_D4
#else
inline constexpr bool kHasWgmma = false;
#endif

// --- Memory -------------------------------------------------------------------------------------

SIMT_FN Words LoadShared16(const void* at) { return *static_cast<const Words*>(at); }
SIMT_FN void StoreShared16(void* at, const Words& words) { *static_cast<Words*>(at) = words; }
SIMT_FN Words Load16(const void* at) { return *static_cast<const Words*>(at); }
SIMT_FN void Store16(void* at, const Words& words) { *static_cast<Words*>(at) = words; }
SIMT_FN TwoWords Load8(const void* at) { return *static_cast<const TwoWords*>(at); }
SIMT_FN void Store8(void* at, const TwoWords& words) { *static_cast<TwoWords*>(at) = words; }
SIMT_FN Words LoadStream16(const void* at) {
  Words words;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.w[0]), "=r"(words.w[1]), "=r"(words.w[2]), "=r"(words.w[3])
               : "l"(at));
  return words;
}
SIMT_FN TwoWords LoadStream8(const void* at) {
  TwoWords words;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(words.w[0]), "=r"(words.w[1])
               : "l"(at));
  return words;
}
SIMT_FN void PrefetchL2(const void* at, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(bytes));
#else
  (void)bytes;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}
SIMT_FN int AtomicAdd(int* at, int value) { return atomicAdd(at, value); }
SIMT_FN int LoadAcquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
SIMT_FN void StoreRelease(int* at, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
SIMT_FN void Pause() { __nanosleep(20); }

// --- Kernels one behind the other ---------------------------------------------------------------

SIMT_FN void WaitForPrerequisites() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
SIMT_FN void LaunchDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// --- Numbers ------------------------------------------------------------------------------------

SIMT_FN float Max(float a, float b) { return fmaxf(a, b); }
SIMT_FN float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SIMT_FN float Divide(float a, float b) { return __fdiv_rn(a, b); }
SIMT_FN float Sqrt(float a) { return __fsqrt_rn(a); }
SIMT_FN uint32_t BitsOf(float a) { return __float_as_uint(a); }
SIMT_FN float FloatOf(uint32_t bits) { return __uint_as_float(bits); }
SIMT_FN uint32_t PackBf16(float low, float high) {
  uint32_t two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
SIMT_FN uint32_t FmaHalf2(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t two;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(two) : "r"(a), "r"(b), "r"(c));
  return two;
}
SIMT_FN uint32_t MulHalf2(uint32_t a, uint32_t b) {
  uint32_t two;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(two) : "r"(a), "r"(b));
  return two;
}
SIMT_FN uint32_t AddHalf2(uint32_t a, uint32_t b) {
  uint32_t two;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(two) : "r"(a), "r"(b));
  return two;
}
SIMT_FN uint32_t Permute(uint32_t a, uint32_t b, uint32_t which) {
  return __byte_perm(a, b, which);
}
SIMT_FN float HalfToFloat(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
SIMT_FN uint32_t PackHalf(float low, float high) {
  uint32_t two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}

}  // namespace penstock::cuda::simt

#include "cuda/simt_math-inl.h"

// The primitives of simt.h for the emulator.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/emulator.h"
#include "cuda/mma_model.h"
#include "cuda/race_hooks.h"
#include "numbers/dtype.h"

#define SIMT_FN inline
#define SIMT_KERNEL inline
#define SIMT_UNROLL
#define SIMT_BOUNDS(threads, blocks)

namespace penstock::cuda::simt {

struct alignas(16) Words {  // 16 bytes
  uint32_t w[4];
};
struct alignas(8) TwoWords {
  uint32_t w[2];
};

// --- Places -------------------------------------------------------------------------------------

SIMT_FN int ThreadX() { return emulator::Here().thread; }
SIMT_FN int Lane() { return ThreadX() % emulator::kWarpThreads; }
// By all lanes of a warp at once: a GPU reads it from lane 0.
SIMT_FN int WarpIndex() { return ThreadX() / emulator::kWarpThreads; }
SIMT_FN int BlockX() { return emulator::Here().block_x; }
SIMT_FN int BlockY() { return emulator::Here().block_y; }
SIMT_FN int GridX() { return emulator::Here().grid_x; }
SIMT_FN int GridY() { return emulator::Here().grid_y; }
// The block's shared memory, at a multiple of 1,024 bytes; undefined at first.
template <typename T>
SIMT_FN T* Shared() {
  return reinterpret_cast<T*>(emulator::SharedMemory());
}

// --- Barriers: of the block, of some of its threads, of a warp ----------------------------------

SIMT_FN void Sync() { emulator::MeetBlock(0, 0); }
SIMT_FN void SyncBarrier(int id, int threads) { emulator::MeetBlock(id, threads); }
SIMT_FN void SyncWarp() { emulator::MeetWarp("SyncWarp", nullptr, nullptr); }

// --- Warps --------------------------------------------------------------------------------------

// The value of lane `lane`. Like the others here it orders no memory.
template <typename T>
SIMT_FN T Shuffle(T value, int lane) {
  struct Slot {
    T value;
    int lane;
    T result;
  } slot{value, lane, {}};
  emulator::MeetWarp("Shuffle", &slot, [](void** lanes) {
    for (int i = 0; i < emulator::kWarpThreads; ++i) {
      auto* const one = static_cast<Slot*>(lanes[i]);
      one->result = static_cast<Slot*>(lanes[one->lane & 31])->value;
    }
  });
  return slot.result;
}
template <typename T>
SIMT_FN T ShuffleXor(T value, int mask) {
  return Shuffle(value, Lane() ^ mask);
}
// By butterflies of 16, 8, 4, 2, 1: the same bits in all lanes.
SIMT_FN float WarpSum(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}
SIMT_FN float WarpMax(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = std::fmax(value, ShuffleXor(value, mask));
  return value;
}

template <bool kTransposed>
SIMT_FN void LoadMatrices(const char* name, uint32_t (&r)[4], const void* row) {
  struct Slot {
    const void* row;
    uint32_t* r;
  } slot{row, r};
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) emulator::Fail("LoadMatrix4 of a row unaligned");
  race::Read(row, 16);
  emulator::MeetWarp(name, &slot, [](void** lanes) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::array<const void*, 8> rows{};
      for (int i = 0; i < 8; ++i) {
        rows[static_cast<size_t>(i)] = static_cast<Slot*>(lanes[8 * matrix + i])->row;
      }
      emulator::CountSharedRows(rows);
      const auto cell = [&](int at, int column) -> uint32_t {
        return static_cast<const uint16_t*>(rows[static_cast<size_t>(at)])[column];
      };
      for (int lane = 0; lane < emulator::kWarpThreads; ++lane) {
        const int own = lane / 4, first = 2 * (lane % 4);
        static_cast<Slot*>(lanes[lane])->r[matrix] =
            kTransposed ? cell(first, own) | cell(first + 1, own) << 16
                        : cell(own, first) | cell(own, first + 1) << 16;
      }
    }
  });
}
// Four 8x8 matrices of 16-bit values: lane l gives the address of row l % 8 of matrix l / 8, 16
// aligned bytes of shared memory. r[i]: of matrix i, row lane / 4, columns 2 (lane % 4) and the next.
SIMT_FN void LoadMatrix4(uint32_t (&r)[4], const void* row) {
  LoadMatrices<false>("LoadMatrix4", r, row);
}
// The same with each matrix transposed: r[i] has of matrix i column lane / 4, rows 2 (lane % 4) and
// the next.
SIMT_FN void LoadMatrix4Transposed(uint32_t (&r)[4], const void* row) {
  LoadMatrices<true>("LoadMatrix4Transposed", r, row);
}

// An 8x8 matrix of 16-bit values that a warp holds as LoadMatrix4 gives one, transposed.
SIMT_FN uint32_t Transpose(uint32_t value) {
  struct Slot {
    uint32_t value, result;
  } slot{value, 0};
  emulator::MeetWarp("Transpose", &slot, [](void** lanes) {
    uint16_t cells[8][8];
    for (int lane = 0; lane < emulator::kWarpThreads; ++lane) {
      const uint32_t two = static_cast<Slot*>(lanes[lane])->value;
      cells[lane / 4][2 * (lane % 4)] = static_cast<uint16_t>(two);
      cells[lane / 4][2 * (lane % 4) + 1] = static_cast<uint16_t>(two >> 16);
    }
    for (int lane = 0; lane < emulator::kWarpThreads; ++lane) {
      const int row = lane / 4, column = 2 * (lane % 4);
      static_cast<Slot*>(lanes[lane])->result =
          cells[column][row] | static_cast<uint32_t>(cells[column + 1][row]) << 16;
    }
  });
  return slot.result;
}

// d[16][8] += a[16][16] b[8][16]^T with sums as mma_model.h has them. Fragments as in PTX's
// mma.m16n8k16: with g = lane / 4 and t = lane % 4, a: rows g, g + 8, g, g + 8, columns 2t and the
// next, for the last two 8 more; b: row g, the same columns; d: rows g, g, g + 8, g + 8, columns
// 2t, 2t + 1.
template <Operand kType>
SIMT_FN void MmaOf(const char* name, float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                   uint32_t b1) {
  struct Slot {
    float* d;
    const uint32_t* a;
    uint32_t b[2];
  } slot{d, a, {b0, b1}};
  emulator::MeetWarp(name, &slot, [](void** lanes) {
    uint16_t bits[24][16];  // rows, then columns
    float values[24][16], sums[16][8];
    const auto put = [](uint16_t* to, uint32_t two) {
      to[0] = static_cast<uint16_t>(two);
      to[1] = static_cast<uint16_t>(two >> 16);
    };
    for (int lane = 0; lane < emulator::kWarpThreads; ++lane) {
      const auto* const from = static_cast<const Slot*>(lanes[lane]);
      const int g = lane / 4, t = 2 * (lane % 4);
      for (int i = 0; i < 4; ++i) {
        put(&bits[g + i % 2 * 8][t + i / 2 * 8], from->a[i]);
        sums[g + i / 2 * 8][t + i % 2] = from->d[i];
      }
      put(&bits[16 + g][t], from->b[0]);
      put(&bits[16 + g][t + 8], from->b[1]);
    }
    OperandValues({&bits[0][0], 24 * 16}, kType, &values[0][0]);
    MmaTile(emulator::Core(), kType, values, values + 16, sums);
    for (int lane = 0; lane < emulator::kWarpThreads; ++lane) {
      const auto* const to = static_cast<const Slot*>(lanes[lane]);
      for (int i = 0; i < 4; ++i) to->d[i] = sums[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
    }
    emulator::CountMma();
  });
}
SIMT_FN void Mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  MmaOf<Operand::kBf16>("Mma", d, a, b0, b1);
}
SIMT_FN void MmaHalf(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  MmaOf<Operand::kF16>("MmaHalf", d, a, b0, b1);
}

// --- Copies to shared memory --------------------------------------------------------------------

// 16 aligned bytes; not valid: zeros, and nothing is read.
SIMT_FN void CopyAsync16(void* shared, const void* global, bool valid) {
  race::Write(shared, 16);
  if (valid) race::Read(global, 16);
  emulator::CopyAsync16(shared, global, valid);
}
SIMT_FN void CommitCopies() { emulator::CommitCopies(); }
// This thread's copies but those of the last kGroups groups are there; for others after a barrier.
template <int kGroups>
SIMT_FN void WaitCopies() {
  emulator::WaitCopies(kGroups);
}

// A barrier in shared memory, 8 bytes. A phase ends when all arrivals and all bytes that were
// expected have come. Init by one thread, then a Sync.
using Barrier = uint64_t;
SIMT_FN void BarrierInit(Barrier* barrier, int arrivals) {
  race::Write(barrier, sizeof(*barrier));
  emulator::BarrierInit(barrier, arrivals);
}
// Makes inits known to what copies; by the thread that did them.
SIMT_FN void FenceBarrierInit() { emulator::FenceBarriers(); }
SIMT_FN void BarrierArrive(Barrier* barrier) {
  race::Read(barrier, sizeof(*barrier));
  emulator::BarrierArrive(barrier, 0);
}
// Arrives, and has the phase wait for `bytes` of copies.
SIMT_FN void BarrierExpect(Barrier* barrier, uint32_t bytes) {
  race::Read(barrier, sizeof(*barrier));
  emulator::BarrierArrive(barrier, bytes);
}
// Waits for the end of the phase of that parity; the one before the first has ended.
SIMT_FN void BarrierWait(Barrier* barrier, int parity) {
  race::Read(barrier, sizeof(*barrier));
  emulator::BarrierWait(barrier, parity);
}
// Between stores of threads to shared memory and what reads them there beside the threads, as Wgmma
// does. By the threads that store, then a barrier. Without it a GPU may read what was there before;
// only the thread sanitizer finds that, by race_hooks.h: the emulator does not see plain stores.
SIMT_FN void FenceProxyAsync() { emulator::FenceAsync(); }
// By one thread; a multiple of 16 bytes. What is overwritten must have been waited for.
SIMT_FN void CopyBulk(void* shared, const void* global, uint32_t bytes, Barrier* barrier) {
  emulator::CopyBulk(shared, global, bytes, barrier);
}
// The same for a tile from that column and row on: rows of 64 values, 128 bytes, whose 16-byte
// columns change places: column c of row r lies at c ^ r % 8. Zeros beyond the matrix; all bytes of
// the tile count.
SIMT_FN void CopyTile(void* shared, const TileMap& map, int column, int row, Barrier* barrier) {
  emulator::CopyTile(shared, map, column, row, barrier);
}

// --- Products of four warps ---------------------------------------------------------------------

inline constexpr bool kHasWgmma = true;
// Rows as CopyTile leaves them, 128 bytes from each to the next, eight at a multiple of 1,024; from
// a multiple of 32 bytes of the row on.
SIMT_FN uint64_t TileDescriptor(const void* shared) { return reinterpret_cast<uintptr_t>(shared); }
// Before products whose sums the thread has read or written.
SIMT_FN void WgmmaFence() {
  emulator::MeetWarp("WgmmaFence", nullptr, [](void**) { emulator::FenceProducts(); });
}
// d[64][192] = x[64][16] w[192][16]^T, or += with `adds`; sums as mma_model.h has them. Warp i of
// four has rows 16 i to 16 i + 15, of each 8 columns as Mma has them. Operands may be read and d
// written at any time from the call until it is waited for.
template <bool kHalf>
SIMT_FN void Wgmma(float (&d)[24][4], uint64_t x, uint64_t w, bool adds) {
  struct Slot {
    float (*d)[4];
    uint64_t x, w;
    bool adds;
    int warp;
  } slot{d, x, w, adds, WarpIndex() % 4};
  emulator::MeetWarp(kHalf ? "WgmmaHalf" : "Wgmma", &slot, [](void** lanes) {
    const auto* const first = static_cast<const Slot*>(lanes[0]);
    emulator::Product product = {.x = first->x + static_cast<uint64_t>(first->warp) * 16 * 128,
                                 .w = first->w,
                                 .adds = first->adds,
                                 .type = kHalf ? Operand::kF16 : Operand::kBf16,
                                 .d = {}};
    for (size_t lane = 0; lane < emulator::kWarpThreads; ++lane) {
      const auto* const one = static_cast<const Slot*>(lanes[lane]);
      if (one->x != first->x || one->w != first->w || one->adds != first->adds) {
        emulator::Fail("lanes of a product differ");
      }
      product.d[lane] = one->d;
    }
    emulator::StartProduct(product);
  });
}
// Products so far are a group; all but the last kGroups groups have ended after the wait.
SIMT_FN void WgmmaCommit() {
  emulator::MeetWarp("WgmmaCommit", nullptr, [](void**) { emulator::CommitProducts(); });
}
template <int kGroups>
SIMT_FN void WgmmaWait() {
  emulator::MeetWarp("WgmmaWait", nullptr, [](void**) { emulator::FinishProducts(kGroups); });
  if constexpr (race::kOn) emulator::SeeProducts();
}
// After the wait, before the sums are read: nothing that reads them may be moved above it.
SIMT_FN void WgmmaTake(float (&)[24][4]) {}
// Four warps share their registers out anew.
template <int kRegisters>
SIMT_FN void GiveRegisters() {}
template <int kRegisters>
SIMT_FN void TakeRegisters() {}

// --- Memory -------------------------------------------------------------------------------------

SIMT_FN Words LoadShared16(const void* at) {
  emulator::CountShared(at);
  Words words;
  std::memcpy(&words, at, sizeof(words));
  return words;
}
SIMT_FN void StoreShared16(void* at, const Words& words) {
  emulator::CountShared(at);
  std::memcpy(at, &words, sizeof(words));
}
SIMT_FN Words Load16(const void* at) {
  emulator::CountGlobal(at);
  Words words;
  std::memcpy(&words, at, sizeof(words));
  return words;
}
SIMT_FN void Store16(void* at, const Words& words) {
  emulator::CountGlobal(at);
  std::memcpy(at, &words, sizeof(words));
}
SIMT_FN TwoWords Load8(const void* at) {
  TwoWords words;
  std::memcpy(&words, at, sizeof(words));
  return words;
}
SIMT_FN void Store8(void* at, const TwoWords& words) { std::memcpy(at, &words, sizeof(words)); }
// Weights: read once, and not written while a kernel runs.
SIMT_FN Words LoadStream16(const void* at) { return Load16(at); }
SIMT_FN TwoWords LoadStream8(const void* at) { return Load8(at); }
SIMT_FN void PrefetchL2(const void*, uint32_t) {}
SIMT_FN int AtomicAdd(int* at, int value) {
  return std::atomic_ref<int>(*at).fetch_add(value, std::memory_order_relaxed);
}
SIMT_FN int LoadAcquire(const int* at) {
  return std::atomic_ref<const int>(*at).load(std::memory_order_acquire);
}
SIMT_FN void StoreRelease(int* at, int value) {
  std::atomic_ref<int>(*at).store(value, std::memory_order_release);
}
// In a loop that waits for another block.
SIMT_FN void Pause() { emulator::Yield(); }

// --- Kernels one behind the other ---------------------------------------------------------------

// Before it, nothing that the kernel before writes may be read, and nothing global written.
SIMT_FN void WaitForPrerequisites() { emulator::WaitForPrerequisites(); }
// The next kernel may begin.
SIMT_FN void LaunchDependents() {}

// --- Numbers ------------------------------------------------------------------------------------

// The number, where one of them is NaN.
SIMT_FN float Max(float a, float b) { return std::fmax(a, b); }
SIMT_FN float Fma(float a, float b, float c) { return std::fma(a, b, c); }
SIMT_FN float Divide(float a, float b) { return a / b; }
SIMT_FN float Sqrt(float a) { return std::sqrt(a); }
SIMT_FN uint32_t BitsOf(float a) { return std::bit_cast<uint32_t>(a); }
SIMT_FN float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
// To nearest, ties to even; `low` in the low half.
SIMT_FN uint32_t PackBf16(float low, float high) {
  const auto round = [](float value) -> uint32_t {
    const uint32_t bits = BitsOf(value);
    if (value != value) return bits >> 16 | 0x40;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  };
  return round(low) | round(high) << 16;
}
// Exact.
SIMT_FN float HalfToFloat(uint16_t half) { return numbers::HalfToFloat(half); }
SIMT_FN uint32_t PackHalf(float low, float high) {
  const auto round = [](float value) -> uint32_t {
    const uint32_t bits = BitsOf(value), sign = bits >> 16 & 0x8000;
    const float size = std::fabs(value);
    if (value != value) return sign | 0x7E00;
    if (size >= 65520) return sign | 0x7C00;
    if (size < 0x1p-14F) {  // subnormal: in steps of 2^-24
      return sign | static_cast<uint32_t>(std::nearbyint(size * 0x1p24F));
    }
    const uint32_t whole = (bits & 0x7FFFFFFF) - (112U << 23);
    return sign | (whole + 0xFFF + (whole >> 13 & 1)) >> 13;
  };
  return round(low) | round(high) << 16;
}

// To the nearest f16, ties to even.
SIMT_FN uint16_t HalfOfDouble(double value) {
  // Rounded to odd first, so that the second rounding is the only one that counts.
  auto rounded = static_cast<float>(value);
  if (double{rounded} != value && value == value) {
    uint32_t bits = BitsOf(rounded);
    if (std::fabs(double{rounded}) > std::fabs(value)) --bits;
    rounded = FloatOf(bits | 1);
  }
  return static_cast<uint16_t>(PackHalf(rounded, 0));
}
// Two values of f16 at a time, rounded once.
template <typename Function>
SIMT_FN uint32_t EachHalf(uint32_t a, uint32_t b, uint32_t c, Function&& function) {
  uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto value = [shift](uint32_t two) {
      return double{numbers::HalfToFloat(static_cast<uint16_t>(two >> shift))};
    };
    result |= uint32_t{HalfOfDouble(function(value(a), value(b), value(c)))} << shift;
  }
  return result;
}
SIMT_FN uint32_t FmaHalf2(uint32_t a, uint32_t b, uint32_t c) {
  return EachHalf(a, b, c, [](double x, double y, double z) { return x * y + z; });
}
SIMT_FN uint32_t MulHalf2(uint32_t a, uint32_t b) {
  return EachHalf(a, b, 0, [](double x, double y, double) { return x * y; });
}
SIMT_FN uint32_t AddHalf2(uint32_t a, uint32_t b) {
  return EachHalf(a, b, 0, [](double x, double y, double) { return x + y; });
}
// Four bytes of the eight of `a` (0 to 3) and `b` (4 to 7): those that the nibbles of `which` name.
SIMT_FN uint32_t Permute(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(bytes >> (8 * (which >> (4 * i) & 7)) & 0xFF) << (8 * i);
  }
  return result;
}

}  // namespace penstock::cuda::simt

#include "cuda/simt_math-inl.h"

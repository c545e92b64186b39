// The emulator: runs kernels of src/cuda/ on any machine, a thread of a kernel as a fiber of the
// thread that calls Launch. What a GPU leaves open is chosen by a seed, so that a kernel that is
// right by chance is found out: in which order threads go on, when copies read and land. Memory that
// a copy will write is poisoned until then.
//
// Errors of a kernel, all kInternal: a warp whose lanes call different primitives, a thread that
// leaves while others wait for it, threads that wait for ever (the message counts them by what they
// wait at), a barrier in shared memory before its init, or in copies before a fence of that, copies and
// products that no thread waits for, products before a fence, a thread that does not wait for its
// prerequisites.
//
// Under ThreadSanitizer a data race of a kernel is an error as well, in whatever order threads go on
// (race_hooks.h).
//
// The primitives by which kernels reach it are in simt_emulated-inl.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/status.h"
#include "cuda/mma_model.h"
#include "cuda/tile_map.h"

namespace penstock::cuda::emulator {

inline constexpr int kWarpThreads = 32;
inline constexpr int kBlockThreadsMax = 512;

struct LaunchShape {
  int grid_x = 1, grid_y = 1;
  int block = kWarpThreads;  // threads, a multiple of 32
  size_t shared_bytes = 0;
};

// Which of the threads that can go on does.
enum class WakeOrder {
  kFirst,   // the one that could first
  kLast,    // the one that could last
  kRandom,  // any
  kWarps,   // whole warps by a random rank: one far ahead, one far behind
};

struct LaunchOptions {
  TensorCore tensor_core = kHopper;
  WakeOrder order = WakeOrder::kFirst;
  uint64_t seed = 1;  // of orders, and of the order of blocks
  bool late_copies =
      false;              // they read their source when they are waited for, not when they are made
  bool together = false;  // all blocks at once, for kernels in which blocks wait for each other
  // The kernel before, which has not ended when this one begins: called once no thread of the first
  // block can go on without it, not on a fiber. May be empty.
  std::function<void()> before;
};

struct Counters {
  uint64_t shared_requests = 0;  // of 8 lanes with 16 bytes each
  uint64_t shared_waves = 0;     // that they took: as many as requests where no banks conflict
  uint64_t global_requests = 0;  // of 32 lanes with 16 bytes each
  uint64_t global_sectors = 0;   // of 32 bytes that they touched: 16 a request at best
  uint64_t mma = 0;              // 16x8x16 steps
};

// Runs `kernel` in every thread. Counters are added to, unless null.
Status Launch(const LaunchShape& shape, const LaunchOptions& options,
              const std::function<void()>& kernel, Counters* counters = nullptr);

// --- What primitives call, on a fiber -----------------------------------------------------------

struct Place {
  int thread = 0, block_x = 0, block_y = 0, grid_x = 1, grid_y = 1;
};
const Place& Here();
std::byte* SharedMemory();
const TensorCore& Core();

// All 32 lanes of a warp meet at one primitive; the last one computes for all, with the lanes'
// values in their order.
void MeetWarp(const char* primitive, void* lane, void (*compute)(void** lanes));
// As many threads of the block as `threads` says meet at barrier `id`; 0: all.
void MeetBlock(int id, int threads);
// Ends the launch with an error. Does not return.
[[noreturn]] void Fail(const char* what);
// Counts an access of 16 bytes by this lane.
void CountShared(const void* at);
void CountGlobal(const void* at);
void CountSharedRows(const std::array<const void*, 8>& rows);
void CountMma();

// Copies of this thread, in groups.
void CopyAsync16(void* to, const void* from, bool valid);
void CommitCopies();
void WaitCopies(int groups);

// Barriers in shared memory, which count arrivals and bytes.
void BarrierInit(uint64_t* barrier, int arrivals);
void BarrierArrive(uint64_t* barrier, uint32_t expected_bytes);
void BarrierWait(uint64_t* barrier, int parity);
// Copies by a barrier need it.
void FenceBarriers();
void CopyBulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier);
void CopyTile(void* to, const TileMap& map, int column, int row, uint64_t* barrier);

// A warp's part of a product of four warps: 16 rows, 192 columns, 16 of k. With late copies it is
// done when it is waited for, and its sums are poisoned until then. By one fiber for the warp.
struct Product {
  uint64_t x, w;  // addresses of shared memory
  bool adds;
  Operand type;
  std::array<float (*)[4], kWarpThreads> d;  // [24][4] of each lane
};
inline constexpr int kProductRows = 16, kProductColumns = 192, kProductDepth = 16;
// Where the operand at a place of a tile lies in the swizzle of 128 bytes: bits 4 to 6 of the address
// change by bits 7 to 9.
inline uint64_t OperandAddress(uint64_t tile, int row, int k) {
  const uint64_t plain = tile + static_cast<uint64_t>(row) * 128 + static_cast<uint64_t>(k) * 2;
  return plain ^ (plain >> 7 & 7) << 4;
}
void FenceProducts();
void StartProduct(const Product& product);
void CommitProducts();
void FinishProducts(int groups);
// For race_hooks.h, by each lane: the products that were waited for have read their operands.
void SeeProducts();
// What this thread has stored, or has seen stored, tensor cores see too. For race_hooks.h.
void FenceAsync();

// Lets others go on: for loops that look at memory again and again.
void Yield();
void WaitForPrerequisites();

}  // namespace penstock::cuda::emulator

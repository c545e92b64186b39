// CpuDevice: the kernels, threads and memory that the models of one CpuBackend share, and the mutex
// that guards them.
//
// Work is done in one of two ways: an operation spread over all threads (`ops`), or pieces that
// each thread takes through several operations alone (its Worker's ops). Both use the threads and
// the scratch, so only the holder of `mutex` may run operations, reserve or release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/cpu_ops.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "os/processors.h"
#include "threads/thread_pool.h"

namespace penstock::cpu {

class CpuDevice {
 public:
  // `exact`: CpuOptions::exact_threads.
  CpuDevice(const Kernels* kernels, const ThreadPlan& threads, bool exact = false);

  // "cpu (avx512, 2 threads)".
  std::string name() const;
  size_t workers() const { return pool.threads(); }
  // Calls piece(index, worker_ops, worker) for every index below count, begun in order; worker_ops
  // run on the calling worker alone. Returns when all are done.
  template <typename Piece>
  void RunPieces(size_t count, Piece&& piece) {
    if (alone_.empty()) {
      for (size_t index = 0; index < count; ++index) piece(index, &ops, size_t{0});
      return;
    }
    pool.ParallelFor(
        count, [&](size_t index, size_t worker) { piece(index, &alone_[worker]->ops, worker); });
  }

  // Allocates scratch for `weight`, in `ops` and in every worker's ops. Takes the mutex.
  void ReserveLinear(const PanelLinear& weight);

  // The rest, except ScratchBytes: the caller holds the mutex.
  // Allocates scratch for attention over sequences of up to `length` tokens.
  void ReserveAttention(size_t length, size_t head_size);
  // Bytes of all scratch. Any thread.
  uint64_t ScratchBytes() const;
  // Count the users of the scratch; the last one's release gives it back and returns its bytes.
  void HoldScratch() { ++scratch_holders_; }
  uint64_t ReleaseScratch();

  const Kernels* const kernels;
  const ThreadPlan plan;
  const bool exact_threads;
  HugePageArena weight_arena;  // and other memory that stays
  HugePageArena work_arena;    // activations and scratch
  ThreadPool pool;
  CpuOps ops;
  std::mutex mutex;

 private:
  struct Alone {
    explicit Alone(const Kernels* kernels)
        : pool(1, false), ops(kernels, &pool, &weight_arena, &work_arena) {}
    HugePageArena weight_arena;
    HugePageArena work_arena;
    ThreadPool pool;
    CpuOps ops;
  };

  std::vector<std::unique_ptr<Alone>> alone_;  // one a thread; empty where there is but one
  size_t scratch_holders_ = 0;
};

}  // namespace penstock::cpu

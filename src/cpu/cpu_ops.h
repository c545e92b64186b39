// CpuOps: the operations of programs, over arrays of floats, each spread over the threads of one
// pool. Owns the scratch they need. One operation at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/gemm_ops.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"
#include "program/program.h"
#include "threads/thread_pool.h"

namespace penstock::cpu {

// See AttentionOp.
struct AttentionArgs {
  const float* qkv = nullptr;        // [tokens, 3 * heads * head_size]
  std::span<const int32_t> offsets;  // [sequences + 1]
  program::AttentionShape shape;     // its tables are FloatTables
  program::Pick queries = program::Pick::kAll;
  std::span<const int32_t> skip;  // [sequences], for Pick::kFirst; or empty: 0
  float* out = nullptr;  // [tokens, heads * head_size]; one row a sequence if queries says so
};

struct PoolArgs {
  const float* x = nullptr;          // [tokens, width]
  std::span<const int32_t> offsets;  // [sequences + 1]
  std::span<const int32_t> skip;     // [sequences] leading tokens left out, or empty: none
  size_t width = 0;
  program::Pooling pooling = program::Pooling::kMean;
  float* out = nullptr;  // [sequences, out_stride], the first `width` of each row
  size_t out_stride = 0;
};

class CpuOps {
 public:
  // `resident`: of memory that stays; `scratch`: of memory that ReleaseScratch gives back. All four
  // must outlive this.
  CpuOps(const Kernels* kernels, ThreadPool* pool, HugePageArena* resident, HugePageArena* scratch);

  // Allocates scratch for operations with `weight`. Required for every matrix passed to them.
  void Reserve(const PanelLinear& weight) { gemm_.Reserve(weight); }
  // Allocates scratch for attention over sequences of up to `length` tokens, which then allocates
  // nothing.
  void ReserveAttention(size_t length, size_t head_size);
  uint64_t scratch_bytes() const { return scratch_bytes_.load(std::memory_order_relaxed); }
  // Returns the bytes given back.
  uint64_t ReleaseScratch();

  GemmOps& gemm() { return gemm_; }
  void Embed(const EmbedTask& task, size_t tokens, float* x);
  void Attention(const AttentionArgs& args);
  // y may be x.
  void NormRows(const float* x, size_t rows, size_t width, const NormWeights& norm, float* y);
  void Pool(const PoolArgs& args);

 private:
  size_t AttentionFloats(size_t length, size_t head_size) const;

  const Kernels* kernels_;
  ThreadPool* pool_;
  HugePageArena* scratch_arena_;
  GemmOps gemm_;
  std::vector<std::unique_ptr<AlignedBuffer>> attention_scratch_;  // one a thread
  std::atomic<uint64_t> scratch_bytes_{0};
};

// Bytes of a core's own cache (L2), as the system reports it; 256 KiB to 4 MiB.
size_t CacheBytes();
// The type of attention with these kernels in a model whose linear layers have type `linear`.
numbers::DType AttentionDType(const Kernels& kernels, numbers::DType linear);

}  // namespace penstock::cpu

#include "cpu/cpu_ops.h"

#include <unistd.h>

#include <algorithm>

#include "base/int_math.h"

namespace penstock::cpu {
namespace {

const float* Data(const program::Table* table) {
  return table == nullptr ? nullptr : static_cast<const FloatTable*>(table)->data();
}

}  // namespace

size_t CacheBytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes <= 0 ? size_t{1} << 20
                    : std::clamp<size_t>(static_cast<size_t>(bytes), 256 << 10, 4 << 20);
}

numbers::DType AttentionDType(const Kernels& kernels, numbers::DType linear) {
  return linear != numbers::DType::kF32 && kernels.multiplies_bf16 ? numbers::DType::kBf16
                                                                   : numbers::DType::kF32;
}

CpuOps::CpuOps(const Kernels* kernels, ThreadPool* pool, HugePageArena* resident,
               HugePageArena* scratch)
    : kernels_(kernels),
      pool_(pool),
      scratch_arena_(scratch),
      gemm_(kernels, pool, resident, CacheBytes()),
      attention_scratch_(pool->threads()) {}

size_t CpuOps::AttentionFloats(size_t length, size_t head_size) const {
  return std::max(kernels_->attention_scratch_floats(numbers::DType::kF32, length, head_size),
                  kernels_->attention_scratch_floats(numbers::DType::kBf16, length, head_size));
}

void CpuOps::ReserveAttention(size_t length, size_t head_size) {
  const size_t floats = AttentionFloats(length, head_size);
  for (std::unique_ptr<AlignedBuffer>& buffer : attention_scratch_) {
    const size_t had = buffer == nullptr ? 0 : buffer->size();
    if (had >= floats) continue;
    buffer.reset();  // first, so that old and new are never held at once
    scratch_bytes_.fetch_sub(had * sizeof(float), std::memory_order_relaxed);
    buffer = std::make_unique<AlignedBuffer>(floats, scratch_arena_);
    scratch_bytes_.fetch_add(floats * sizeof(float), std::memory_order_relaxed);
  }
}

uint64_t CpuOps::ReleaseScratch() {
  for (std::unique_ptr<AlignedBuffer>& buffer : attention_scratch_) buffer.reset();
  return scratch_bytes_.exchange(0, std::memory_order_relaxed);
}

void CpuOps::Embed(const EmbedTask& task, size_t tokens, float* x) {
  pool_->ParallelFor(CeilDiv(tokens, kRowsPerTask), [&](size_t part, size_t) {
    kernels_->embed(task, part * kRowsPerTask, std::min(tokens, (part + 1) * kRowsPerTask), x);
  });
}

void CpuOps::Attention(const AttentionArgs& args) {
  const program::AttentionShape& shape = args.shape;
  const size_t sequences = args.offsets.size() - 1;
  const size_t heads = static_cast<size_t>(shape.heads);
  const size_t size = static_cast<size_t>(shape.head_size);
  size_t longest = 0;
  for (size_t s = 0; s < sequences; ++s) {
    longest = std::max(longest, static_cast<size_t>(args.offsets[s + 1] - args.offsets[s]));
  }
  ReserveAttention(longest, size);
  const numbers::DType dtype = AttentionDType(*kernels_, shape.dtype);
  const float* bias = Data(shape.relative_bias);
  pool_->ParallelFor(sequences * heads, [&](size_t index, size_t thread) {
    const size_t sequence = index / heads;
    const size_t first = static_cast<size_t>(args.offsets[sequence]);
    const size_t head = index % heads;
    AttentionTask task;
    task.dtype = dtype;
    task.stride = 3 * heads * size;
    task.q = args.qkv + first * task.stride + head * size;
    task.k = task.q + heads * size;
    task.v = task.k + heads * size;
    task.out_stride = heads * size;
    task.out = args.out + first * task.out_stride + head * size;
    task.length = args.offsets[sequence + 1] - args.offsets[sequence];
    task.query_end = task.length;
    if (args.queries != program::Pick::kAll) {
      task.query_begin = task.length - 1;
      if (args.queries == program::Pick::kFirst) {
        task.query_begin = args.skip.empty() ? 0 : args.skip[sequence];
      }
      task.query_end = task.query_begin + 1;
      task.out = args.out + sequence * task.out_stride + head * size;
    }
    task.head_size = shape.head_size;
    task.scale = shape.scale;
    task.rope_cos = Data(shape.rope_cos);
    task.rope_sin = Data(shape.rope_sin);
    task.rope_size = shape.rope_size;
    task.rope_interleaved = shape.rope_interleaved;
    if (bias != nullptr) {
      const int32_t width = shape.relative_bias->width();
      task.relative_bias = bias + head * static_cast<size_t>(width);
      task.bias_reach = width / 2;
    }
    task.window = shape.window > 0 ? shape.window - 1 : 0;
    task.scratch = attention_scratch_[thread]->data();
    kernels_->attention(task);
  });
}

void CpuOps::NormRows(const float* x, size_t rows, size_t width, const NormWeights& norm,
                      float* y) {
  pool_->ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t part, size_t) {
    const size_t begin = part * kRowsPerTask;
    kernels_->add_norm(x + begin * width, nullptr, std::min(kRowsPerTask, rows - begin), width,
                       norm, nullptr, y + begin * width);
  });
}

void CpuOps::Pool(const PoolArgs& args) {
  pool_->ParallelFor(args.offsets.size() - 1, [&](size_t s, size_t) {
    const size_t skip = args.skip.empty() ? 0 : static_cast<size_t>(args.skip[s]);
    kernels_->pool(args.x + static_cast<size_t>(args.offsets[s]) * args.width, skip,
                   static_cast<size_t>(args.offsets[s + 1] - args.offsets[s]), args.width,
                   args.pooling, args.out + s * args.out_stride);
  });
}

}  // namespace penstock::cpu

#include "cpu/cpu_backend.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "common/thread_pool.h"
#include "common/waiting_lock.h"
#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"
#include "cpu/products.h"

namespace penstock {
namespace cpu {
namespace {

// A thread's own cache, where the system says; within sense, whatever it says.
size_t CacheBytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes <= 0 ? size_t{1} << 20
                    : std::clamp<size_t>(static_cast<size_t>(bytes), 256 << 10, 4 << 20);
}

size_t CeilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Kernels* kernels, size_t threads, bool pin)
      : kernels_(kernels),
        pool_(threads, pin),
        products_(kernels, &pool_, &weight_arena_, CacheBytes()),
        attention_scratch_(pool_.threads()) {
    if (pool_.threads() == 1) return;
    for (size_t lane = 0; lane < pool_.threads(); ++lane) {
      lanes_.push_back(std::make_unique<CpuBackend>(kernels, 1, false));
    }
  }

  std::string name() const override {
    return std::string("cpu (") + IsaName(kernels_->isa) + ", " + std::to_string(pool_.threads()) +
           (pool_.threads() == 1 ? " thread)" : " threads)");
  }

  void PlaceCaller() const override { pool_.PlaceCaller(); }

  size_t lanes() const override { return pool_.threads(); }
  void RunLanes(size_t count, LaneWork* work) override {
    if (lanes_.empty()) {
      Backend::RunLanes(count, work);
      return;
    }
    pool_.ParallelFor(count, [&](size_t index, size_t thread) {
      work->RunPiece(index, thread, lanes_[thread].get());
    });
  }

  size_t lane_cache_bytes() const override { return CacheBytes(); }

  void Reserve(size_t length, size_t head_size) override {
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) lane->Reserve(length, head_size);
    const WaitingLock lock(&buffers_mutex_);
    for (std::unique_ptr<AlignedBuffer>& scratch : attention_scratch_) {
      Grow(&scratch, AttentionFloats(length, head_size));
    }
  }

  uint64_t ScratchBytes() const override {
    uint64_t bytes = scratch_bytes_.load(std::memory_order_relaxed);
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) bytes += lane->ScratchBytes();
    return bytes;
  }
  void HoldScratch() override {
    const std::lock_guard lock(holders_mutex_);
    ++holders_;
  }
  uint64_t ReleaseScratch() override {
    const std::lock_guard lock(holders_mutex_);
    return Trim(--holders_ == 0);
  }

  std::unique_ptr<Buffer> Alloc(size_t floats, BufferUse use) override {
    return std::make_unique<AlignedBuffer>(
        floats, use == BufferUse::kWeights ? &weight_arena_ : &work_arena_);
  }
  void CopyIn(const float* host, float* device, size_t floats) override {
    std::memcpy(device, host, floats * sizeof(float));
  }
  void CopyOut(const float* device, float* host, size_t floats) override {
    std::memcpy(host, device, floats * sizeof(float));
  }
  std::unique_ptr<PackedLinear> Pack(const float* weight, const float* bias, int32_t out,
                                     int32_t in, DType dtype,
                                     const float* column_factors) override {
    auto packed =
        std::make_unique<PanelLinear>(weight, bias, out, in, dtype, column_factors,
                                      static_cast<size_t>(kernels_->panel), &weight_arena_);
    MakeRoom(*packed);
    return packed;
  }
  DType preferred_dtype() const override {
    return kernels_->isa == Isa::kAvx512Bf16 ? DType::kBf16 : DType::kF32;
  }

  void Embed(const EmbedArgs& args, float* x) override {
    const size_t tokens = args.ids.size();
    pool_.ParallelFor(CeilDiv(tokens, kRowsPerTask), [&](size_t task, size_t) {
      kernels_->embed(args, task * kRowsPerTask, std::min(tokens, (task + 1) * kRowsPerTask), x);
    });
  }

  void Linear(const float* x, size_t rows, const PackedLinear& weight, Activation activation,
              float* y) override {
    const WaitingLock lock(&buffers_mutex_);
    products_.Linear(x, rows, static_cast<const PanelLinear&>(weight), activation, y);
  }
  void LinearAddNorm(const float* x, size_t rows, const PackedLinear& weight, const float* residual,
                     const NormWeights& norm, float* sum, float* y) override {
    const WaitingLock lock(&buffers_mutex_);
    products_.LinearAddNorm(x, rows, static_cast<const PanelLinear&>(weight), residual, norm, sum,
                            y);
  }
  void FeedForward(const FeedForwardArgs& args) override {
    const WaitingLock lock(&buffers_mutex_);
    products_.FeedForward(args);
  }

  void Attention(const AttentionArgs& args) override {
    const size_t sequences = args.offsets.size() - 1;
    const size_t heads = static_cast<size_t>(args.heads);
    const size_t size = static_cast<size_t>(args.head_size);
    size_t longest = 0;
    for (size_t s = 0; s < sequences; ++s) {
      longest = std::max(longest, static_cast<size_t>(args.offsets[s + 1] - args.offsets[s]));
    }
    const DType dtype = args.dtype == DType::kF32 ? DType::kF32 : preferred_dtype();
    const size_t need = AttentionFloats(longest, size);
    const WaitingLock lock(&buffers_mutex_);
    for (std::unique_ptr<AlignedBuffer>& scratch : attention_scratch_) Grow(&scratch, need);
    pool_.ParallelFor(sequences * heads, [&](size_t index, size_t thread) {
      const size_t first = static_cast<size_t>(args.offsets[index / heads]);
      const size_t head = index % heads;
      AttentionTask task;
      task.dtype = dtype;
      task.stride = 3 * heads * size;
      task.q = args.qkv + first * task.stride + head * size;
      task.k = task.q + heads * size;
      task.v = task.k + heads * size;
      task.out_stride = heads * size;
      task.out = args.out + first * task.out_stride + head * size;
      task.length = args.offsets[index / heads + 1] - args.offsets[index / heads];
      task.query_end = task.length;
      if (!args.queries.empty()) {
        task.query_begin = args.queries[index / heads];
        task.query_end = task.query_begin + 1;
        task.out = args.out + index / heads * task.out_stride + head * size;
      }
      task.head_size = args.head_size;
      task.scale = args.scale;
      task.rope_cos = args.rope_cos;
      task.rope_sin = args.rope_sin;
      task.rope_size = args.rope_size;
      task.rope_interleaved = args.rope_interleaved;
      if (args.relative_bias != nullptr) {
        task.relative_bias =
            args.relative_bias + head * (2 * static_cast<size_t>(args.bias_reach) + 1);
        task.bias_reach = args.bias_reach;
      }
      task.window = args.window;
      task.scratch = attention_scratch_[thread]->data();
      kernels_->attention(task);
    });
  }

  void Norm(const float* x, size_t rows, int32_t width, const NormWeights& norm,
            float* y) override {
    pool_.ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t task, size_t) {
      AddNormRows(x, nullptr, task * kRowsPerTask, std::min(rows, (task + 1) * kRowsPerTask),
                  static_cast<size_t>(width), norm, nullptr, y);
    });
  }

  void Pool(const PoolArgs& args) override {
    const size_t width = static_cast<size_t>(args.width);
    pool_.ParallelFor(args.offsets.size() - 1, [&](size_t s, size_t) {
      const size_t skip = args.skip.empty() ? 0 : static_cast<size_t>(args.skip[s]);
      kernels_->pool(args.x + static_cast<size_t>(args.offsets[s]) * width, skip,
                     static_cast<size_t>(args.offsets[s + 1] - args.offsets[s]), width,
                     args.pooling, args.out + s * static_cast<size_t>(args.out_stride));
    });
  }

 private:
  size_t AttentionFloats(size_t length, size_t head_size) const {
    return std::max(kernels_->attention_scratch_floats(DType::kF32, length, head_size),
                    kernels_->attention_scratch_floats(DType::kBf16, length, head_size));
  }

  // Gives back what is not used; with `scratch`, that too. Returns the bytes of scratch.
  uint64_t Trim(bool scratch) {
    uint64_t bytes = 0;
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) bytes += lane->Trim(scratch);
    const WaitingLock lock(&buffers_mutex_);
    if (scratch) {
      for (std::unique_ptr<AlignedBuffer>& buffer : attention_scratch_) buffer.reset();
      bytes += scratch_bytes_.exchange(0, std::memory_order_relaxed);
    }
    work_arena_.Trim();
    return bytes;
  }

  // Makes room for products with `weight`, so that they allocate nothing.
  void MakeRoom(const PanelLinear& weight) {
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) lane->MakeRoom(weight);
    const WaitingLock lock(&buffers_mutex_);
    products_.MakeRoom(weight);
  }

  void AddNormRows(const float* x, const float* residual, size_t begin, size_t end, size_t width,
                   const NormWeights& norm, float* sum, float* y) const {
    kernels_->add_norm(x + begin * width, residual == nullptr ? nullptr : residual + begin * width,
                       end - begin, width, norm, sum == nullptr ? nullptr : sum + begin * width,
                       y + begin * width);
  }

  // Scratch of at least `floats`, whatever was in it. Under buffers_mutex_.
  float* Grow(std::unique_ptr<AlignedBuffer>* buffer, size_t floats) {
    if (*buffer == nullptr || (*buffer)->size() < floats) {
      const size_t had = *buffer == nullptr ? 0 : (*buffer)->size();
      buffer->reset();  // first, so that the two are never there at once
      scratch_bytes_.fetch_sub(had * sizeof(float), std::memory_order_relaxed);
      *buffer = std::make_unique<AlignedBuffer>(floats, &work_arena_);
      scratch_bytes_.fetch_add(floats * sizeof(float), std::memory_order_relaxed);
    }
    return (*buffer)->data();
  }

  const Kernels* kernels_;
  HugePageArena weight_arena_;  // and all else that stays
  HugePageArena work_arena_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<CpuBackend>> lanes_;  // one a thread, each of one thread
  // buffers_mutex_ keeps two operations from using them at once.
  std::mutex buffers_mutex_;
  // Its room is small, grows with the models that are loaded and is never given back.
  Products products_;
  // These grow and are given back.
  std::vector<std::unique_ptr<AlignedBuffer>> attention_scratch_;
  std::atomic<uint64_t> scratch_bytes_{0};  // of this backend, without its lanes
  std::mutex holders_mutex_;
  size_t holders_ = 0;  // of scratch
};

}  // namespace
}  // namespace cpu

Expected<std::unique_ptr<Backend>> NewCpuBackend(const CpuOptions& options) {
  auto kernels = options.isa.empty() ? cpu::DefaultKernels() : cpu::ChooseKernels(options.isa);
  if (!kernels.ok()) return kernels.status();
  const size_t threads =
      options.threads > 0 ? static_cast<size_t>(options.threads) : UsableProcessors();
  return std::unique_ptr<Backend>(
      std::make_unique<cpu::CpuBackend>(*kernels, threads, options.pin));
}

}  // namespace penstock

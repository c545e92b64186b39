#include "cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "common/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"

namespace penstock {
namespace cpu {
namespace {

// Activations of one block of rows that a thread keeps in its L2 while weight panels stream by:
// half of a Zen 4's 1 MiB.
constexpr size_t kBlockBytes = 512 << 10;
constexpr size_t kBlockTilesMax = 8;
// A task below this many multiply-adds is not worth handing to another thread (about 1 us).
constexpr size_t kTaskOpsMin = 64 << 10;
constexpr size_t kRowsPerTask = 16;  // for row-wise operations

size_t CeilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Kernels* kernels, size_t threads, bool pin)
      : kernels_(kernels),
        pool_(threads, pin),
        gemm_scratch_(pool_.threads()),
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

  void Reserve(size_t rows, size_t lane_rows, size_t width, size_t length,
               size_t head_size) override {
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) {
      lane->Reserve(lane_rows, lane_rows, width, length, head_size);
    }
    const std::lock_guard lock(buffers_mutex_);
    Grow(&product_, rows * width);
    for (std::unique_ptr<AlignedBuffer>& scratch : attention_scratch_) {
      Grow(&scratch, AttentionFloats(length, head_size));
    }
  }

  uint64_t ScratchBytes() const override {
    uint64_t bytes = scratch_bytes_.load(std::memory_order_relaxed);
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) bytes += lane->ScratchBytes();
    return bytes;
  }
  void ReleaseScratch() override {
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) lane->ReleaseScratch();
    const std::lock_guard lock(buffers_mutex_);
    product_.reset();
    for (std::unique_ptr<AlignedBuffer>& scratch : attention_scratch_) scratch.reset();
    scratch_bytes_.store(0, std::memory_order_relaxed);
    work_arena_.Trim();
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
                                     int32_t in, DType dtype) override {
    auto packed = std::make_unique<PanelLinear>(
        weight, bias, out, in, dtype, static_cast<size_t>(kernels_->panel), &weight_arena_);
    ReserveRows(*packed);
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
    const std::lock_guard lock(buffers_mutex_);
    Product(x, rows, static_cast<const PanelLinear&>(weight), activation, y);
  }

  void LinearAddNorm(const float* x, size_t rows, const PackedLinear& weight, const float* residual,
                     const NormWeights& norm, float* sum, float* y) override {
    const auto& packed = static_cast<const PanelLinear&>(weight);
    const size_t width = static_cast<size_t>(packed.out());
    const Blocks blocks = SplitRows(rows, packed);
    const std::lock_guard lock(buffers_mutex_);
    float* product = Grow(&product_, rows * width);
    if (blocks.count >= pool_.threads()) {
      // A block's rows are normed while they are still in the cache.
      pool_.ParallelFor(blocks.count, [&](size_t block, size_t thread) {
        const size_t begin = blocks.begin(block);
        const size_t end = blocks.end(block);
        BlockProduct(x, begin, end, packed, Activation::kNone, product, thread);
        AddNormRows(product, residual, begin, end, width, norm, sum, y);
      });
      return;
    }
    Product(x, rows, packed, Activation::kNone, product);
    pool_.ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t task, size_t) {
      AddNormRows(product, residual, task * kRowsPerTask, std::min(rows, (task + 1) * kRowsPerTask),
                  width, norm, sum, y);
    });
  }

  void Gate(const float* x, size_t rows, int32_t width, Activation activation, float* y) override {
    const size_t columns = static_cast<size_t>(width);
    pool_.ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t task, size_t) {
      const size_t begin = task * kRowsPerTask;
      kernels_->gate(x + begin * 2 * columns, std::min(kRowsPerTask, rows - begin), columns,
                     activation, y + begin * columns);
    });
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
    std::lock_guard lock(buffers_mutex_);
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
  // Rows cut into `count` blocks of about equal size, whole tiles each but the last.
  struct Blocks {
    size_t rows = 0;
    size_t count = 0;
    size_t rows_per_block = 0;
    size_t begin(size_t block) const { return block * rows_per_block; }
    size_t end(size_t block) const { return std::min(rows, (block + 1) * rows_per_block); }
  };

  size_t AttentionFloats(size_t length, size_t head_size) const {
    return std::max(kernels_->attention_scratch_floats(DType::kF32, length, head_size),
                    kernels_->attention_scratch_floats(DType::kBf16, length, head_size));
  }

  // Rows of a block: packed, they take at most kBlockBytes, unless one tile takes more.
  size_t BlockRowsMax(const PanelLinear& weight) const {
    const size_t tile = static_cast<size_t>(kernels_->tile_rows);
    const size_t bytes = PackedRowBytes(weight.dtype(), static_cast<size_t>(weight.in()));
    return std::clamp<size_t>(kBlockBytes / (bytes * tile), 1, kBlockTilesMax) * tile;
  }

  Blocks SplitRows(size_t rows, const PanelLinear& weight) const {
    const size_t tile = static_cast<size_t>(kernels_->tile_rows);
    const size_t tiles = CeilDiv(rows, tile);
    size_t count = CeilDiv(tiles, BlockRowsMax(weight) / tile);
    // A whole number of rounds for the threads, so that none idles in the last one.
    if (count > 1) count = CeilDiv(count, pool_.threads()) * pool_.threads();
    const size_t per_block = std::max<size_t>(1, CeilDiv(tiles, std::max<size_t>(count, 1)));
    return {rows, CeilDiv(tiles, per_block), per_block * tile};
  }

  // Into how many groups the panels of each block are cut so that every thread has work.
  size_t SplitPanels(const Blocks& blocks, const PanelLinear& weight) const {
    const size_t threads = pool_.threads();
    if (blocks.count >= threads) return 1;
    const size_t ops = blocks.rows * static_cast<size_t>(weight.in()) *
                       static_cast<size_t>(weight.out()) / WordValues(weight.dtype());
    // Two a thread: the first to finish takes another.
    const size_t wanted = std::min(CeilDiv(2 * threads, blocks.count), CeilDiv(ops, kTaskOpsMin));
    return std::clamp<size_t>(wanted, 1, weight.panels());
  }

  // Makes room for the rows of products with `weight`, so that they allocate nothing.
  void ReserveRows(const PanelLinear& weight) {
    for (const std::unique_ptr<CpuBackend>& lane : lanes_) lane->ReserveRows(weight);
    const size_t bytes =
        BlockRowsMax(weight) * PackedRowBytes(weight.dtype(), static_cast<size_t>(weight.in()));
    const size_t floats = CeilDiv(bytes, sizeof(float));
    const auto keep = [this](std::unique_ptr<AlignedBuffer>* buffer, size_t size) {
      if (*buffer != nullptr && (*buffer)->size() >= size) return;
      *buffer = std::make_unique<AlignedBuffer>(size, &weight_arena_);
    };
    const std::lock_guard lock(buffers_mutex_);
    for (std::unique_ptr<AlignedBuffer>& scratch : gemm_scratch_) keep(&scratch, floats);
    if (pool_.threads() > 1) keep(&shared_rows_, floats * (pool_.threads() - 1));
  }

  // y = activation(x W^T + bias). The caller holds buffers_mutex_.
  void Product(const float* x, size_t rows, const PanelLinear& weight, Activation activation,
               float* y) {
    const Blocks blocks = SplitRows(rows, weight);
    const size_t groups = SplitPanels(blocks, weight);
    if (groups == 1) {
      pool_.ParallelFor(blocks.count, [&](size_t block, size_t thread) {
        BlockProduct(x, blocks.begin(block), blocks.end(block), weight, activation, y, thread);
      });
      return;
    }
    // Fewer blocks than threads: they share the panels, and the packed rows.
    const size_t in = static_cast<size_t>(weight.in());
    const auto packed = [&](size_t begin, size_t end) {
      return PackInto(shared_rows_.get(), rows, begin, weight.dtype(), x + begin * in, end - begin,
                      in);
    };
    pool_.ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t task, size_t) {
      kernels_->pack_rows(packed(task * kRowsPerTask, std::min(rows, (task + 1) * kRowsPerTask)));
    });
    pool_.ParallelFor(blocks.count * groups, [&](size_t task, size_t) {
      const size_t block = task / groups;
      const size_t group = task % groups;
      Gemm(packed(blocks.begin(block), blocks.end(block)), blocks.begin(block), weight,
           weight.panels() * group / groups, weight.panels() * (group + 1) / groups, activation, y);
    });
  }

  // The product's rows [begin, end) on the calling thread.
  void BlockProduct(const float* x, size_t begin, size_t end, const PanelLinear& weight,
                    Activation activation, float* y, size_t thread) {
    const size_t in = static_cast<size_t>(weight.in());
    const PackRowsTask rows = PackInto(gemm_scratch_[thread].get(), end - begin, 0, weight.dtype(),
                                       x + begin * in, end - begin, in);
    kernels_->pack_rows(rows);
    Gemm(rows, begin, weight, 0, weight.panels(), activation, y);
  }

  // Panels [panel_begin, panel_end) for packed rows, whose first is row `row_begin` of y.
  void Gemm(const PackRowsTask& rows, size_t row_begin, const PanelLinear& weight,
            size_t panel_begin, size_t panel_end, Activation activation, float* y) {
    if (panel_begin == panel_end) return;
    GemmTask task;
    weight.Describe(panel_begin, panel_end - panel_begin, &task);
    task.x = rows.words;
    task.x_scales = rows.scales;
    task.rows = rows.rows;
    task.y_stride = static_cast<size_t>(weight.out());
    task.y = y + row_begin * task.y_stride + panel_begin * static_cast<size_t>(kernels_->panel);
    task.activation = activation;
    kernels_->gemm(task);
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
      *buffer = std::make_unique<AlignedBuffer>(floats, &work_arena_);
      scratch_bytes_.fetch_add((floats - had) * sizeof(float), std::memory_order_relaxed);
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
  // A block of packed rows: one a thread of the pool, and what threads share. Small; they grow with
  // the models that are loaded and are never given back.
  std::vector<std::unique_ptr<AlignedBuffer>> gemm_scratch_;
  std::unique_ptr<AlignedBuffer> shared_rows_;
  // These grow and are given back.
  std::vector<std::unique_ptr<AlignedBuffer>> attention_scratch_;
  std::unique_ptr<AlignedBuffer> product_;
  std::atomic<uint64_t> scratch_bytes_{0};  // of this backend, without its lanes
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

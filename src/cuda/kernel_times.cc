#include "cuda/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/int_math.h"
#include "cuda/epilogue-inl.h"

namespace penstock::cuda {
namespace {

using program::KernelTime;
using program::KernelTimeOptions;

constexpr int kHeadSize = 64;
// Weights that are taken in turn; a large L2 cache may still hold those of one product.
constexpr int kLayers = 12;
constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

// A product of a layer.
struct Product {
  const char* name;
  int features, k;
  bool adds;  // to the residual, in floats
  program::Activation activation;
};

class Timer {
 public:
  Timer(Device* device, const KernelTimeOptions& options)
      : device_(device),
        options_(options),
        tokens_(*std::max_element(options.tokens.begin(), options.tokens.end())) {}
  ~Timer() {
    for (const EventId event : events_) device_->FreeEvent(event);
  }

  Status Prepare() {
    for (EventId* const event : {&begun_, &done_}) {
      PENSTOCK_ASSIGN_OR_RETURN(*event, device_->NewEvent());
      events_.push_back(*event);
    }
    PENSTOCK_ASSIGN_OR_RETURN(pinned_, DeviceBlock::OnHost(device_, kBlockBytes));
    const auto tokens = static_cast<uint64_t>(RoundUp(static_cast<size_t>(tokens_), 128));
    const auto width = static_cast<uint64_t>(options_.width);
    PENSTOCK_RETURN_IF_ERROR(Make(&x_, tokens * 4 * width * 2, true));
    PENSTOCK_RETURN_IF_ERROR(Make(&y_, tokens * 4 * width * 2, true));
    PENSTOCK_RETURN_IF_ERROR(Make(&floats_, tokens * width * 4, false));
    PENSTOCK_RETURN_IF_ERROR(Make(&more_floats_, tokens * width * 4, false));
    PENSTOCK_RETURN_IF_ERROR(Make(&weights_, kLayers * LayerBytes(), true));
    PENSTOCK_RETURN_IF_ERROR(Make(&bias_, 4 * width * 4, false));
    return Make(&small_, kBlockBytes, false);
  }

  Status TimeTokens(int tokens) {
    const int width = options_.width;
    PENSTOCK_RETURN_IF_ERROR(PutBatch(tokens));
    const Product products[] = {
        {"qkv", 3 * width, width, false, program::Activation::kNone},
        {"out", width, width, true, program::Activation::kNone},
        {"in", 4 * width, width, false, program::Activation::kGelu},
        {"down", width, 4 * width, true, program::Activation::kNone},
    };
    for (const Product& product : products) {
      for (const KernelId kernel : {KernelId::gemm_wgmma_f16, KernelId::gemm_mma_128x128_f16,
                                    KernelId::gemm_mma_64x64_f16, KernelId::gemm_narrow_f16}) {
        if (kernel == KernelId::gemm_narrow_f16 && tokens > 512) continue;
        if (device_->info().Has(kernel)) {
          PENSTOCK_RETURN_IF_ERROR(TimeProduct(kernel, product, tokens));
        }
      }
    }
    PENSTOCK_RETURN_IF_ERROR(TimeAttention(tokens));
    const auto rows = static_cast<double>(tokens);
    const std::string shape = fmt::format("{} x {}", tokens, width);
    NormArgs norm = Norm();
    PENSTOCK_RETURN_IF_ERROR(Time(KernelId::rows_norm, shape, 8 * rows * width, 10 * rows * width,
                                  RowsOf(KernelId::rows_norm, tokens, norm)));
    const EmbedArgs embed = {.ids = ints(kIds),
                             .positions = ints(kIds),
                             .types = nullptr,
                             .words = AsFloats(more_floats_),
                             .places = AsFloats(more_floats_),
                             .kinds = AsFloats(bias_),
                             .norm = norm};
    return Time(KernelId::rows_embed, shape, 10 * rows * width, 14 * rows * width,
                RowsOf(KernelId::rows_embed, tokens, embed));
  }

  // Kernels without rows.
  Status TimeNodes() {
    PENSTOCK_RETURN_IF_ERROR(PutBatch(0));
    const NormArgs norm = Norm();
    return Time(KernelId::rows_norm, "no rows: a node of a graph", 0, 0,
                RowsOf(KernelId::rows_norm, 1, norm));
  }

  std::vector<KernelTime> Take() { return std::move(times_); }

 private:
  // Places of numbers in small_.
  enum Place : int { kRows = 0, kTiles = 64, kIds = 128, kTileList = 128 + 65536 };

  uint64_t LayerBytes() const {
    return uint64_t{12} * static_cast<uint64_t>(options_.width) *
           static_cast<uint64_t>(options_.width) * 2;
  }
  static float* AsFloats(const DeviceBlock& block) {
    return reinterpret_cast<float*>(block.data());
  }
  static uint16_t* AsOperands(const DeviceBlock& block) {
    return reinterpret_cast<uint16_t*>(block.data());
  }
  int* ints(int place) const { return reinterpret_cast<int*>(small_.data()) + place; }

  // Memory of numbers that are not alike: zeros would be faster than what models have.
  Status Make(DeviceBlock* block, uint64_t bytes, bool operands) {
    PENSTOCK_ASSIGN_OR_RETURN(*block, DeviceBlock::OnDevice(device_, RoundUp(bytes, kBlockBytes)));
    uint32_t state = 1;
    for (uint64_t at = 0; at < kBlockBytes; at += 4) {
      state = state * 1664525 + 1013904223;  // Numerical Recipes' generator
      const float one = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
      const uint32_t bits = operands ? PackOperands(one, -one * 0.7F, true) : simt::BitsOf(one);
      std::memcpy(pinned_.data() + at, &bits, sizeof(bits));
    }
    for (uint64_t at = 0; at < block->bytes(); at += kBlockBytes) {
      PENSTOCK_RETURN_IF_ERROR(device_->CopyIn(block->data() + at, pinned_.data(), kBlockBytes));
    }
    return Finish();
  }
  // Sequences of `length` tokens, the last one shorter.
  Status PutBatch(int tokens) {
    std::memset(pinned_.data(), 0, kBlockBytes);
    auto* const numbers = reinterpret_cast<int*>(pinned_.data());
    auto* const tiles = reinterpret_cast<AttentionTile*>(numbers + kTileList);
    tiles_ = 0;
    pairs_ = 0;
    for (int first = 0; first < tokens; first += options_.length) {
      const int length = std::min(options_.length, tokens - first);
      pairs_ += static_cast<double>(length) * length;
      for (int query = 0; query < length; query += 64) {
        tiles[tiles_++] = {first, length, query, std::min(64, length - query), first + query};
      }
    }
    for (int i = 0; i < tokens; ++i) numbers[kIds + i] = i;
    numbers[kRows] = tokens;
    numbers[kTiles] = tiles_;
    PENSTOCK_RETURN_IF_ERROR(device_->CopyIn(small_.data(), pinned_.data(), kBlockBytes));
    return Finish();
  }
  Status Finish() {
    PENSTOCK_RETURN_IF_ERROR(device_->Record(done_));
    return device_->Wait(done_);
  }

  NormArgs Norm() const {
    return {.x = AsFloats(floats_),
            .gamma = AsFloats(bias_),
            .beta = AsFloats(bias_),
            .y = AsFloats(more_floats_),
            .y16 = AsOperands(y_),
            .rows = ints(kRows),
            .width = options_.width,
            .stride16 = options_.width,
            .epsilon = 1e-5F,
            .half = true,
            .rms = false};
  }
  template <typename Args>
  static std::function<KernelLaunch(int)> RowsOf(KernelId kernel, int rows, const Args& args) {
    return [=](int) {
      return KernelLaunch::Of(kernel, BlocksOf(rows, RowOf(kernel).tile_rows), 1, args);
    };
  }

  Status TimeProduct(KernelId kernel, const Product& product, int tokens) {
    GemmArgs args = {};
    args.x = AsOperands(x_);
    args.rows = ints(kRows);
    args.stride = args.k = product.k;
    args.to.bias = AsFloats(bias_);
    args.to.features = args.to.stride16 = product.features;
    args.to.activation = product.activation;
    args.to.half = true;
    if (product.adds) {
      args.to.residual = AsFloats(floats_);
      args.to.y = AsFloats(more_floats_);
    } else {
      args.to.y16 = AsOperands(y_);
    }
    const auto launch = [&](int number) {
      GemmArgs one = args;
      one.w = AsOperands(weights_) + static_cast<uint64_t>(number % kLayers) * LayerBytes() / 2;
      return GemmLaunch(kernel, one, tokens, product.features, device_->info());
    };
    const double rows = tokens, features = product.features, k = product.k;
    const double results = rows * features * (product.adds ? 8 : 2);
    return Time(kernel,
                fmt::format("{} {} x {} x {}", product.name, tokens, product.k, product.features),
                2 * rows * features * k, 2 * (rows + features) * k + results, launch);
  }

  Status TimeAttention(int tokens) {
    const int width = options_.width;
    const AttentionArgs args = {.qkv = AsOperands(x_),
                                .y = AsOperands(y_),
                                .tiles = reinterpret_cast<const AttentionTile*>(ints(kTileList)),
                                .tile_count = ints(kTiles),
                                .bias = {},
                                .stride = 3 * width,
                                .y_stride = width,
                                .heads = width / kHeadSize,
                                .head_size = kHeadSize,
                                .window = 0,
                                .scale = 0.125F};
    const int length = std::min(options_.length, tokens);
    const double rows = tokens;
    return Time(KernelId::attention_64_f16, fmt::format("{} of {} x {}", tokens, length, width),
                4 * pairs_ * width, 8 * rows * width, [&](int) {
                  return KernelLaunch::Of(KernelId::attention_64_f16, args.heads, tiles_, args);
                });
  }

  // A graph of launches, replayed: the first time only so that it is warm.
  Status Time(KernelId kernel, std::string shape, double operations, double bytes,
              const std::function<KernelLaunch(int)>& launch) {
    PENSTOCK_RETURN_IF_ERROR(device_->BeginCapture());
    Status status;
    for (int i = 0; i < options_.launches && status.ok(); ++i) status = device_->Launch(launch(i));
    auto graph = device_->EndCapture();
    if (!status.ok()) return status;
    if (!graph.ok()) return graph.status();
    std::vector<double> seconds;
    for (int round = 0; round <= options_.rounds && status.ok(); ++round) {
      status = Replay(*graph);
      if (status.ok() && round > 0) {
        seconds.push_back(device_->SecondsBetween(begun_, done_) / options_.launches);
      }
    }
    device_->FreeGraph(*graph);
    PENSTOCK_RETURN_IF_ERROR(status);
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2),
                     seconds.end());
    const DeviceInfo& info = device_->info();
    double floor = 0;
    if (info.operations_per_s > 0) floor = operations / info.operations_per_s;
    if (info.bytes_per_s > 0) floor = std::max(floor, bytes / info.bytes_per_s);
    times_.push_back({RowOf(kernel).name, std::move(shape), seconds[seconds.size() / 2], operations,
                      bytes, floor});
    return Status::Ok();
  }
  Status Replay(GraphId graph) {
    PENSTOCK_RETURN_IF_ERROR(device_->Record(begun_));
    PENSTOCK_RETURN_IF_ERROR(device_->Replay(graph));
    return Finish();
  }

  Device* const device_;
  const KernelTimeOptions& options_;
  const int tokens_;
  std::vector<EventId> events_;
  EventId begun_{}, done_{};
  DeviceBlock pinned_, x_, y_, floats_, more_floats_, weights_, bias_, small_;
  int tiles_ = 0;
  double pairs_ = 0;  // of a query and a key, in all sequences
  std::vector<KernelTime> times_;
};

}  // namespace

Expected<std::vector<KernelTime>> TimeKernels(Device* device, const KernelTimeOptions& options) {
  Timer timer(device, options);
  PENSTOCK_RETURN_IF_ERROR(timer.Prepare());
  for (const int tokens : options.tokens) PENSTOCK_RETURN_IF_ERROR(timer.TimeTokens(tokens));
  PENSTOCK_RETURN_IF_ERROR(timer.TimeNodes());
  return timer.Take();
}

}  // namespace penstock::cuda

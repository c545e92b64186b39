#include "cuda/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "cuda/epilogue-inl.h"
#include "cuda/self_check_memory.h"

namespace penstock::cuda {
namespace {

using program::Activation;

// Products with bias and residual, and with a gate, of operands as they are and scaled: rows that end within a tile, chunks of 256
// and of less, features that end within a piece.
std::vector<KernelLaunch> Gemm(KernelId id, CheckMemory* memory, bool half,
                               const DeviceInfo& device) {
  constexpr int kRows = 37, kDepth = 320, kFeatures = 72, kStride = 128;
  GemmArgs args = {.x = memory->Operands(kRows * kDepth, 2, half).on_device,
                   .w = memory->Operands(80 * kDepth, 0.2F, half).on_device,
                   .up = nullptr,
                   .rows = memory->Put({kRows}),
                   .stride = kDepth,
                   .k = kDepth,
                   .to = {}};
  const uint16_t* const up = memory->Operands(80 * kDepth, 0.2F, half).on_device;
  args.to = {.row_scales = nullptr,
             .scales = nullptr,
             .scales_up = nullptr,
             .bias = memory->Floats(kFeatures, 1),
             .bias_up = memory->Floats(kFeatures, 1),
             .residual = memory->Floats(kRows * kFeatures, 1),
             .y = nullptr,
             .y16 = nullptr,
             .features = kFeatures,
             .stride16 = kStride,
             .activation = Activation::kGelu,
             .half = half};
  const float* const row_scales = memory->Floats(kRows, 2);
  const float* const scales = memory->Floats(kFeatures, 2);
  const float* const scales_up = memory->Floats(kFeatures, 2);
  std::vector<KernelLaunch> launches;
  for (const auto& [gated, scaled] :
       {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    args.up = gated ? up : nullptr;
    args.to.activation = gated ? Activation::kSilu : Activation::kGelu;
    args.to.row_scales = scaled ? row_scales : nullptr;
    args.to.scales = scaled ? scales : nullptr;
    args.to.scales_up = scaled ? scales_up : nullptr;
    args.to.y = memory->Room<float>(kRows * kFeatures).on_device;
    args.to.y16 = memory->Room<uint16_t>(kRows * kStride).on_device;
    launches.push_back(GemmLaunch(id, args, kRows, gated ? 2 * kStride : kStride, device));
  }
  return launches;
}

std::vector<KernelLaunch> Float32Gemm(KernelId id, CheckMemory* memory) {
  constexpr int kRows = 70, kDepth = 90, kFeatures = 72, kStride = 128;
  GemmF32Args args = {.x = memory->Floats(kRows * kDepth, 2),
                      .w = memory->Floats(kFeatures * kDepth, 0.2F),
                      .rows = memory->Put({kRows}),
                      .k = kDepth,
                      .multiply = false,
                      .to = {}};
  args.to = {.row_scales = nullptr,
             .scales = nullptr,
             .scales_up = nullptr,
             .bias = memory->Floats(kFeatures, 1),
             .bias_up = nullptr,
             .residual = nullptr,
             .y = memory->Room<float>(kRows * kFeatures).on_device,
             .y16 = memory->Room<uint16_t>(kRows * kStride).on_device,
             .features = kFeatures,
             .stride16 = kStride,
             .activation = Activation::kGeluTanh,
             .half = true};
  const KernelRow& row = RowOf(id);
  const auto launch = [&] {
    return KernelLaunch::Of(id, BlocksOf(kStride, row.tile_features),
                            BlocksOf(kRows, row.tile_rows), args);
  };
  const KernelLaunch first = launch();
  args.multiply = true;
  args.to.activation = Activation::kTanh;
  return {first, launch()};
}

// A value that cancels in sums, and leaves the bits of those that were cut below it.
uint16_t Large(bool half, bool negative) {
  const float value = half ? 0x1p15F : 0x1p28F;
  return static_cast<uint16_t>(PackOperands(negative ? -value : value, 0, half));
}

// Sequences of 100 and of 7 tokens, with and without a window.
constexpr int kTokens = 107, kHeads = 2, kReach = 4;

const AttentionTile* Tiles(CheckMemory* memory) {
  return memory->Put<AttentionTile>(
      {{0, 100, 0, 64, 0}, {0, 100, 64, 36, 64}, {100, 7, 0, 7, 100}});
}

std::vector<KernelLaunch> Attend(KernelId id, CheckMemory* memory, int depth, bool half,
                                 bool bias) {
  const auto width = static_cast<size_t>(kHeads * depth);
  const Region<uint16_t> qkv = memory->Operands(kTokens * 3 * width, 2, half);
  // Every 16 keys begin with two that are the same, of values that are opposite and large.
  for (size_t token = 0; token + 1 < kTokens; token += 16) {
    const auto row = qkv.on_host.begin() + static_cast<ptrdiff_t>(token * 3 * width);
    const auto next = row + static_cast<ptrdiff_t>(3 * width);
    const auto keys = static_cast<ptrdiff_t>(width);
    std::copy_n(row + keys, width, next + keys);
    std::fill_n(row + 2 * keys, width, Large(half, false));
    std::fill_n(next + 2 * keys, width, Large(half, true));
  }
  AttentionArgs args = {.qkv = qkv.on_device,
                        .y = nullptr,
                        .tiles = Tiles(memory),
                        .tile_count = memory->Put({3}),
                        .bias = {nullptr, kReach},
                        .stride = 3 * kHeads * depth,
                        .y_stride = kHeads * depth,
                        .heads = kHeads,
                        .head_size = depth,
                        .window = 0,
                        .scale = 1 / std::sqrt(static_cast<float>(depth))};
  if (bias) args.bias.table = memory->Floats(kHeads * (2 * kReach + 1), 1);
  std::vector<KernelLaunch> launches;
  for (const int window : {0, 40}) {
    args.window = window;
    args.y = memory->Room<uint16_t>(kTokens * width).on_device;
    launches.push_back(KernelLaunch::Of(id, kHeads, 3, args));
  }
  return launches;
}

std::vector<KernelLaunch> Float32Attention(KernelId id, CheckMemory* memory) {
  constexpr int kSize = 24, kWidth = kHeads * kSize;
  AttentionF32Args args = {.qkv = memory->Floats(kTokens * 3 * kWidth, 2),
                           .y = nullptr,
                           .y16 = nullptr,
                           .tiles = Tiles(memory),
                           .tile_count = memory->Put({3}),
                           .bias = {memory->Floats(kHeads * (2 * kReach + 1), 1), kReach},
                           .heads = kHeads,
                           .head_size = kSize,
                           .stride16 = 64,
                           .window = 0,
                           .scale = 0.2F,
                           .half = false};
  std::vector<KernelLaunch> launches;
  for (const int window : {0, 40}) {
    args.window = window;
    args.y = memory->Room<float>(kTokens * kWidth).on_device;
    args.y16 = memory->Room<uint16_t>(kTokens * 64).on_device;
    launches.push_back(KernelLaunch::Of(id, kHeads, 3, args));
  }
  return launches;
}

constexpr int kNormRows = 6, kNormWidth = 100, kNormStride = 128;

NormArgs NormOf(CheckMemory* memory) {
  return {.x = memory->Floats(kNormRows * kNormWidth, 3),
          .picks = nullptr,
          .gamma = memory->Floats(kNormWidth, 1),
          .beta = memory->Floats(kNormWidth, 1),
          .residual = nullptr,
          .y = memory->Room<float>(kNormRows * kNormWidth).on_device,
          .y16 = memory->Room<uint16_t>(kNormRows * kNormStride).on_device,
          .scales = nullptr,
          .rows = memory->Put({kNormRows}),
          .width = kNormWidth,
          .stride16 = kNormStride,
          .epsilon = 1e-5F,
          .factor = 1,
          .half = true,
          .rms = false};
}

std::vector<KernelLaunch> Norm(KernelId id, CheckMemory* memory) {
  std::vector<KernelLaunch> launches;
  for (const bool rms : {false, true}) {
    NormArgs args = NormOf(memory);
    args.rms = rms;
    args.half = !rms;
    if (rms) {
      args.picks = memory->Put({5, 0, 3, 3, 1, 2});
      args.residual = memory->Floats(kNormRows * kNormWidth, 3);
      args.scales = memory->Room<float>(kNormRows).on_device;
      args.factor = 0.3F;
    }
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kNormRows, RowOf(id).tile_rows), 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> Embed(KernelId id, CheckMemory* memory) {
  const EmbedArgs args = {.ids = memory->Put({3, 0, 9, 9, 1, 4}),
                          .sources = memory->Put({-1, 1, -1, 0, -1, -1}),
                          .drawn = memory->Put({5, 8}),
                          .positions = memory->Put({0, 1, 2, 0, 1, 2}),
                          .types = memory->Put({0, 1, 1, 0, 0, 1}),
                          .words = memory->Floats(10 * kNormWidth, 1),
                          .pieces = nullptr,
                          .scales = nullptr,
                          .places = memory->Floats(3 * kNormWidth, 1),
                          .kinds = memory->Floats(2 * kNormWidth, 1),
                          .factor = 1,
                          .half = true,
                          .norm = NormOf(memory)};
  EmbedArgs of_pieces = args;
  of_pieces.pieces = memory->Operands(16 * kNormStride, 1, true).on_device;
  of_pieces.scales = memory->Floats(10, 2);
  of_pieces.sources = nullptr;
  of_pieces.factor = 3;
  of_pieces.norm = NormOf(memory);
  const int blocks = BlocksOf(kNormRows, RowOf(id).tile_rows);
  return {KernelLaunch::Of(id, blocks, 1, args), KernelLaunch::Of(id, blocks, 1, of_pieces)};
}

std::vector<KernelLaunch> Heads(KernelId id, CheckMemory* memory) {
  constexpr int kRows = 5, kSize = 24, kDepth = 32;
  HeadsArgs args = {.x = memory->Floats(kRows * 3 * kHeads * kSize, 2),
                    .y = nullptr,
                    .y16 = nullptr,
                    .places = memory->Put({0, 1, 2, 0, 1}),
                    .cos = memory->Floats(3 * 8, 1),
                    .sin = memory->Floats(3 * 8, 1),
                    .rows = memory->Put({kRows}),
                    .heads = kHeads,
                    .head_size = kSize,
                    .depth = kDepth,
                    .rope_size = 16,
                    .interleaved = false,
                    .half = false};
  std::vector<KernelLaunch> launches;
  for (const bool interleaved : {false, true}) {
    args.interleaved = interleaved;
    args.half = interleaved;
    args.y = memory->Room<float>(kRows * 3 * kHeads * kDepth).on_device;
    args.y16 = memory->Room<uint16_t>(kRows * 3 * kHeads * kDepth).on_device;
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kRows, RowOf(id).tile_rows), 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> Pool(KernelId id, CheckMemory* memory) {
  using program::Pooling;
  constexpr int kWidth = 40, kSequences = 3;
  PoolArgs args = {.x = memory->Floats(12 * kWidth, 2),
                   .offsets = memory->Put({0, 5, 6, 12}),
                   .skip = memory->Put({1, 0, 2}),
                   .sequences = memory->Put({kSequences}),
                   .y = nullptr,
                   .width = kWidth,
                   .y_stride = kWidth,
                   .pooling = Pooling::kCls};
  std::vector<KernelLaunch> launches;
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLen,
                                Pooling::kWeightedMean, Pooling::kLastToken}) {
    args.pooling = pooling;
    args.y = memory->Room<float>(kSequences * kWidth).on_device;
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kSequences, RowOf(id).tile_rows), 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> LaunchesOf(KernelId id, CheckMemory* memory, const DeviceInfo& device) {
  const std::string_view name = RowOf(id).name;
  const bool half = name.ends_with("_f16");
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  std::vector<KernelLaunch> cached = CachedLaunches(id, memory, device);
  if (!cached.empty()) return cached;
  if (id == KernelId::gemm_f32) return Float32Gemm(id, memory);
  if (id == KernelId::attention_f32) return Float32Attention(id, memory);
  if (id == KernelId::rows_norm) return Norm(id, memory);
  if (id == KernelId::rows_embed) return Embed(id, memory);
  if (id == KernelId::rows_heads) return Heads(id, memory);
  if (id == KernelId::rows_pool) return Pool(id, memory);
  if (begins("gemm_")) return Gemm(id, memory, half, device);
  const bool bias = begins("attention_bias_");
  const int depth = name.find("_128_") != name.npos  ? 128
                    : name.find("_64_") != name.npos ? 64
                                                     : 32;
  return Attend(id, memory, depth, half, bias);
}

struct Expectation {
  const char* kernel;
  uint64_t before_9, from_9;  // compute capability
};
constexpr Expectation kExpected[] = {
#define PENSTOCK_KERNEL_HASH(kernel, before_9, from_9) {#kernel, before_9, from_9},
#include "cuda/self_check_hashes.inc"
#undef PENSTOCK_KERNEL_HASH
};
static_assert(std::size(kExpected) == kKernels);

}  // namespace

Expected<std::vector<KernelHash>> CheckKernelHashes(Device* device) {
  PENSTOCK_ASSIGN_OR_RETURN(CheckMemory memory, CheckMemory::Make(device));
  std::vector<KernelHash> results;
  for (size_t i = 0; i < kKernels; ++i) {
    const auto id = static_cast<KernelId>(i);
    if (!device->info().Has(id)) continue;
    memory.Begin(id);
    const std::vector<KernelLaunch> launches = LaunchesOf(id, &memory, device->info());
    PENSTOCK_RETURN_IF_ERROR(memory.Run(launches).Annotate(RowOf(id).name));
    const Expectation& expected = kExpected[i];
    results.push_back({RowOf(id).name, memory.Hash(),
                       device->info().major < 9 ? expected.before_9 : expected.from_9});
  }
  return results;
}

}  // namespace penstock::cuda

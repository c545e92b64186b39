// The self check's cases of kernels of programs with a cache.
#include <string_view>

#include "cuda/block_weights.h"
#include "cuda/self_check_memory.h"
#include "numbers/random_blocks.h"

namespace penstock::cuda {
namespace {

// Two sequences: one that goes on at position 270, in its second chunk, and one that begins.
constexpr int kStepRows = 9, kStepPast = 270, kQueryHeads = 4, kKvHeads = 2, kStepHeadSize = 24,
              kCacheBlocks = 12;

struct Step {
  const int* rows;
  const int* positions;
  const int* sequences;
  const int* lengths;
  const int* first;
  const int* tables;
};
Step StepOf(CheckMemory* memory) {
  return {.rows = memory->Put({kStepRows}),
          .positions = memory->Put({kStepPast, kStepPast + 1, kStepPast + 2, 0, 1, 2, 3, 4, 5}),
          .sequences = memory->Put({0, 0, 0, 1, 1, 1, 1, 1, 1}),
          .lengths = memory->Put({kStepPast + 3, 6}),
          .first = memory->Put({0, 9}),
          .tables = memory->Put({4, 2, 9, 0, 1, 11, 10, 7, 6, 5})};
}

// Tensor cores take heads of a multiple of 16.
int HeadSizeOf(KernelId id) {
  const std::string_view name = RowOf(id).name;
  if (!name.starts_with("paged_mma_")) return kStepHeadSize;
  return name.find("_256_") != name.npos ? 144 : name.find("_128_") != name.npos ? 80 : 48;
}

LayerCache CacheOf(KernelId id, const Step& step, CheckMemory* memory) {
  const std::string_view name = RowOf(id).name;
  const auto size = static_cast<size_t>(HeadSizeOf(id));
  const size_t values = size_t{2} * kKvHeads * kCacheTokens * size;
  LayerCache cache = {};
  cache.tables = step.tables;
  cache.first = step.first;
  cache.kv_heads = kKvHeads;
  cache.head_size = HeadSizeOf(id);
  cache.fragments = name.starts_with("paged_mma_");
  if (name.ends_with("_f32")) {
    cache.blocks =
        reinterpret_cast<std::byte*>(const_cast<float*>(memory->Floats(kCacheBlocks * values, 2)));
    cache.block_bytes = static_cast<int64_t>(values * sizeof(float));
  } else {
    cache.blocks = reinterpret_cast<std::byte*>(
        memory->Operands(kCacheBlocks * values, 2, name.ends_with("_f16")).on_device);
    cache.block_bytes = static_cast<int64_t>(values * sizeof(uint16_t));
  }
  return cache;
}

// Heads of the step's rows: what attention reads of them is set where it is needed.
KvHeadsArgs HeadsOf(KernelId id, const Step& step, CheckMemory* memory) {
  constexpr int kRope = 16;
  const auto size = static_cast<size_t>(HeadSizeOf(id));
  const auto table = [&] { return memory->Floats((kStepPast + 3) * kRope / 2, 1); };
  return {.q = memory->Floats(kStepRows * kQueryHeads * size, 2),
          .k = memory->Floats(kStepRows * kKvHeads * size, 2),
          .v = memory->Floats(kStepRows * kKvHeads * size, 2),
          .rotated = nullptr,
          .q_gamma = memory->Floats(size, 1),
          .k_gamma = memory->Floats(size, 1),
          .cos = table(),
          .sin = table(),
          .long_cos = table(),
          .long_sin = table(),
          .rows = step.rows,
          .positions = step.positions,
          .sequences = step.sequences,
          .is_long = memory->Put({1, 0}),
          .cache = {},
          .heads = kQueryHeads,
          .rope_size = kRope,
          .q_epsilon = 1e-5F,
          .k_epsilon = 1e-6F,
          .interleaved = false};
}

std::vector<KernelLaunch> StepHeads(KernelId id, CheckMemory* memory) {
  const Step step = StepOf(memory);
  KvHeadsArgs args = HeadsOf(id, step, memory);
  std::vector<KernelLaunch> launches;
  for (const bool interleaved : {false, true}) {
    args.interleaved = interleaved;
    args.cache = CacheOf(id, step, memory);
    args.rotated = memory->Room<float>(kStepRows * kQueryHeads * kStepHeadSize).on_device;
    if (interleaved) args.q_gamma = nullptr;
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kStepRows, RowOf(id).tile_rows),
                                        kQueryHeads + kKvHeads, args));
  }
  return launches;
}

PagedShape ShapeOf(const Step& step, CheckMemory* memory) {
  return {.positions = step.positions,
          .sequences = step.sequences,
          .lengths = step.lengths,
          .parts = memory->Put({0, 2, 4, 6, 7, 8, 9, 10, 11}),
          .heads = kQueryHeads,
          .head_size = kStepHeadSize,
          .window = 0,
          .causal = true};
}

std::vector<KernelLaunch> StepAttention(KernelId id, CheckMemory* memory) {
  const Step step = StepOf(memory);
  const int size = HeadSizeOf(id);
  PagedArgs args = {.heads = HeadsOf(id, step, memory),
                    .appends = false,
                    .y = nullptr,
                    .tiles = nullptr,
                    .tile_count = memory->Put({3}),
                    .shape = ShapeOf(step, memory),
                    .scale = 0.2F,
                    .soft_cap = 0};
  args.heads.cache = CacheOf(id, step, memory);
  args.heads.rotated =
      const_cast<float*>(memory->Floats(static_cast<size_t>(kStepRows * kQueryHeads * size), 2));
  args.shape.head_size = size;
  std::vector<KernelLaunch> launches;
  // Causal; with a window, a cap and both directions; by chunks; with a row of each sequence, which
  // are appended.
  for (int way = 0; way < 4; ++way) {
    args.tiles = way < 2    ? memory->Put<PagedTile>({{0, 3, 0, -1}, {3, 4, 1, -1}, {7, 2, 1, -1}})
                 : way == 2 ? memory->Put<PagedTile>({{0, 1, 0, 0}, {0, 1, 0, 1}, {5, 1, 1, 0}})
                            : memory->Put<PagedTile>({{2, 1, 0, 0}, {2, 1, 0, 1}, {8, 1, 1, -1}});
    args.appends = way == 3;
    args.shape.window = way == 1 ? 20 : 0;
    args.shape.causal = way != 1;
    args.soft_cap = way == 1 ? 5.0F : 0.0F;
    args.y = memory->Room<float>(static_cast<size_t>(12 * 4 * kQueryHeads * (size + 2))).on_device;
    launches.push_back(KernelLaunch::Of(id, 4, kKvHeads, args));
  }
  return launches;
}

std::vector<KernelLaunch> StepJoin(KernelId id, CheckMemory* memory) {
  const Step step = StepOf(memory);
  const PagedJoinArgs args = {
      .parts = memory->Floats(12 * 4 * kQueryHeads * (kStepHeadSize + 2), 2),
      .y = memory->Room<float>(kStepRows * kQueryHeads * kStepHeadSize).on_device,
      .rows = step.rows,
      .shape = ShapeOf(step, memory),
      .units = 4};
  return {KernelLaunch::Of(id, BlocksOf(kStepRows, RowOf(id).tile_rows), kQueryHeads, args)};
}

// Three picks, of which the second is left as it is. The best one reads sums as the scan leaves
// them: 1,300 logits, the last block cut short.
std::vector<KernelLaunch> StepLogits(KernelId id, CheckMemory* memory) {
  constexpr int kPicks = 3, kVocabulary = 1300, kBlocksOf = 6;
  constexpr int kFoundBytes = sizeof(BestLogits) + kBlocksOf * sizeof(LogitSums);
  LogitsArgs args = {
      .logits = const_cast<float*>(memory->Floats(kPicks * kVocabulary, 9)),
      .bad_ids = memory->Room<int>(kPicks * kBlocksOf).on_device,
      .found = memory->Room<std::byte>(kPicks * kFoundBytes).on_device,
      .wants = memory->Put({1, 0, 1}),
      .draws = memory->Put<sample::DrawRule>({{0.7, 0.8F, 0.9F, 0.01F, 40}, {}, {0, 0, 1, 0, 1}}),
      .drawn = memory->Room<int>(kPicks).on_device,
      .picks = memory->Put({kPicks}),
      .found_bytes = kFoundBytes,
      .vocabulary = kVocabulary,
      .blocks = kBlocksOf,
      .scale = 0.5F,
      .soft_cap = 3.0F};
  constexpr KernelId kScan = KernelId::logits_scan;
  const KernelLaunch scan =
      KernelLaunch::Of(kScan, BlocksOf(kBlocksOf, RowOf(kScan).tile_rows), kPicks, args);
  if (id == kScan) return {scan};
  return {scan, KernelLaunch::Of(id, kPicks, 1, args)};
}

// Blocks of each form.
constexpr int kBlockFeatures = 72, kBlockDepth = 512;
numbers::DType StoredOf(std::string_view kernel) {
  if (kernel.ends_with("_short")) return numbers::DType::kQ6K;
  if (kernel.ends_with("_offsets")) return numbers::DType::kQ5K;
  return kernel.ends_with("_codes4") ? numbers::DType::kQ4K : numbers::DType::kQ8_0;
}
struct CheckedBlocks {
  const std::byte* blocks;
  const float* scales;
};
CheckedBlocks MakeBlocks(numbers::DType stored, uint32_t seed, CheckMemory* memory) {
  const std::vector<std::byte> bytes =
      numbers::RandomWeights(stored, kBlockFeatures, kBlockDepth, seed);
  const program::TensorView view = {stored, kBlockFeatures, kBlockDepth, bytes.data()};
  const uint64_t of_rows = BlockRowBytes(BlockFormOf(stored), kBlockDepth);
  const auto blocks = memory->Room<std::byte>((kBlockFeatures + 15) / 16 * of_rows);
  const auto scales = memory->Room<float>(kBlockFeatures);
  for (int64_t row = 0; row < kBlockFeatures; row += 16) {
    WriteBlocks(view, row, std::min<int64_t>(16, kBlockFeatures - row),
                blocks.on_host.data() + static_cast<uint64_t>(row / 16) * of_rows,
                scales.on_host.data() + row);
  }
  return {blocks.on_device, scales.on_device};
}

// With a bias, and with a gate; the last rows and features within a tile.
std::vector<KernelLaunch> BlockGemm(KernelId id, CheckMemory* memory, const DeviceInfo& device) {
  constexpr int kGemmRows = 37;
  const CheckedBlocks w = MakeBlocks(StoredOf(RowOf(id).name), 1, memory);
  const CheckedBlocks up = MakeBlocks(StoredOf(RowOf(id).name), 2, memory);
  GemmArgs args = {};
  args.x = memory->Operands(kGemmRows * kBlockDepth, 2, true).on_device;
  args.w = reinterpret_cast<const uint16_t*>(w.blocks);
  args.rows = memory->Put({kGemmRows});
  args.stride = args.k = kBlockDepth;
  args.to.row_scales = memory->Floats(kGemmRows, 2);
  args.to.scales = w.scales;
  args.to.scales_up = up.scales;
  args.to.bias = memory->Floats(kBlockFeatures, 1);
  args.to.features = kBlockFeatures;
  std::vector<KernelLaunch> launches;
  for (const bool gated : {false, true}) {
    args.up = gated ? reinterpret_cast<const uint16_t*>(up.blocks) : nullptr;
    args.to.activation = gated ? program::Activation::kSilu : program::Activation::kNone;
    args.to.y = memory->Room<float>(kGemmRows * kBlockFeatures).on_device;
    launches.push_back(
        GemmLaunch(id, args, kGemmRows, gated ? 2 * kBlockFeatures : kBlockFeatures, device));
  }
  return launches;
}

// Weights as a fused kernel has them.
struct FusedWeights {
  const uint16_t* w;
  const float* scales;
};
FusedWeights MakeFused(KernelId id, uint32_t seed, CheckMemory* memory) {
  if (id == KernelId::gemm_fused_f16) {
    return {memory->Operands((kBlockFeatures + 15) / 16 * 16 * kBlockDepth, 0.2F, true).on_device,
            memory->Floats(kBlockFeatures, 2)};
  }
  const CheckedBlocks blocks = MakeBlocks(StoredOf(RowOf(id).name), seed, memory);
  return {reinterpret_cast<const uint16_t*>(blocks.blocks), blocks.scales};
}

// Two matrices of one row, which is normed by all warps; a gate and a residual of three rows.
std::vector<KernelLaunch> FusedGemm(KernelId id, CheckMemory* memory) {
  constexpr int kWidth = 500, kRowsOf = 3;
  const FusedWeights w = MakeFused(id, 1, memory), up = MakeFused(id, 2, memory);
  GemmNarrowArgs args = {};
  args.gemm.k = args.gemm.stride = kBlockDepth;
  args.norm.x = memory->Floats(5 * kWidth, 3);
  args.norm.picks = memory->Put({4, 0, 2});
  args.norm.gamma = memory->Floats(kWidth, 1);
  args.norm.beta = memory->Floats(kWidth, 1);
  args.norm.width = kWidth;
  args.norm.stride16 = kBlockDepth;
  args.norm.epsilon = 1e-5F;
  args.norm.half = true;
  args.early_weights = true;
  std::vector<KernelLaunch> launches;
  for (const bool gated : {false, true}) {
    const int rows = gated ? kRowsOf : 1;
    args.gemm.w = w.w;
    args.gemm.rows = memory->Put({rows});
    args.gemm.to = {};
    args.gemm.to.scales = w.scales;
    args.gemm.to.features = kBlockFeatures;
    args.gemm.to.y = memory->Room<float>(kRowsOf * kBlockFeatures).on_device;
    int blocks = BlocksOf(kBlockFeatures, 16);
    args.more[0] = {};
    if (gated) {
      args.gemm.up = up.w;
      args.gemm.to.scales_up = up.scales;
      args.gemm.to.residual = memory->Floats(kRowsOf * kBlockFeatures, 1);
      args.gemm.to.activation = program::Activation::kSilu;
      args.norm.rms = true;
      blocks = BlocksOf(2 * kBlockFeatures, 16);
    } else {
      args.more[0] = {up.w,
                      up.scales,
                      memory->Floats(kBlockFeatures, 1),
                      memory->Room<float>(kBlockFeatures).on_device,
                      kBlockFeatures - 5,
                      blocks};
      blocks += BlocksOf(kBlockFeatures - 5, 16);
    }
    launches.push_back(KernelLaunch::Of(id, blocks, 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> UnpackBlocks(KernelId id, CheckMemory* memory) {
  constexpr int kPieces = (kBlockFeatures + 15) / 16 * (kBlockDepth / 64);
  const UnpackArgs args = {.blocks = MakeBlocks(StoredOf(RowOf(id).name), 1, memory).blocks,
                           .to = memory->Room<uint16_t>(kPieces * 1024).on_device,
                           .pieces = kPieces};
  return {KernelLaunch::Of(id, BlocksOf(kPieces, RowOf(id).tile_rows), 1, args)};
}

}  // namespace

std::vector<KernelLaunch> CachedLaunches(KernelId id, CheckMemory* memory,
                                         const DeviceInfo& device) {
  const std::string_view name = RowOf(id).name;
  if (name.starts_with("rows_kv_heads_")) return StepHeads(id, memory);
  if (name.starts_with("paged_attention_") || name.starts_with("paged_mma_")) {
    return StepAttention(id, memory);
  }
  if (id == KernelId::paged_join) return StepJoin(id, memory);
  if (name.starts_with("gemm_narrow_codes")) return BlockGemm(id, memory, device);
  if (name.starts_with("gemm_fused_")) return FusedGemm(id, memory);
  if (name.starts_with("unpack_")) return UnpackBlocks(id, memory);
  if (name.starts_with("logits_")) return StepLogits(id, memory);
  return {};
}

}  // namespace penstock::cuda

// The operations of programs with a cache (LoweringBuilder).
#include "cuda/lowering_builder.h"

namespace penstock::cuda {
namespace {

using numbers::DType;

// The kernel for a cache of that type.
KernelId OfCacheType(DType type, KernelId f32, KernelId f16, KernelId bf16) {
  return type == DType::kF32 ? f32 : type == DType::kF16 ? f16 : bf16;
}

// Whether a layer's cache lies as fragments, for tensor cores.
bool HasFragments(const LoweringPlan& plan, const program::AttentionShape& shape) {
  return plan.cache_type != DType::kF32 && shape.head_size % 16 == 0;
}

KernelId PagedKernelOf(const LoweringPlan& plan, const program::AttentionShape& shape) {
  const DType type = plan.cache_type;
  if (!HasFragments(plan, shape)) {
    return OfCacheType(type, KernelId::paged_attention_f32, KernelId::paged_attention_f16,
                       KernelId::paged_attention_bf16);
  }
  const bool half = type == DType::kF16;
  if (shape.head_size <= 64) return half ? KernelId::paged_mma_64_f16 : KernelId::paged_mma_64_bf16;
  if (shape.head_size <= 128) {
    return half ? KernelId::paged_mma_128_f16 : KernelId::paged_mma_128_bf16;
  }
  return half ? KernelId::paged_mma_256_f16 : KernelId::paged_mma_256_bf16;
}

}  // namespace

PagedShape LoweringBuilder::PagedShapeOf(const program::AttentionShape& shape) const {
  PagedShape paged = {};
  paged.positions = At<int>(step_input_.positions);
  paged.sequences = At<int>(step_input_.sequences);
  paged.lengths = At<int>(step_input_.lengths);
  paged.parts = At<int>(step_input_.parts);
  paged.heads = shape.heads;
  paged.head_size = shape.head_size;
  paged.window = shape.window;
  paged.causal = shape.causal;
  return paged;
}

LayerCache LoweringBuilder::CacheOf(const program::AttentionShape& shape) const {
  LayerCache cache = {};
  if (base_ == 0) return cache;
  const LoweringPlan::LayerPlace& place = plan_.layers[static_cast<size_t>(shape.layer)];
  cache.blocks = step_->caches[place.group] + place.offset;
  cache.block_bytes = static_cast<int64_t>(plan_.block_bytes[place.group]);
  cache.tables = At<int>(step_input_.tables);
  cache.first = At<int>(step_input_.firsts + place.group * step_input_.stride);
  cache.kv_heads = shape.kv_heads;
  cache.head_size = shape.head_size;
  cache.fragments = HasFragments(plan_, shape);
  return cache;
}

KvHeadsArgs LoweringBuilder::KvHeadsOf(const program::AttentionShape& shape) const {
  KvHeadsArgs heads = {};
  heads.q_gamma = FloatsOf(shape.q_norm.gamma);
  heads.k_gamma = FloatsOf(shape.k_norm.gamma);
  heads.cos = FloatsOf(shape.rope_cos);
  heads.sin = FloatsOf(shape.rope_sin);
  heads.long_cos = FloatsOf(shape.long_rope_cos);
  heads.long_sin = FloatsOf(shape.long_rope_sin);
  heads.rows = CountOf(Rows::kTokens);
  heads.positions = At<int>(step_input_.positions);
  heads.sequences = At<int>(step_input_.sequences);
  heads.is_long = At<int>(step_input_.is_long);
  heads.cache = CacheOf(shape);
  heads.heads = shape.heads;
  heads.rope_size = shape.rope_size;
  heads.q_epsilon = shape.q_norm.epsilon;
  heads.k_epsilon = shape.k_norm.epsilon;
  heads.interleaved = shape.rope_interleaved;
  return heads;
}

void LoweringBuilder::RunCached(const program::AttentionOp& op) {
  const program::AttentionShape& shape = op.shape;
  constexpr Rows kRows = Rows::kTokens;
  const LinearInput x = InputOf(values_[op.x], kRows, op.norm, op.q->dtype(),
                                op.q->out() + op.k->out() + op.v->out());
  const Place q = Scratch(DType::kF32, op.q->out(), kRows);
  const Place k = Scratch(DType::kF32, op.k->out(), kRows);
  const Place v = Scratch(DType::kF32, op.v->out(), kRows);
  const LinearOutput outputs[] = {{op.q, q}, {op.k, k}, {op.v, v}};
  MultiplyEach(x, kRows, outputs);

  const bool appends = step_bucket_.single && plan_.tuning.fused_heads;
  const Place& y = values_[op.y];
  PagedArgs args = {};
  args.heads = KvHeadsOf(shape);
  args.heads.q = q.floats;
  args.heads.k = k.floats;
  args.heads.v = v.floats;
  args.appends = appends;
  args.y = y.floats;
  args.tiles = At<PagedTile>(step_input_.tiles);
  args.tile_count = Count(StepInput::kTiles);
  args.shape = PagedShapeOf(shape);
  args.scale = shape.scale;
  args.soft_cap = shape.soft_cap;
  if (!appends) {
    args.heads.rotated = Scratch(DType::kF32, op.q->out(), kRows).floats;
    PutRows(OfCacheType(plan_.cache_type, KernelId::rows_kv_heads_f32, KernelId::rows_kv_heads_f16,
                        KernelId::rows_kv_heads_bf16),
            kRows, args.heads, shape.heads + shape.kv_heads);
  }
  const int units = HasFragments(plan_, shape) ? kChunkKeys / 64 : 1;
  if (step_bucket_.split) {
    const auto part_floats = static_cast<uint64_t>(shape.heads * (shape.head_size + 2));
    args.y = reinterpret_cast<float*>(
        Take(static_cast<uint64_t>(step_bucket_.tiles * units) * part_floats * sizeof(float)));
  }
  Put(PagedKernelOf(plan_, shape), step_bucket_.tiles, shape.kv_heads, args);
  if (!step_bucket_.split) return;
  PagedJoinArgs join = {};
  join.parts = args.y;
  join.y = y.floats;
  join.rows = CountOf(kRows);
  join.shape = args.shape;
  join.units = units;
  PutRows(KernelId::paged_join, kRows, join, shape.heads);
}

void LoweringBuilder::RunOp(const program::PicksOp& op) {
  constexpr Rows kRows = Rows::kSequences;
  if (RowsIn(kRows) == 0) return;
  const int* const picks = At<int>(step_input_.picks);
  const Place& y = values_[op.y];
  if (op.weight == nullptr) {
    NormArgs args = NormOf(values_[op.x].floats, kRows, op.norm, y);
    args.picks = picks;
    return PutRows(KernelId::rows_norm, kRows, args);
  }
  const LinearInput x =
      InputOf(values_[op.x], kRows, op.norm, op.weight->dtype(), op.weight->out(), picks);
  Multiply(x, kRows, *op.weight, nullptr, program::Activation::kNone, nullptr, y);
  if (base_ == 0) return;
  const StepResults results(plan_, step_->picks);
  LogitsArgs args = {};
  args.logits = y.floats;
  args.bad_ids = reinterpret_cast<int*>(step_->results + results.bad_ids);
  args.found = step_->results + results.found;
  args.wants = At<int>(step_input_.wants);
  args.draws = At<sample::DrawRule>(step_input_.draws);
  args.drawn = reinterpret_cast<int*>(step_->results + results.drawn);
  args.picks = CountOf(kRows);
  args.found_bytes = static_cast<int>(results.found_bytes);
  args.vocabulary = op.weight->out();
  args.blocks = results.blocks;
  args.scale = op.scale;
  args.soft_cap = op.soft_cap;
  Put(KernelId::logits_scan, BlocksOf(results.blocks, RowOf(KernelId::logits_scan).tile_rows),
      RowsIn(kRows), args);
  Put(KernelId::logits_best, RowsIn(kRows), 1, args);
}

}  // namespace penstock::cuda

#include "cuda/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <variant>

#include "base/int_math.h"
#include "cuda/lowering_builder.h"
#include "numbers/dtype.h"

namespace penstock::cuda {
namespace {

using numbers::DType;
using program::Rows;
using program::ValueId;

constexpr int kDepthMax = 128;     // of heads that tensor cores take
constexpr int kBiasDepthMax = 64;  // with a relative bias
// Rows and query heads that a block of paged attention takes.
constexpr int kPagedLines = 16;

const char* RefusalOf(const program::PackedLinear& weight, bool cached) {
  if (weight.dtype() != DType::kF32 && !IsOperandType(weight.dtype()))
    return "weights of that type";
  // Those of a dry backend are neither.
  const auto* const of_device = dynamic_cast<const DeviceLinear*>(&weight);
  if (of_device == nullptr || weight.dtype() != DType::kF16) return nullptr;
  const bool scaled = of_device->scales() != nullptr;
  if (scaled == cached) return nullptr;
  return cached ? "weights that are not scaled" : "weights of a program with a cache";
}

const char* RefusalOf(const program::Norm& norm) {
  return norm.gamma == nullptr || norm.kind == program::NormKind::kRms ? nullptr : "a layer norm";
}

// What of an operation is not run, with a cache or without one; null: nothing.
const char* RefusalOf(const program::EmbedOp& op, bool cached) {
  if (cached) return op.types != nullptr || op.positions != nullptr ? "types or places" : nullptr;
  return op.matrix != nullptr ? "words that are a matrix" : nullptr;
}
const char* RefusalOf(const program::InputOp&, bool cached) {
  return cached ? "an input of rows" : nullptr;
}
const char* RefusalOf(const program::NormOp&, bool) { return nullptr; }
const char* RefusalOf(const program::PoolOp&, bool cached) { return cached ? "a pool" : nullptr; }
const char* RefusalOf(const program::PicksOp& op, bool cached) {
  if (!cached) return "picked rows";
  if (op.weight == nullptr) return nullptr;
  if (op.weight->out() > kLogitsOfBlock * kLogitBlocksMax) return "a vocabulary of that size";
  return RefusalOf(*op.weight, cached);
}
const char* RefusalOf(const program::LinearOp& op, bool cached) {
  const bool adds = op.residual.value != program::kNoValue;
  if (adds && op.activation != program::Activation::kNone) return "an activation before the sum";
  return RefusalOf(*op.weight, cached);
}
const char* RefusalOf(const program::FeedForwardOp& op, bool cached) {
  if (!cached && op.norm.gamma != nullptr) return "a norm of x";
  if (op.up != nullptr && op.up->dtype() != op.in->dtype()) return "up and in of two types";
  for (const program::PackedLinear* const weight : {op.in, op.out}) {
    if (const char* const what = RefusalOf(*weight, cached)) return what;
  }
  return nullptr;
}
const char* RefusalOf(const program::AttentionOp& op, bool cached) {
  const program::AttentionShape& shape = op.shape;
  if (shape.cached() != cached) return cached ? "attention without a cache" : "a cache";
  if (shape.head_size > kHeadSizeMax) return "heads of that size";
  if (cached) {
    if (!op.projects()) return "q, k and v without a matrix";
    if (op.queries != program::Pick::kAll) return "one token's result";
    if (shape.relative_bias != nullptr) return "a relative bias";
    if (op.q->dtype() != op.k->dtype() || op.q->dtype() != op.v->dtype()) {
      return "q, k and v of several types";
    }
    for (const program::Norm& norm : {shape.q_norm, shape.k_norm}) {
      if (const char* const what = RefusalOf(norm)) return what;
    }
    return RefusalOf(*op.q, cached);
  }
  if (op.projects()) return "q, k and v with a matrix each";
  if (shape.kv_heads != shape.heads) return "fewer kv heads than heads";
  if (shape.causal) return "one direction";
  if (shape.soft_cap != 0) return "a soft cap";
  if (shape.long_rope_cos != nullptr) return "rotary tables for long sequences";
  if (shape.q_norm.gamma != nullptr || shape.k_norm.gamma != nullptr) return "norms of heads";
  return nullptr;
}

// Where the keys and values of each layer lie in the blocks of its group.
Status PlaceLayers(const program::PrepareOptions& options, LoweringPlan* plan) {
  if (options.cache_type == DType::kI8) {
    return Status::Unsupported("the GPU does not keep a cache in int8");
  }
  plan->cached = true;
  plan->cache_type = options.cache_type;
  plan->groups = program::CacheGroups(*plan->program);
  for (const CacheGroup& group : plan->groups) {
    if (group.kind == CacheKind::kState) {
      return Status::Unsupported("the GPU keeps no cache of states");
    }
  }
  plan->groups.resize(std::min(plan->groups.size(), options.blocks.size()));
  plan->block_bytes.resize(plan->groups.size());
  for (const program::Op& op : plan->program->ops) {
    const auto* const attention = std::get_if<program::AttentionOp>(&op);
    if (attention == nullptr) continue;
    const program::AttentionShape& shape = attention->shape;
    const size_t group = program::CacheGroupOf(shape, plan->groups);
    const auto layer = static_cast<size_t>(shape.layer);
    if (plan->layers.size() <= layer) plan->layers.resize(layer + 1);
    plan->layers[layer] = {group, plan->block_bytes[group]};
    plan->block_bytes[group] += static_cast<uint64_t>(shape.kv_heads) * 2 * kCacheTokens *
                                static_cast<uint64_t>(shape.head_size) *
                                numbers::DTypeBytes(options.cache_type);
  }
  return Status::Ok();
}

// Notes which forms of values are read.
class FormsOf {
 public:
  explicit FormsOf(LoweringPlan* plan) : plan_(plan) {}

  void Add(const program::EmbedOp&) {}
  void Add(const program::InputOp& op) {
    plan_->input_width = plan_->program->values[op.y].width;
    Floats(op.y);
  }
  void Add(const program::NormOp& op) { Floats(op.x); }
  void Add(const program::PicksOp&) {}  // with a cache
  void Add(const program::PoolOp& op) {
    Floats(op.x);
    Floats(op.y);
  }
  void Add(const program::LinearOp& op) {
    Operand(op.x, op.weight->dtype());
    Add(op.residual);
  }
  void Add(const program::FeedForwardOp& op) {
    Operand(op.x, op.in->dtype());
    Add(op.residual);
  }
  void Add(const program::AttentionOp&) {}
  // Once what is read of its y is known.
  void AddHeads(const program::AttentionOp& op) {
    const AttentionWay way = WayOf(op.shape, At(op.y));
    Operand(op.x, way.operands && !way.prepares ? op.shape.dtype : DType::kF32);
  }
  // The second type of operands of one value, if there are two.
  bool two_types() const { return two_types_; }

 private:
  void Add(const program::Residual& residual) {
    if (residual.value == program::kNoValue) return;
    Floats(residual.value);
    if (residual.sum != program::kNoValue) Floats(residual.sum);
  }
  Forms& At(ValueId id) { return plan_->forms[id]; }
  void Floats(ValueId id) { At(id).floats = true; }
  void Operand(ValueId id, DType dtype) {
    if (!IsOperandType(dtype)) return Floats(id);
    const bool half = dtype == DType::kF16;
    two_types_ |= At(id).operands && At(id).half != half;
    At(id).operands = true;
    At(id).half = half;
  }

  LoweringPlan* const plan_;
  bool two_types_ = false;
};

}  // namespace

AttentionWay WayOf(const program::AttentionShape& shape, const Forms& results) {
  AttentionWay way;
  const int most = shape.relative_bias == nullptr ? kDepthMax : kBiasDepthMax;
  way.operands = IsOperandType(shape.dtype) && shape.head_size % 2 == 0 &&
                 shape.head_size <= most && !results.floats && results.operands &&
                 results.half == (shape.dtype == DType::kF16);
  way.depth = shape.head_size;
  if (way.operands) way.depth = shape.head_size <= 32 ? 32 : shape.head_size <= 64 ? 64 : 128;
  way.prepares = shape.rope_cos != nullptr || way.depth != shape.head_size;
  return way;
}

Bucket Bucket::Of(size_t tokens, size_t sequences) {
  const auto up = [](size_t n) { return static_cast<int32_t>(std::bit_ceil(n)); };
  return {std::max(kTokensMin, up(std::max<size_t>(tokens, 1))),
          up(std::max<size_t>(sequences, 1))};
}

InputLayout::InputLayout(const Bucket& bucket, int32_t input_width) {
  const auto tokens = static_cast<uint64_t>(bucket.tokens);
  const auto sequences = static_cast<uint64_t>(bucket.sequences);
  uint64_t at = 0;
  const auto take = [&](uint64_t count, uint64_t size) {
    return std::exchange(at, at + RoundUp(count * size, kArrayBytes));
  };
  take(kCounts, sizeof(int));
  for (uint64_t* const one : {&ids, &types, &positions, &places}) *one = take(tokens, sizeof(int));
  offsets = take(sequences + 1, sizeof(int));
  skips = take(sequences, sizeof(int));
  tiles = take(static_cast<uint64_t>(bucket.tiles()), sizeof(AttentionTile));
  for (uint64_t* const one : {&first_tiles, &last_tiles}) {
    *one = take(sequences, sizeof(AttentionTile));
  }
  input = take(tokens * static_cast<uint64_t>(input_width), sizeof(float));
  bytes = at;
}

static Expected<StepTuning> TuningOf(const std::vector<std::string>& without) {
  StepTuning tuning;
  bool* const all[] = {&tuning.graphs,      &tuning.early_launch, &tuning.early_weights,
                       &tuning.split_keys,  &tuning.fused_norms,  &tuning.fused_heads,
                       &tuning.device_draws};
  static_assert(std::size(all) == std::size(kCudaOptimisations));
  for (const std::string& name : without) {
    const auto* const end = std::end(kCudaOptimisations);
    const auto* const found = std::find(std::begin(kCudaOptimisations), end, name);
    if (found == end) return Status::InvalidArgument("no optimisation is named " + name);
    *all[found - std::begin(kCudaOptimisations)] = false;
  }
  return tuning;
}

Expected<LoweringPlan> PlanLowering(const program::Program& program, const DeviceInfo& device,
                                    const program::PrepareOptions* options) {
  LoweringPlan plan;
  plan.program = &program;
  plan.device = &device;
  plan.forms.resize(program.values.size());
  plan.forms[program.result].floats = true;
  const bool cached = options != nullptr;
  FormsOf forms(&plan);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const program::Op& op = program.ops[i];
    const char* what = std::visit([&](const auto& one) { return RefusalOf(one, cached); }, op);
    if (what == nullptr && !cached) {
      std::visit([&](const auto& one) { forms.Add(one); }, op);
      if (forms.two_types()) what = "one value as operands of two types";
    }
    if (what == nullptr) continue;
    return Status::Unsupported(
        fmt::format("op {} ({}): the GPU does not run {}", i, program::OpName(op), what));
  }
  if (cached) {
    const auto* const last = std::get_if<program::PicksOp>(&program.ops.back());
    if (last == nullptr || last->y != program.result) {
      return Status::Unsupported(
          "the GPU does not run a program with a cache and no picks at its end");
    }
    for (Forms& one : plan.forms) one.floats = true;
    PENSTOCK_ASSIGN_OR_RETURN(plan.tuning, TuningOf(options->without));
    PENSTOCK_RETURN_IF_ERROR(PlaceLayers(*options, &plan));
    return plan;
  }
  for (const program::Op& op : program.ops) {
    if (const auto* const attention = std::get_if<program::AttentionOp>(&op)) {
      forms.AddHeads(*attention);
    }
  }
  if (forms.two_types()) return Status::Unsupported("the GPU does not run layers of two types");
  return plan;
}

uint64_t ActivationBytes(const LoweringPlan& plan, const Bucket& bucket) {
  LoweringBuilder builder(plan, bucket, nullptr);
  builder.Run();
  return builder.bytes();
}

Lowered Lower(const LoweringPlan& plan, const Bucket& bucket, std::byte* activations) {
  LoweringBuilder builder(plan, bucket, activations);
  builder.Run();
  return builder.Take();
}

StepBucket StepBucket::Of(size_t rows, size_t picks, size_t tiles, bool split, bool single) {
  const auto up = [](size_t n) { return n == 0 ? 0 : static_cast<int32_t>(std::bit_ceil(n)); };
  return {up(rows), up(picks), up(tiles), split, single};
}

int32_t PagedTileRows(const LoweringPlan& plan) {
  const auto* const attention = program::FirstOp<program::AttentionOp>(*plan.program);
  if (attention == nullptr) return 1;
  return std::max(1, kPagedLines * attention->shape.kv_heads / attention->shape.heads);
}

StepInput::StepInput(const StepBucket& bucket, size_t groups) {
  const auto row_count = static_cast<uint64_t>(bucket.rows);
  const auto pick_count = static_cast<uint64_t>(bucket.picks);
  uint64_t at = 0;
  const auto take = [&](uint64_t count, uint64_t size) {
    return std::exchange(at, at + RoundUp(count * size, kArrayBytes));
  };
  take(kCounts, sizeof(int));
  for (uint64_t* const one : {&ids, &positions, &sequences, &parts, &sources, &lengths, &is_long}) {
    *one = take(row_count, sizeof(int));
  }
  stride = RoundUp(row_count * sizeof(int), kArrayBytes);
  firsts = take(groups, stride);
  for (uint64_t* const one : {&picks, &wants}) *one = take(pick_count, sizeof(int));
  draws = take(pick_count, sizeof(sample::DrawRule));
  tiles = take(static_cast<uint64_t>(bucket.tiles), sizeof(PagedTile));
  tables = at;
}

StepResults::StepResults(const LoweringPlan& plan, int32_t picks) {
  const auto* const op = program::FirstOp<program::PicksOp>(*plan.program);
  const int32_t width = plan.program->values[plan.program->result].width;
  if (op != nullptr && op->weight != nullptr) {
    blocks = (width + kLogitsOfBlock - 1) / kLogitsOfBlock;
    found_bytes = sizeof(BestLogits) + static_cast<uint64_t>(blocks) * sizeof(LogitSums);
  }
  const auto count = static_cast<uint64_t>(picks);
  uint64_t at = 0;
  const auto take = [&](uint64_t size) {
    return std::exchange(at, at + RoundUp(count * size, kArrayBytes));
  };
  rows = take(static_cast<uint64_t>(width) * sizeof(float));
  bad_ids = take(static_cast<uint64_t>(blocks) * sizeof(int));
  drawn = take(sizeof(int));
  found = take(found_bytes);
  bytes = at;
}

uint64_t StepActivationBytes(const LoweringPlan& plan, const StepBucket& bucket) {
  const StepMemory none;
  LoweringBuilder builder(plan, bucket, none, nullptr);
  builder.Run();
  return builder.bytes();
}

Lowered LowerStep(const LoweringPlan& plan, const StepBucket& bucket, const StepMemory& memory,
                  std::byte* activations) {
  LoweringBuilder builder(plan, bucket, memory, activations);
  builder.Run();
  return builder.Take();
}

}  // namespace penstock::cuda

#include "cuda/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <variant>

#include "common/int_math.h"
#include "cuda/weights.h"
#include "numbers/dtype.h"

namespace penstock::cuda {
namespace {

using numbers::DType;
using program::Rows;
using program::ValueId;

constexpr uint64_t kArrayAlignment = 256;
constexpr int kDepthMax = 128;     // of heads that tensor cores take
constexpr int kBiasDepthMax = 64;  // with a relative bias

bool IsOperandType(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBf16; }

int32_t Padded(int32_t width) {
  return static_cast<int32_t>(RoundUp(static_cast<size_t>(width), 64));
}

// How an attention runs.
struct AttentionWay {
  bool operands = false;  // by tensor cores, else in floats
  int depth = 0;          // columns of a head
  bool prepares = false;  // heads are rotated or padded first
};

// `results`: the forms of its y. Tensor cores write operands of their own type alone.
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

const char* RefusalOf(const program::Residual& residual) {
  if (residual.norm.gamma != nullptr || residual.scale != 1)
    return "a norm or scale before the sum";
  return nullptr;
}
const char* RefusalOf(const program::PackedLinear& weight) {
  return weight.dtype() == DType::kF32 || IsOperandType(weight.dtype()) ? nullptr
                                                                        : "weights of that type";
}

const char* RefusalOf(const program::EmbedOp& op) {
  if (op.matrix != nullptr) return "words that are a matrix";
  return op.scale != 1 ? "a scale" : nullptr;
}
const char* RefusalOf(const program::InputOp&) { return nullptr; }
const char* RefusalOf(const program::NormOp&) { return nullptr; }
const char* RefusalOf(const program::PoolOp&) { return nullptr; }
const char* RefusalOf(const program::PicksOp&) { return "picked rows"; }
const char* RefusalOf(const program::LinearOp& op) {
  const bool adds = op.residual.value != program::kNoValue;
  if (adds && op.activation != program::Activation::kNone) return "an activation before the sum";
  if (const char* const what = RefusalOf(*op.weight)) return what;
  return adds ? RefusalOf(op.residual) : nullptr;
}
const char* RefusalOf(const program::FeedForwardOp& op) {
  if (op.norm.gamma != nullptr) return "a norm of x";
  if (op.up != nullptr && op.up->dtype() != op.in->dtype()) return "up and in of two types";
  for (const program::PackedLinear* const weight : {op.in, op.out}) {
    if (const char* const what = RefusalOf(*weight)) return what;
  }
  return RefusalOf(op.residual);
}
const char* RefusalOf(const program::AttentionOp& op) {
  const program::AttentionShape& shape = op.shape;
  if (shape.cached()) return "a cache";
  if (op.projects()) return "q, k and v with a matrix each";
  if (shape.kv_heads != shape.heads) return "fewer kv heads than heads";
  if (shape.causal) return "one direction";
  if (shape.soft_cap != 0) return "a soft cap";
  if (shape.long_rope_cos != nullptr) return "rotary tables for long sequences";
  if (shape.q_norm.gamma != nullptr || shape.k_norm.gamma != nullptr) return "norms of heads";
  return shape.head_size > kHeadSizeMax ? "heads of that size" : nullptr;
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
  void Add(const program::PicksOp&) {}
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

// A value, or scratch, in memory.
struct Place {
  float* floats = nullptr;       // [rows, width]
  uint16_t* operands = nullptr;  // [rows, stride16]
  int width = 0;
  int stride16 = 0;
  bool half = false;
};

class Lowering {
 public:
  // base null: only sizes are wanted, and weights are not read.
  Lowering(const LoweringPlan& plan, const Bucket& bucket, std::byte* base)
      : plan_(plan),
        program_(*plan.program),
        bucket_(bucket),
        input_(bucket, plan.input_width),
        base_(reinterpret_cast<uintptr_t>(base)),
        used_(input_.bytes) {
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const program::Value& value = program_.values[i];
      values_.push_back(Alloc(plan.forms[i], value.width, RowsIn(value.rows)));
    }
    scratch_ = used_;
  }

  void Run() {
    for (const program::Op& op : program_.ops) {
      used_ = scratch_;
      std::visit([this](const auto& one) { RunOp(one); }, op);
      most_ = std::max(most_, used_);
    }
  }
  uint64_t bytes() const { return std::max(most_, scratch_); }
  Lowered Take() { return {std::move(launches_), values_[program_.result].floats}; }

 private:
  int32_t RowsIn(Rows rows) const {
    return rows == Rows::kTokens ? bucket_.tokens : bucket_.sequences;
  }
  Rows RowsOf(ValueId id) const { return program_.values[id].rows; }
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  const int* Count(InputLayout::Count count) const { return At<int>(count * sizeof(int)); }
  const int* CountOf(Rows rows) const {
    return Count(rows == Rows::kTokens ? InputLayout::kRows : InputLayout::kSequences);
  }

  Place Alloc(const Forms& forms, int32_t width, int32_t rows) {
    Place place;
    place.width = width;
    place.stride16 = Padded(width);
    place.half = forms.half;
    const auto take = [&](uint64_t bytes) {
      const uint64_t at = used_;
      used_ += RoundUp(bytes, kArrayAlignment);
      return base_ + at;
    };
    const auto count = static_cast<uint64_t>(rows);
    if (forms.floats) {
      place.floats = reinterpret_cast<float*>(take(count * static_cast<uint64_t>(width) * 4));
    }
    if (forms.operands) {
      place.operands =
          reinterpret_cast<uint16_t*>(take(count * static_cast<uint64_t>(place.stride16) * 2));
    }
    return place;
  }
  // Scratch of an operation. As operands of a linear layer's type, or as floats.
  Place Scratch(DType dtype, int32_t width, Rows rows) {
    const bool operands = IsOperandType(dtype);
    return Alloc({!operands, operands, dtype == DType::kF16}, width, RowsIn(rows));
  }

  template <typename Args>
  void Put(KernelId kernel, int grid_x, int grid_y, const Args& args) {
    if (base_ != 0) launches_.push_back(KernelLaunch::Of(kernel, grid_x, grid_y, args));
  }
  // A kernel over rows.
  template <typename Args>
  void PutRows(KernelId kernel, Rows rows, const Args& args) {
    Put(kernel, BlocksOf(RowsIn(rows), RowOf(kernel).tile_rows), 1, args);
  }
  const float* FloatsOf(const program::Table* table) const {
    if (base_ == 0 || table == nullptr) return nullptr;
    return static_cast<const DeviceTable*>(table)->data();
  }

  // Up to 64 rows: the narrow tiles, which read each weight once or twice. Else the largest tiles of
  // which there is at least one for every second multiprocessor. `even`: the count of features is,
  // as gemm_wgmma needs it.
  KernelId GemmOf(bool half, int32_t rows, int columns, bool even) const {
    if (rows <= 64) return half ? KernelId::gemm_narrow_f16 : KernelId::gemm_narrow_bf16;
    const auto fills = [&](KernelId kernel) {
      const KernelRow& row = RowOf(kernel);
      const int tiles = BlocksOf(rows, row.tile_rows) * BlocksOf(columns, row.tile_features);
      return 2 * tiles >= plan_.device->multiprocessors;
    };
    const KernelId widest = half ? KernelId::gemm_wgmma_f16 : KernelId::gemm_wgmma_bf16;
    if (even && plan_.device->Has(widest) && fills(widest)) return widest;
    const KernelId large = half ? KernelId::gemm_mma_128x128_f16 : KernelId::gemm_mma_128x128_bf16;
    if (fills(large)) return large;
    return half ? KernelId::gemm_mma_64x64_f16 : KernelId::gemm_mma_64x64_bf16;
  }

  // to = activation(x w^T + bias) [(x up^T + bias_up)] + residual.
  void Multiply(const Place& x, Rows rows, const program::PackedLinear& weight,
                const program::PackedLinear* up, program::Activation activation,
                const float* residual, const Place& to) {
    if (base_ == 0) return;
    const auto& w = static_cast<const DeviceLinear&>(weight);
    const auto* const other = static_cast<const DeviceLinear*>(up);
    Epilogue epilogue = {};
    epilogue.bias = w.bias();
    epilogue.residual = residual;
    epilogue.y = to.floats;
    epilogue.y16 = to.operands;
    epilogue.features = w.out();
    epilogue.stride16 = to.stride16;
    epilogue.activation = activation;
    epilogue.half = to.half;
    const int columns = to.operands != nullptr ? to.stride16 : w.out();
    const int* const count = CountOf(rows);
    if (w.dtype() == DType::kF32) {
      const KernelRow& row = RowOf(KernelId::gemm_f32);
      const int blocks_x = BlocksOf(columns, row.tile_features);
      const int blocks_y = BlocksOf(RowsIn(rows), row.tile_rows);
      Put(KernelId::gemm_f32, blocks_x, blocks_y,
          GemmF32Args{x.floats, w.floats(), count, w.in(), false, epilogue});
      if (other == nullptr) return;
      epilogue.bias = other->bias();
      epilogue.activation = program::Activation::kNone;
      Put(KernelId::gemm_f32, blocks_x, blocks_y,
          GemmF32Args{x.floats, other->floats(), count, w.in(), true, epilogue});
      return;
    }
    GemmArgs args = {};
    args.x = x.operands;
    args.w = w.pieces();
    args.rows = count;
    args.stride = x.stride16;
    args.k = Padded(w.in());
    args.to = epilogue;
    if (other != nullptr) {
      args.up = other->pieces();
      args.to.bias_up = other->bias();
    }
    const int32_t height = RowsIn(rows);
    const int width = other != nullptr ? 2 * columns : columns;
    const KernelId kernel = GemmOf(w.dtype() == DType::kF16, height, width, w.out() % 2 == 0);
    launches_.push_back(GemmLaunch(kernel, args, height, width, *plan_.device));
  }

  // y = norm(x), or a copy of it without a norm.
  void Normalise(const float* x, Rows rows, const program::Norm& norm, const Place& y) {
    if (y.floats == x && y.operands == nullptr && norm.gamma == nullptr) return;
    PutRows(KernelId::rows_norm, rows, NormOf(x, rows, norm, y));
  }
  NormArgs NormOf(const float* x, Rows rows, const program::Norm& norm, const Place& y) const {
    NormArgs args = {};
    args.x = x;
    args.gamma = FloatsOf(norm.gamma);
    args.beta = FloatsOf(norm.beta);
    args.y = y.floats;
    args.y16 = y.operands;
    args.rows = CountOf(rows);
    args.width = y.width;
    args.stride16 = y.stride16;
    args.epsilon = norm.epsilon;
    args.half = y.half;
    args.rms = norm.kind == program::NormKind::kRms;
    return args;
  }

  // y = after(s), s = residual + x w^T + bias.
  void MultiplyInto(const Place& x, Rows rows, const program::PackedLinear& weight,
                    const program::Residual& residual, ValueId y_id) {
    const Place& y = values_[y_id];
    const float* const added = values_[residual.value].floats;
    constexpr auto kNone = program::Activation::kNone;
    const bool has_sum = residual.sum != program::kNoValue;
    if (!has_sum && residual.after.gamma == nullptr) {
      return Multiply(x, rows, weight, nullptr, kNone, added, y);
    }
    Place sum = has_sum ? values_[residual.sum] : y;
    if (!has_sum) {
      sum.operands = nullptr;
      if (!plan_.forms[y_id].floats) sum = Scratch(DType::kF32, y.width, rows);
    }
    Multiply(x, rows, weight, nullptr, kNone, added, sum);
    Normalise(sum.floats, rows, residual.after, y);
  }

  void RunOp(const program::EmbedOp& op) {
    const Place& y = values_[op.y];
    Place sum = y;
    if (!plan_.forms[op.y].floats) sum = Scratch(DType::kF32, y.width, Rows::kTokens);
    EmbedArgs args = {};
    args.ids = At<int>(input_.ids);
    args.positions = At<int>(input_.positions);
    const bool one_type = op.types == nullptr || op.types->rows() <= 1;
    args.types = one_type ? nullptr : At<int>(input_.types);
    args.words = FloatsOf(op.words);
    args.places = FloatsOf(op.positions);
    args.kinds = FloatsOf(op.types);
    args.norm = NormOf(sum.floats, Rows::kTokens, op.norm, y);
    PutRows(KernelId::rows_embed, Rows::kTokens, args);
  }

  void RunOp(const program::InputOp& op) {
    Normalise(At<float>(input_.input), Rows::kTokens, {}, values_[op.y]);
  }
  void RunOp(const program::NormOp& op) {
    Normalise(values_[op.x].floats, RowsOf(op.x), op.norm, values_[op.y]);
  }

  void RunOp(const program::LinearOp& op) {
    const Place& x = values_[op.x];
    if (op.residual.value != program::kNoValue) {
      return MultiplyInto(x, RowsOf(op.x), *op.weight, op.residual, op.y);
    }
    Multiply(x, RowsOf(op.x), *op.weight, nullptr, op.activation, nullptr, values_[op.y]);
  }

  void RunOp(const program::FeedForwardOp& op) {
    const Rows rows = RowsOf(op.x);
    Place inner = Scratch(op.out->dtype(), op.in->out(), rows);
    // In f32 the gate's result is multiplied where it lies.
    if (op.up != nullptr && op.in->dtype() == DType::kF32 && inner.floats == nullptr) {
      inner.floats = Scratch(DType::kF32, op.in->out(), rows).floats;
    }
    Multiply(values_[op.x], rows, *op.in, op.up, op.activation, nullptr, inner);
    MultiplyInto(inner, rows, *op.out, op.residual, op.y);
  }

  void RunOp(const program::AttentionOp& op) {
    const program::AttentionShape& shape = op.shape;
    const AttentionWay way = WayOf(shape, plan_.forms[op.y]);
    const bool half = shape.dtype == DType::kF16;
    Place qkv = values_[op.x];
    if (way.prepares) {
      const int width = 3 * shape.heads * way.depth;
      qkv = Scratch(way.operands ? shape.dtype : DType::kF32, width, Rows::kTokens);
      // Heads are close together: no padding behind the last one.
      qkv.stride16 = width;
      HeadsArgs args = {};
      args.x = values_[op.x].floats;
      args.y = qkv.floats;
      args.y16 = qkv.operands;
      args.places = At<int>(input_.places);
      args.cos = FloatsOf(shape.rope_cos);
      args.sin = FloatsOf(shape.rope_sin);
      args.rows = CountOf(Rows::kTokens);
      args.heads = shape.heads;
      args.head_size = shape.head_size;
      args.depth = way.depth;
      args.rope_size = shape.rope_size;
      args.interleaved = shape.rope_interleaved;
      args.half = half;
      PutRows(KernelId::rows_heads, Rows::kTokens, args);
    }
    const bool all = op.queries == program::Pick::kAll;
    const auto* const tiles =
        At<AttentionTile>(all                                   ? input_.tiles
                          : op.queries == program::Pick::kFirst ? input_.first_tiles
                                                                : input_.last_tiles);
    const int* const count = Count(all ? InputLayout::kTiles : InputLayout::kSequences);
    const int grid_y = all ? bucket_.tiles() : bucket_.sequences;
    RelativeBias bias = {};
    if (shape.relative_bias != nullptr) {
      bias = {FloatsOf(shape.relative_bias), (shape.relative_bias->width() - 1) / 2};
    }
    const Place& y = values_[op.y];
    const auto common = [&](auto args) {
      args.tiles = tiles;
      args.tile_count = count;
      args.bias = bias;
      args.heads = shape.heads;
      args.head_size = shape.head_size;
      args.window = shape.window;
      args.scale = shape.scale;
      return args;
    };
    if (!way.operands) {
      AttentionF32Args args = common(AttentionF32Args{});
      args.qkv = qkv.floats;
      args.y = y.floats;
      args.y16 = y.operands;
      args.stride16 = y.stride16;
      args.half = y.half;
      Put(KernelId::attention_f32, shape.heads, grid_y, args);
      return;
    }
    AttentionArgs args = common(AttentionArgs{});
    args.qkv = qkv.operands;
    args.stride = qkv.stride16;
    args.y = y.operands;
    args.y_stride = y.stride16;
    Put(AttentionOf(way.depth, half, shape.relative_bias != nullptr), shape.heads, grid_y, args);
  }
  static KernelId AttentionOf(int depth, bool half, bool bias) {
    if (bias) {
      if (depth == 32)
        return half ? KernelId::attention_bias_32_f16 : KernelId::attention_bias_32_bf16;
      return half ? KernelId::attention_bias_64_f16 : KernelId::attention_bias_64_bf16;
    }
    if (depth == 32) return half ? KernelId::attention_32_f16 : KernelId::attention_32_bf16;
    if (depth == 64) return half ? KernelId::attention_64_f16 : KernelId::attention_64_bf16;
    return half ? KernelId::attention_128_f16 : KernelId::attention_128_bf16;
  }

  void RunOp(const program::PoolOp& op) {
    const Place& y = values_[op.y];
    PoolArgs args = {};
    args.x = values_[op.x].floats;
    args.offsets = At<int>(input_.offsets);
    args.skip = At<int>(input_.skips);
    args.sequences = Count(InputLayout::kSequences);
    args.y = y.floats + op.column;
    args.width = values_[op.x].width;
    args.y_stride = y.width;
    args.pooling = op.pooling;
    PutRows(KernelId::rows_pool, Rows::kSequences, args);
    // Once its last columns are there.
    if (y.operands == nullptr || op.column + args.width < y.width) return;
    Place operands = y;
    operands.floats = nullptr;
    Normalise(y.floats, Rows::kSequences, {}, operands);
  }
  void RunOp(const program::PicksOp&) { PENSTOCK_CHECK(false); }  // refused when it was planned

  const LoweringPlan& plan_;
  const program::Program& program_;
  const Bucket bucket_;
  const InputLayout input_;
  const uintptr_t base_;  // 0: see above
  uint64_t used_;
  uint64_t scratch_ = 0;  // where that of each operation begins
  uint64_t most_ = 0;
  std::vector<Place> values_;
  std::vector<KernelLaunch> launches_;
};

}  // namespace

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
    return std::exchange(at, at + RoundUp(count * size, kArrayAlignment));
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

Expected<LoweringPlan> PlanLowering(const program::Program& program, const DeviceInfo& device) {
  LoweringPlan plan;
  plan.program = &program;
  plan.device = &device;
  plan.forms.resize(program.values.size());
  plan.forms[program.result].floats = true;
  FormsOf forms(&plan);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const program::Op& op = program.ops[i];
    const char* what = std::visit([](const auto& one) { return RefusalOf(one); }, op);
    if (what == nullptr) {
      std::visit([&](const auto& one) { forms.Add(one); }, op);
      if (forms.two_types()) what = "one value as operands of two types";
    }
    if (what == nullptr) continue;
    return Status::Unsupported(
        fmt::format("op {} ({}): the GPU does not run {}", i, program::OpName(op), what));
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
  Lowering lowering(plan, bucket, nullptr);
  lowering.Run();
  return lowering.bytes();
}

Lowered Lower(const LoweringPlan& plan, const Bucket& bucket, std::byte* activations) {
  Lowering lowering(plan, bucket, activations);
  lowering.Run();
  return lowering.Take();
}

}  // namespace penstock::cuda

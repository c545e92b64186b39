#include "cuda/lowering_builder.h"

#include <variant>

#include "base/int_math.h"
#include "numbers/dtype.h"

namespace penstock::cuda {
namespace {

using numbers::DType;

// Rows of which the narrow tiles read each weight once or twice.
constexpr int32_t kNarrowRows = 64;

int32_t Padded(int32_t width) {
  return static_cast<int32_t>(RoundUp(static_cast<size_t>(width), 64));
}

KernelId AttentionOf(int depth, bool half, bool bias) {
  if (bias) {
    if (depth == 32)
      return half ? KernelId::attention_bias_32_f16 : KernelId::attention_bias_32_bf16;
    return half ? KernelId::attention_bias_64_f16 : KernelId::attention_bias_64_bf16;
  }
  if (depth == 32) return half ? KernelId::attention_32_f16 : KernelId::attention_32_bf16;
  if (depth == 64) return half ? KernelId::attention_64_f16 : KernelId::attention_64_bf16;
  return half ? KernelId::attention_128_f16 : KernelId::attention_128_bf16;
}

// Blocks of threads a multiprocessor, at most, that each make operands.
constexpr int kFusedBlocks = 4;

// The kernels of a form, of those of codes4, codes8, codes8_short, codes8_offsets.
KernelId OfForm(KernelId first, BlockForm form) {
  const int at = static_cast<int>(form) - static_cast<int>(BlockForm::kCodes4);
  return static_cast<KernelId>(static_cast<int>(first) + at);
}

// kNone as well where the weight is a dry backend's.
BlockForm FormOf(const program::PackedLinear& weight) {
  const auto* const of_device = dynamic_cast<const DeviceLinear*>(&weight);
  return of_device == nullptr ? BlockForm::kNone : of_device->form();
}
bool MayBeBlocks(const program::PackedLinear& weight) {
  const bool is_dry = dynamic_cast<const DeviceLinear*>(&weight) == nullptr;
  return is_dry ? weight.dtype() == DType::kF16 : FormOf(weight) != BlockForm::kNone;
}

}  // namespace

LoweringBuilder::LoweringBuilder(const LoweringPlan& plan, const Bucket& bucket, std::byte* base)
    : plan_(plan),
      program_(*plan.program),
      bucket_(bucket),
      input_(bucket, plan.input_width),
      step_input_({}, 0),
      base_(reinterpret_cast<uintptr_t>(base)),
      input_base_(base_),
      used_(input_.bytes) {
  for (size_t i = 0; i < program_.values.size(); ++i) {
    const program::Value& value = program_.values[i];
    values_.push_back(Alloc(plan.forms[i], value.width, RowsIn(value.rows)));
  }
  scratch_ = used_;
}

LoweringBuilder::LoweringBuilder(const LoweringPlan& plan, const StepBucket& bucket,
                                 const StepMemory& memory, std::byte* base)
    : plan_(plan),
      program_(*plan.program),
      bucket_{bucket.rows, bucket.picks},
      input_({}, 0),
      step_bucket_(bucket),
      step_input_(bucket, plan.groups.size()),
      step_(&memory),
      base_(reinterpret_cast<uintptr_t>(base)),
      input_base_(reinterpret_cast<uintptr_t>(memory.input)) {
  for (size_t i = 0; i < program_.values.size(); ++i) {
    const program::Value& value = program_.values[i];
    Forms forms = plan.forms[i];
    if (i == program_.result) forms = {};
    values_.push_back(Alloc(forms, value.width, RowsIn(value.rows)));
  }
  // Results outlast the activations, which other runs use next.
  if (base != nullptr) {
    values_[program_.result].floats =
        reinterpret_cast<float*>(memory.results + StepResults(plan, memory.picks).rows);
  }
  scratch_ = used_;
}

void LoweringBuilder::Run() {
  for (const program::Op& op : program_.ops) {
    used_ = scratch_;
    std::visit([this](const auto& one) { RunOp(one); }, op);
    most_ = std::max(most_, used_);
  }
}

const int* LoweringBuilder::CountOf(Rows rows) const {
  const bool tokens = rows == Rows::kTokens;
  if (step_ != nullptr) return Count(tokens ? StepInput::kRows : StepInput::kPicks);
  return Count(tokens ? InputLayout::kRows : InputLayout::kSequences);
}

std::byte* LoweringBuilder::Take(uint64_t bytes) {
  const uint64_t at = used_;
  used_ += RoundUp(bytes, kArrayBytes);
  return reinterpret_cast<std::byte*>(base_ + at);
}

Place LoweringBuilder::Alloc(const Forms& forms, int32_t width, int32_t rows) {
  Place place;
  place.width = width;
  place.stride16 = Padded(width);
  place.half = forms.half;
  const auto count = static_cast<uint64_t>(rows);
  if (forms.floats) {
    place.floats = reinterpret_cast<float*>(Take(count * static_cast<uint64_t>(width) * 4));
  }
  if (forms.operands) {
    place.operands =
        reinterpret_cast<uint16_t*>(Take(count * static_cast<uint64_t>(place.stride16) * 2));
  }
  return place;
}

Place LoweringBuilder::Scratch(DType dtype, int32_t width, Rows rows) {
  const bool operands = IsOperandType(dtype);
  return Alloc({!operands, operands, dtype == DType::kF16}, width, RowsIn(rows));
}

// Up to 64 rows: the narrow tiles, which read each weight once or twice. Else the largest tiles of
// which there is at least one for every second multiprocessor. `even`: the count of features is,
// as gemm_wgmma needs it.
KernelId LoweringBuilder::GemmOf(bool half, int32_t rows, int columns, bool even) const {
  if (rows <= kNarrowRows) return half ? KernelId::gemm_narrow_f16 : KernelId::gemm_narrow_bf16;
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

KernelId LoweringBuilder::NarrowKernelOf(const LinearInput& x, BlockForm form, bool half) {
  if (form != BlockForm::kNone) {
    return OfForm(x.fused ? KernelId::gemm_fused_codes4 : KernelId::gemm_narrow_codes4, form);
  }
  if (x.fused) return KernelId::gemm_fused_f16;
  return half ? KernelId::gemm_narrow_f16 : KernelId::gemm_narrow_bf16;
}

const uint16_t* LoweringBuilder::PiecesOf(const DeviceLinear& w, uint16_t* unpacked) {
  if (w.form() == BlockForm::kNone || unpacked == nullptr) return w.pieces();
  const int pieces = BlocksOf(w.out(), 16) * (Padded(w.in()) / 64);
  const KernelId kernel = OfForm(KernelId::unpack_codes4, w.form());
  Put(kernel, BlocksOf(pieces, RowOf(kernel).tile_rows), 1,
      UnpackArgs{w.blocks(), unpacked, pieces});
  return unpacked;
}

Epilogue LoweringBuilder::EpilogueOf(const LinearInput& x, const DeviceLinear& w,
                                     const DeviceLinear* up, program::Activation activation,
                                     const float* residual, const Place& to) const {
  Epilogue epilogue = {};
  if (x.scales != nullptr || x.fused) {
    epilogue.row_scales = x.scales;
    epilogue.scales = w.scales();
    if (up != nullptr) epilogue.scales_up = up->scales();
  }
  epilogue.bias = w.bias();
  if (up != nullptr) epilogue.bias_up = up->bias();
  epilogue.residual = residual;
  epilogue.y = to.floats;
  epilogue.y16 = to.operands;
  epilogue.features = w.out();
  epilogue.stride16 = to.stride16;
  epilogue.activation = activation;
  epilogue.half = to.half;
  return epilogue;
}

// A gate's result is multiplied where it lies.
void LoweringBuilder::MultiplyFloats(const Place& x, Rows rows, const DeviceLinear& w,
                                     const DeviceLinear* up, Epilogue epilogue, int columns) {
  const KernelRow& row = RowOf(KernelId::gemm_f32);
  const int blocks_x = BlocksOf(columns, row.tile_features);
  const int blocks_y = BlocksOf(RowsIn(rows), row.tile_rows);
  const int* const count = CountOf(rows);
  Put(KernelId::gemm_f32, blocks_x, blocks_y,
      GemmF32Args{x.floats, w.floats(), count, w.in(), false, epilogue});
  if (up == nullptr) return;
  epilogue.bias = up->bias();
  epilogue.activation = program::Activation::kNone;
  Put(KernelId::gemm_f32, blocks_x, blocks_y,
      GemmF32Args{x.floats, up->floats(), count, w.in(), true, epilogue});
}

// to = activation(x w^T + bias) [(x up^T + bias_up)] + residual.
void LoweringBuilder::Multiply(const LinearInput& x, Rows rows, const program::PackedLinear& weight,
                               const program::PackedLinear* up, program::Activation activation,
                               const float* residual, const Place& to) {
  // Blocks become pieces for many rows, and where a gate's two matrices are not in one form.
  const bool many = RowsIn(rows) > kNarrowRows && rows == Rows::kTokens;
  const bool unpacks =
      step_ != nullptr && (many || (up != nullptr && FormOf(*up) != FormOf(weight)));
  uint16_t* unpacked[2] = {};
  for (const auto& [at, matrix] : {std::pair(0, &weight), {1, up}}) {
    if (!unpacks || matrix == nullptr || !MayBeBlocks(*matrix)) continue;
    unpacked[at] = reinterpret_cast<uint16_t*>(
        Take(DeviceLinear::WeightBytes(matrix->in(), matrix->out(), DType::kF16)));
  }
  if (base_ == 0 || RowsIn(rows) == 0) return;
  const auto& w = static_cast<const DeviceLinear&>(weight);
  const auto* const other = static_cast<const DeviceLinear*>(up);
  const Epilogue epilogue = EpilogueOf(x, w, other, activation, residual, to);
  const int columns = to.operands != nullptr ? to.stride16 : w.out();
  if (w.dtype() == DType::kF32) return MultiplyFloats(x, rows, w, other, epilogue, columns);
  GemmArgs args = {};
  args.x = x.operands;
  args.w = PiecesOf(w, unpacked[0]);
  args.rows = CountOf(rows);
  args.stride = x.stride16;
  args.k = Padded(w.in());
  args.to = epilogue;
  if (other != nullptr) args.up = PiecesOf(*other, unpacked[1]);
  const int32_t height = RowsIn(rows);
  const int width = other != nullptr ? 2 * columns : columns;
  const BlockForm form = unpacked[0] == nullptr ? w.form() : BlockForm::kNone;
  const KernelId kernel = x.fused || form != BlockForm::kNone
                              ? NarrowKernelOf(x, form, w.dtype() == DType::kF16)
                              : GemmOf(w.dtype() == DType::kF16, height, width, w.out() % 2 == 0);
  if (RowOf(kernel).is_narrow) {
    // What a kernel just before unpacks is not there yet.
    const bool early = unpacked[0] == nullptr && unpacked[1] == nullptr;
    return PutNarrow(kernel, x, {args, {}, {}, early}, height, width);
  }
  launches_.push_back(GemmLaunch(kernel, args, height, width, *plan_.device));
}

// Products of the same x: those whose weights lie alike in one launch, where rows are few.
void LoweringBuilder::MultiplyEach(const LinearInput& x, Rows rows,
                                   std::span<const LinearOutput> all) {
  constexpr auto kNone = program::Activation::kNone;
  const auto of = [](const LinearOutput& one) -> const DeviceLinear& {
    return static_cast<const DeviceLinear&>(*one.weight);
  };
  if (base_ == 0 || RowsIn(rows) > kNarrowRows || !IsOperandType(all[0].weight->dtype())) {
    for (const LinearOutput& one : all)
      Multiply(x, rows, *one.weight, nullptr, kNone, nullptr, one.to);
    return;
  }
  const auto kernel_of = [&](const LinearOutput& one) {
    return NarrowKernelOf(x, of(one).form(), one.weight->dtype() == DType::kF16);
  };
  for (size_t first = 0; first < all.size();) {
    const DeviceLinear& w = of(all[first]);
    GemmNarrowArgs args = {};
    args.early_weights = true;
    args.gemm.x = x.operands;
    args.gemm.w = w.pieces();
    args.gemm.rows = CountOf(rows);
    args.gemm.stride = x.stride16;
    args.gemm.k = Padded(w.in());
    args.gemm.to = EpilogueOf(x, w, nullptr, kNone, nullptr, all[first].to);
    int blocks = BlocksOf(w.out(), 16);
    size_t next = first + 1;
    const KernelId kernel = kernel_of(all[first]);
    for (GemmPart& part : args.more) {
      if (next == all.size() || kernel_of(all[next]) != kernel) break;
      const DeviceLinear& more = of(all[next]);
      part = {more.pieces(), more.scales(), more.bias(), all[next].to.floats, more.out(), blocks};
      blocks += BlocksOf(more.out(), 16);
      ++next;
    }
    PutNarrow(kernel, x, args, RowsIn(rows), 16 * blocks);
    first = next;
  }
}

void LoweringBuilder::PutNarrow(KernelId kernel, const LinearInput& x, GemmNarrowArgs args,
                                int rows, int columns) {
  const KernelRow& row = RowOf(kernel);
  args.norm = x.norm;
  args.early_weights = args.early_weights && plan_.tuning.early_weights;
  Put(kernel, BlocksOf(columns, row.tile_features), BlocksOf(rows, row.tile_rows), args);
}

// y = norm(x), or a copy of it without a norm.
void LoweringBuilder::Normalise(const float* x, Rows rows, const program::Norm& norm,
                                const Place& y) {
  if (y.floats == x && y.operands == nullptr && norm.gamma == nullptr) return;
  PutRows(KernelId::rows_norm, rows, NormOf(x, rows, norm, y));
}
NormArgs LoweringBuilder::NormOf(const float* x, Rows rows, const program::Norm& norm,
                                 const Place& y) const {
  NormArgs args = {};
  args.x = x;
  args.gamma = FloatsOf(norm.gamma);
  args.beta = FloatsOf(norm.beta);
  args.y = y.floats;
  args.y16 = y.operands;
  args.rows = CountOf(rows);
  args.width = y.width;
  args.stride16 = y.stride16;
  args.scales = y.scales;
  args.epsilon = norm.epsilon;
  args.half = y.half;
  args.rms = norm.kind == program::NormKind::kRms;
  return args;
}

LinearInput LoweringBuilder::InputOf(const Place& x, Rows rows, const program::Norm& norm,
                                     DType dtype, int columns, const int* picks, bool in_place) {
  const bool as_is = norm.gamma == nullptr && picks == nullptr && !IsOperandType(dtype);
  if (step_ == nullptr || as_is) return x;
  // Each block of threads makes the operands: not where a multiprocessor has many of them, nor where
  // others may have written their results over x.
  const int rows_in = RowsIn(rows);
  if (plan_.tuning.fused_norms && !in_place && dtype == DType::kF16 && rows_in <= kFusedRows &&
      rows_in * Padded(x.width) <= kFusedValues &&
      BlocksOf(columns, 16) <= kFusedBlocks * plan_.device->multiprocessors) {
    Place y = {};
    y.width = x.width;
    y.stride16 = Padded(x.width);
    y.half = true;
    LinearInput input = y;
    input.fused = true;
    input.norm = NormOf(x.floats, rows, norm, y);
    input.norm.picks = picks;
    return input;
  }
  Place y = Scratch(dtype, x.width, rows);
  if (dtype == DType::kF16) {
    y.scales = reinterpret_cast<float*>(Take(static_cast<uint64_t>(rows_in) * sizeof(float)));
  }
  NormArgs args = NormOf(x.floats, rows, norm, y);
  args.picks = picks;
  PutRows(KernelId::rows_norm, rows, args);
  return y;
}

// y = after(s), s = residual + scale * norm(x w^T + bias).
void LoweringBuilder::MultiplyInto(const LinearInput& x, Rows rows,
                                   const program::PackedLinear& weight,
                                   const program::Residual& residual, ValueId y_id) {
  const Place& y = values_[y_id];
  const float* const added = values_[residual.value].floats;
  constexpr auto kNone = program::Activation::kNone;
  const bool has_sum = residual.sum != program::kNoValue;
  const bool adds_later = residual.norm.gamma != nullptr || residual.scale != 1;
  if (!adds_later && !has_sum && residual.after.gamma == nullptr) {
    return Multiply(x, rows, weight, nullptr, kNone, added, y);
  }
  Place sum = has_sum ? values_[residual.sum] : y;
  if (!has_sum) {
    sum.operands = nullptr;
    if (!plan_.forms[y_id].floats) sum = Scratch(DType::kF32, y.width, rows);
  }
  if (adds_later) {
    const Place product = Scratch(DType::kF32, y.width, rows);
    Multiply(x, rows, weight, nullptr, kNone, nullptr, product);
    NormArgs args = NormOf(product.floats, rows, residual.norm, sum);
    args.residual = added;
    args.factor = residual.scale;
    PutRows(KernelId::rows_norm, rows, args);
  } else {
    Multiply(x, rows, weight, nullptr, kNone, added, sum);
  }
  Normalise(sum.floats, rows, residual.after, y);
}

void LoweringBuilder::RunOp(const program::EmbedOp& op) {
  const Place& y = values_[op.y];
  Place sum = y;
  if (!plan_.forms[op.y].floats) sum = Scratch(DType::kF32, y.width, Rows::kTokens);
  EmbedArgs args = {};
  args.ids = At<int>(step_ != nullptr ? step_input_.ids : input_.ids);
  args.positions = At<int>(step_ != nullptr ? step_input_.positions : input_.positions);
  if (step_ != nullptr && step_->drawn != nullptr) {
    args.sources = At<int>(step_input_.sources);
    args.drawn = step_->drawn;
  }
  const bool one_type = op.types == nullptr || op.types->rows() <= 1;
  args.types = one_type ? nullptr : At<int>(input_.types);
  args.words = FloatsOf(op.words);
  args.places = FloatsOf(op.positions);
  args.kinds = FloatsOf(op.types);
  args.factor = op.scale;
  if (op.matrix != nullptr && base_ != 0) {
    const auto& matrix = static_cast<const DeviceLinear&>(*op.matrix);
    args.half = matrix.dtype() == DType::kF16;
    args.scales = matrix.scales();
    args.form = matrix.form();
    if (matrix.form() != BlockForm::kNone) {
      args.blocks = matrix.blocks();
    } else if (IsOperandType(matrix.dtype())) {
      args.pieces = matrix.pieces();
    } else {
      args.words = matrix.floats();
    }
  }
  args.norm = NormOf(sum.floats, Rows::kTokens, op.norm, y);
  PutRows(KernelId::rows_embed, Rows::kTokens, args);
}

void LoweringBuilder::RunOp(const program::InputOp& op) {
  Normalise(At<float>(input_.input), Rows::kTokens, {}, values_[op.y]);
}
void LoweringBuilder::RunOp(const program::NormOp& op) {
  Normalise(values_[op.x].floats, RowsOf(op.x), op.norm, values_[op.y]);
}

void LoweringBuilder::RunOp(const program::LinearOp& op) {
  const LinearInput x = InputOf(values_[op.x], RowsOf(op.x), {}, op.weight->dtype(),
                                op.weight->out(), nullptr, op.x == op.y);
  if (op.residual.value != program::kNoValue) {
    return MultiplyInto(x, RowsOf(op.x), *op.weight, op.residual, op.y);
  }
  Multiply(x, RowsOf(op.x), *op.weight, nullptr, op.activation, nullptr, values_[op.y]);
}

void LoweringBuilder::RunOp(const program::FeedForwardOp& op) {
  const Rows rows = RowsOf(op.x);
  const int columns = op.up != nullptr ? 2 * op.in->out() : op.in->out();
  const LinearInput x = InputOf(values_[op.x], rows, op.norm, op.in->dtype(), columns);
  Place inner = Scratch(step_ != nullptr ? DType::kF32 : op.out->dtype(), op.in->out(), rows);
  // In f32 the gate's result is multiplied where it lies.
  if (op.up != nullptr && op.in->dtype() == DType::kF32 && inner.floats == nullptr) {
    inner.floats = Scratch(DType::kF32, op.in->out(), rows).floats;
  }
  Multiply(x, rows, *op.in, op.up, op.activation, nullptr, inner);
  MultiplyInto(InputOf(inner, rows, {}, op.out->dtype(), op.out->out()), rows, *op.out, op.residual,
               op.y);
}

void LoweringBuilder::RunOp(const program::AttentionOp& op) {
  if (step_ != nullptr) return RunCached(op);
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

void LoweringBuilder::RunOp(const program::PoolOp& op) {
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

}  // namespace penstock::cuda

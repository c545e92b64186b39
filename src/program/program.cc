#include "program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>

namespace penstock {
namespace {

// Goes through a program and keeps the first error.
class Checker {
 public:
  explicit Checker(const Program& program) : program_(program), written_(program.values.size()) {}

  Status Check() {
    if (program_.max_length <= 0) Fail("max_length must be positive");
    if (program_.values.size() >= kNoValue) Fail("too many values");
    for (size_t i = 0; i < program_.values.size(); ++i) {
      if (program_.values[i].width <= 0) Fail(fmt::format("value {} has no width", i));
    }
    for (const Op& op : program_.ops) {
      if (!error_.empty()) break;
      Expect(IsStepOp(op) == IsStepOp(program_.ops[0]),
             "ops of decoders and of encoders in one program");
      std::visit([this](const auto& one) { CheckOp(one); }, op);
      ++index_;
    }
    if (error_.empty()) {
      index_ = program_.ops.size();
      Read("result", program_.result);
    }
    return error_.empty() ? Status::Ok() : Status::Internal("program: " + error_);
  }

 private:
  void Fail(const std::string& what) {
    if (!error_.empty()) return;
    const bool in_op = index_ < program_.ops.size();
    error_ =
        in_op ? fmt::format("op {} ({}): {}", index_, OpName(program_.ops[index_]), what) : what;
  }
  void Expect(bool holds, const std::string& what) {
    if (!holds) Fail(what);
  }
  bool Known(const char* name, ValueId id) {
    if (id < program_.values.size()) return true;
    Fail(fmt::format("{} is not a value of the program", name));
    return false;
  }
  int32_t Width(ValueId id) const {
    return id < program_.values.size() ? program_.values[id].width : 0;
  }

  // Checks of the values that one op reads and writes.
  void Read(const char* name, ValueId id) {
    if (!Known(name, id)) return;
    Expect(written_[id] == Width(id), fmt::format("{} is read before it is written", name));
    if (program_.values[id].rows == Rows::kSequences) sequences_begun_ = true;
  }
  void ReadRows(const char* name, ValueId id, Rows rows) {
    Read(name, id);
    if (id >= program_.values.size()) return;
    Expect(
        program_.values[id].rows == rows,
        fmt::format("{} must be rows of {}", name, rows == Rows::kTokens ? "tokens" : "sequences"));
    Expect(rows == Rows::kSequences || !sequences_begun_,
           "an op over tokens follows one over sequences");
  }
  void Write(const char* name, ValueId id, Rows rows, int32_t width) {
    if (!Known(name, id)) return;
    Expect(
        program_.values[id].rows == rows,
        fmt::format("{} must be rows of {}", name, rows == Rows::kTokens ? "tokens" : "sequences"));
    Expect(Width(id) == width,
           fmt::format("{} has width {}, the op gives {}", name, Width(id), width));
    written_[id] = Width(id);
  }
  void Differ(const char* a_name, ValueId a, const char* b_name, ValueId b) {
    Expect(a != b, fmt::format("{} is {}, which the op still reads", a_name, b_name));
  }
  Rows RowsOf(ValueId id) const {
    return id < program_.values.size() ? program_.values[id].rows : Rows::kTokens;
  }

  void CheckNorm(const Norm& norm, int32_t width, NormKind kind = NormKind::kLayer) {
    if (norm.gamma == nullptr) return;
    Expect(norm.kind == kind, "the norm is of another kind");
    Expect(norm.beta == nullptr || kind == NormKind::kLayer, "an RMS norm has no beta");
    for (const Table* table : {norm.gamma, norm.beta}) {
      if (table == nullptr) continue;
      Expect(table->rows() == 1 && table->width() == width,
             fmt::format("the norm is [{}, {}], its rows have width {}", table->rows(),
                         table->width(), width));
    }
  }
  // x W^T; returns the width of the result.
  int32_t CheckWeight(const char* name, const PackedLinear* weight, int32_t width) {
    if (weight == nullptr) {
      Fail(fmt::format("{} is missing", name));
      return 0;
    }
    Expect(weight->in() == width,
           fmt::format("{} takes width {}, it is given {}", name, weight->in(), width));
    return weight->out();
  }
  // The residual, norm and outputs of linear_norm and feed_forward.
  template <typename T>
  void CheckSum(const T& op, Rows rows, int32_t width) {
    ReadRows("residual", op.residual, rows);
    Expect(Width(op.residual) == width,
           fmt::format("residual has width {}, the op gives {}", Width(op.residual), width));
    CheckNorm(op.norm, width);
    if (op.sum != kNoValue) {
      Differ("sum", op.sum, "x", op.x);
      Differ("sum", op.sum, "y", op.y);
      Write("sum", op.sum, rows, width);
    }
    Write("y", op.y, rows, width);
  }

  void CheckOp(const EmbedOp& op) {
    if (op.words == nullptr) return Fail("words are missing");
    const int32_t width = op.words->width();
    Expect(op.position_padding >= -1, "position_padding is below -1");
    if (op.positions != nullptr) {
      const int64_t rows = int64_t{program_.max_length} + op.position_padding + 1;
      Expect(op.positions->width() == width && op.positions->rows() >= rows,
             fmt::format("positions are [{}, {}], [{}, {}] are needed", op.positions->rows(),
                         op.positions->width(), rows, width));
    }
    Expect(op.types == nullptr || (op.types->width() == width && op.types->rows() > 0),
           "types have another width than words");
    CheckNorm(op.norm, width);
    BeginTokens();
    Write("y", op.y, Rows::kTokens, width);
  }
  void CheckOp(const InputOp& op) {
    BeginTokens();
    Write("y", op.y, Rows::kTokens, Width(op.y));
  }
  void CheckOp(const NormOp& op) {
    ReadRows("x", op.x, RowsOf(op.x));
    Expect(op.norm.gamma != nullptr, "the norm is missing");
    CheckNorm(op.norm, Width(op.x));
    Write("y", op.y, RowsOf(op.x), Width(op.x));
  }
  void CheckOp(const LinearOp& op) {
    ReadRows("x", op.x, RowsOf(op.x));
    Differ("y", op.y, "x", op.x);
    Write("y", op.y, RowsOf(op.x), CheckWeight("the weight", op.weight, Width(op.x)));
  }
  void CheckOp(const LinearNormOp& op) {
    ReadRows("x", op.x, RowsOf(op.x));
    Differ("y", op.y, "x", op.x);
    CheckSum(op, RowsOf(op.x), CheckWeight("the weight", op.weight, Width(op.x)));
  }
  void CheckOp(const FeedForwardOp& op) {
    ReadRows("x", op.x, RowsOf(op.x));
    const int32_t inner = CheckWeight("in", op.in, Width(op.x));
    if (op.gate != nullptr) {
      Expect(CheckWeight("gate", op.gate, Width(op.x)) == inner && op.in != nullptr &&
                 op.gate->dtype() == op.in->dtype(),
             "gate and in differ in width or type");
    }
    CheckSum(op, RowsOf(op.x), CheckWeight("out", op.out, inner));
  }
  void CheckOp(const AttentionOp& op) {
    ReadRows("qkv", op.qkv, Rows::kTokens);
    Differ("y", op.y, "qkv", op.qkv);
    const AttentionShape& shape = op.shape;
    if (shape.heads <= 0 || shape.head_size <= 0) return Fail("there are no heads");
    const int64_t width = int64_t{shape.heads} * shape.head_size;
    Expect(Width(op.qkv) == 3 * width,
           fmt::format("qkv has width {}, its heads take {}", Width(op.qkv), 3 * width));
    Expect(shape.scale > 0, "the scale must be positive");
    Expect(shape.window >= 0, "the window is negative");
    CheckRope(shape.rope_cos, shape.rope_sin, shape.rope_size, shape.head_size,
              program_.max_length);
    Expect(shape.relative_bias == nullptr || (shape.relative_bias->rows() == shape.heads &&
                                              shape.relative_bias->width() % 2 == 1),
           "the relative bias must be [heads, 2 * reach + 1]");
    Write("y", op.y, op.queries == Pick::kAll ? Rows::kTokens : Rows::kSequences,
          static_cast<int32_t>(width));
  }
  void CheckOp(const PoolOp& op) {
    ReadRows("x", op.x, Rows::kTokens);
    if (!Known("y", op.y)) return;
    Expect(RowsOf(op.y) == Rows::kSequences, "y must be rows of sequences");
    Expect(op.column == (op.column == 0 ? 0 : written_[op.y]),
           "columns of y are filled from the left");
    Expect(op.column >= 0 && op.column + Width(op.x) <= Width(op.y), "y is too narrow");
    written_[op.y] = op.column + Width(op.x);
  }
  void CheckOp(const LookupOp& op) {
    if (op.words == nullptr) return Fail("words are missing");
    Write("y", op.y, Rows::kTokens, op.words->in());
  }
  void CheckRope(const Table* cos, const Table* sin, int32_t rope_size, int32_t head_size,
                 int32_t positions) {
    Expect((cos == nullptr) == (sin == nullptr), "rotary tables come in pairs");
    for (const Table* rope : {cos, sin}) {
      if (rope == nullptr) continue;
      Expect(rope_size > 0 && rope_size % 2 == 0 && rope_size <= head_size &&
                 rope->width() == rope_size / 2,
             "rotary tables do not fit the head");
      Expect(rope->rows() >= positions, "rotary tables are shorter than max_length");
    }
  }
  void CheckOp(const CachedAttentionOp& op) {
    ReadRows("x", op.x, Rows::kTokens);
    Differ("y", op.y, "x", op.x);
    CheckNorm(op.norm, Width(op.x), NormKind::kRms);
    const CachedAttentionShape& shape = op.shape;
    if (shape.heads <= 0 || shape.kv_heads <= 0 || shape.head_size <= 0) {
      return Fail("there are no heads");
    }
    Expect(shape.heads % shape.kv_heads == 0, "heads is not a multiple of kv_heads");
    Expect(shape.head_size % 2 == 0, "the head size is odd");
    Expect(shape.layer >= 0, "the layer is negative");
    Expect(shape.scale > 0, "the scale must be positive");
    Expect(shape.window >= 0 && shape.soft_cap >= 0, "the window or soft cap is negative");
    const bool two = shape.long_rope_cos != nullptr;
    Expect(!two || (program_.rope_switch > 0 && shape.rope_cos != nullptr),
           "rotary tables for long sequences need a rope_switch and tables for short ones");
    CheckRope(shape.rope_cos, shape.rope_sin, shape.rope_size, shape.head_size,
              two ? program_.rope_switch : program_.max_length);
    CheckRope(shape.long_rope_cos, shape.long_rope_sin, shape.rope_size, shape.head_size,
              program_.max_length);
    CheckNorm(shape.q_norm, shape.head_size, NormKind::kRms);
    CheckNorm(shape.k_norm, shape.head_size, NormKind::kRms);
    const int64_t width = int64_t{shape.heads} * shape.head_size;
    const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_size;
    Expect(CheckWeight("q", op.q, Width(op.x)) == width, "q does not fit its heads");
    Expect(CheckWeight("k", op.k, Width(op.x)) == kv_width, "k does not fit its heads");
    Expect(CheckWeight("v", op.v, Width(op.x)) == kv_width, "v does not fit its heads");
    Write("y", op.y, Rows::kTokens, static_cast<int32_t>(width));
  }
  void CheckOp(const ResidualLinearOp& op) {
    ReadRows("x", op.x, Rows::kTokens);
    Differ("y", op.y, "x", op.x);
    CheckResidual(op.residual, CheckWeight("the weight", op.weight, Width(op.x)), op.norm, op.y);
  }
  void CheckOp(const GatedResidualOp& op) {
    ReadRows("x", op.x, Rows::kTokens);
    CheckNorm(op.norm, Width(op.x), NormKind::kRms);
    const int32_t inner = CheckWeight("gate", op.gate, Width(op.x));
    Expect(CheckWeight("up", op.up, Width(op.x)) == inner, "gate and up differ in width");
    CheckResidual(op.residual, CheckWeight("down", op.down, inner), op.out_norm, op.y);
  }
  void CheckResidual(ValueId residual, int32_t width, const Norm& norm, ValueId y) {
    ReadRows("residual", residual, Rows::kTokens);
    Expect(Width(residual) == width,
           fmt::format("residual has width {}, the op gives {}", Width(residual), width));
    CheckNorm(norm, width, NormKind::kRms);
    Write("y", y, Rows::kTokens, width);
  }
  void CheckOp(const LogitsOp& op) {
    ReadRows("x", op.x, Rows::kTokens);
    CheckNorm(op.norm, Width(op.x), NormKind::kRms);
    Expect(op.soft_cap >= 0, "the soft cap is negative");
    Write("y", op.y, Rows::kSequences, CheckWeight("the weight", op.weight, Width(op.x)));
  }
  void CheckOp(const StatesOp& op) {
    ReadRows("x", op.x, Rows::kTokens);
    CheckNorm(op.norm, Width(op.x), NormKind::kRms);
    Write("y", op.y, Rows::kSequences, Width(op.x));
  }
  void BeginTokens() { Expect(!sequences_begun_, "an op over tokens follows one over sequences"); }

  const Program& program_;
  size_t index_ = 0;              // of the op under way
  std::vector<int32_t> written_;  // columns of each value
  bool sequences_begun_ = false;
  std::string error_;
};

const EmbedOp* FindEmbed(const Program& program) {
  for (const Op& op : program.ops) {
    if (const EmbedOp* embed = std::get_if<EmbedOp>(&op)) return embed;
  }
  return nullptr;
}

// The first id that is negative or not below `count`.
std::optional<int32_t> Outside(std::span<const int32_t> ids, int64_t count) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= count) return id;
  }
  return std::nullopt;
}

Status CheckSequences(const Program& program, const PackedBatch& batch) {
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const int32_t length = batch.length(s);
    if (length <= 0 || length > program.max_length) {
      return Status::InvalidArgument("sequence " + std::to_string(s) + " has " +
                                         std::to_string(length) + " tokens, the model takes 1 to " +
                                         std::to_string(program.max_length),
                                     "inputs");
    }
    if (!batch.pool_skip.empty() && (batch.pool_skip[s] < 0 || batch.pool_skip[s] >= length)) {
      return Status::InvalidArgument("pool_skip leaves nothing to pool", "pool_skip");
    }
  }
  return Status::Ok();
}

Status CheckIds(const EmbedOp& embed, const PackedBatch& batch) {
  if (const auto id = Outside(batch.ids, embed.words->rows())) {
    return Status::InvalidArgument(
        "token id " + std::to_string(*id) + " is not below " + std::to_string(embed.words->rows()),
        "inputs");
  }
  // Models without a table of types ignore them.
  if (embed.types == nullptr || embed.types->rows() <= 1) return Status::Ok();
  if (const auto id = Outside(batch.type_ids, embed.types->rows())) {
    return Status::InvalidArgument(
        "type id " + std::to_string(*id) + " is not below " + std::to_string(embed.types->rows()),
        "type_ids");
  }
  return Status::Ok();
}

}  // namespace

const char* OpName(const Op& op) {
  constexpr const char* kNames[] = {
      "embed",           "input",          "norm",   "linear", "linear_norm",
      "feed_forward",    "attention",      "pool",   "lookup", "cached_attention",
      "residual_linear", "gated_residual", "logits", "states"};
  static_assert(std::size(kNames) == std::variant_size_v<Op>);
  return kNames[op.index()];
}

std::vector<const PackedLinear*> WeightsOf(const Op& op) {
  if (const auto* linear = std::get_if<LinearOp>(&op)) return {linear->weight};
  if (const auto* linear = std::get_if<LinearNormOp>(&op)) return {linear->weight};
  if (const auto* feed = std::get_if<FeedForwardOp>(&op)) {
    if (feed->gate == nullptr) return {feed->in, feed->out};
    return {feed->in, feed->gate, feed->out};
  }
  if (const auto* attention = std::get_if<CachedAttentionOp>(&op)) {
    return {attention->q, attention->k, attention->v};
  }
  if (const auto* linear = std::get_if<ResidualLinearOp>(&op)) return {linear->weight};
  if (const auto* feed = std::get_if<GatedResidualOp>(&op)) {
    return {feed->gate, feed->up, feed->down};
  }
  if (const auto* logits = std::get_if<LogitsOp>(&op)) return {logits->weight};
  return {};
}

bool IsStepOp(const Op& op) {
  return std::holds_alternative<LookupOp>(op) || std::holds_alternative<CachedAttentionOp>(op) ||
         std::holds_alternative<ResidualLinearOp>(op) ||
         std::holds_alternative<GatedResidualOp>(op) || std::holds_alternative<LogitsOp>(op) ||
         std::holds_alternative<StatesOp>(op);
}

int32_t CacheWindow(const Program& program) {
  int32_t window = 0;
  for (const Op& op : program.ops) {
    const auto* attention = std::get_if<CachedAttentionOp>(&op);
    if (attention == nullptr) continue;
    if (!attention->shape.causal) return 0;
    window = std::max(window, attention->shape.window);
  }
  return window;
}

Status CheckProgram(const Program& program) { return Checker(program).Check(); }

Status CheckBatch(const Program& program, const PackedBatch& batch, std::span<float* const> sinks) {
  const size_t sequences = batch.sequences();
  if (sequences == 0) return Status::InvalidArgument("the batch is empty", "inputs");
  if (batch.offsets[0] != 0 || static_cast<size_t>(batch.offsets[sequences]) != batch.tokens()) {
    return Status::InvalidArgument("offsets do not cover the tokens", "offsets");
  }
  if (!batch.type_ids.empty() && batch.type_ids.size() != batch.tokens()) {
    return Status::InvalidArgument("one type id is needed for each token", "type_ids");
  }
  if (!batch.pool_skip.empty() && batch.pool_skip.size() != sequences) {
    return Status::InvalidArgument("one pool_skip is needed for each sequence", "pool_skip");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckSequences(program, batch));
  if (const EmbedOp* embed = FindEmbed(program)) {
    PENSTOCK_RETURN_IF_ERROR(CheckIds(*embed, batch));
  }
  for (const Op& op : program.ops) {
    const InputOp* input = std::get_if<InputOp>(&op);
    if (input == nullptr) continue;
    const size_t width = static_cast<size_t>(program.values[input->y].width);
    if (batch.input.size() == batch.tokens() * width) continue;
    return Status::InvalidArgument("one row of input is needed for each token", "inputs");
  }
  if (sinks.size() != sequences) {
    return Status::InvalidArgument("one sink is needed for each sequence", "out");
  }
  return Status::Ok();
}

}  // namespace penstock

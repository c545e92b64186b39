#include "program/program_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace penstock {
namespace {

uint64_t RowCount(Rows rows, const BatchShape& batch) {
  return static_cast<uint64_t>(rows == Rows::kTokens ? batch.sequences * batch.length
                                                     : batch.sequences);
}

uint64_t Bytes(const Table* table) { return table == nullptr ? 0 : table->bytes(); }

// Counts the cost of one op.
struct Counter {
  const Program& program;
  const BatchShape& batch;
  Cost cost;

  uint64_t RowsOf(ValueId id) const { return RowCount(program.values[id].rows, batch); }
  void Touch(ValueId id) {
    if (id == kNoValue) return;
    cost.activation_bytes +=
        RowsOf(id) * static_cast<uint64_t>(program.values[id].width) * sizeof(float);
  }
  void Read(const Norm& norm) { cost.weight_bytes += Bytes(norm.gamma) + Bytes(norm.beta); }
  void Multiply(ValueId x, const PackedLinear* weight) {
    if (weight == nullptr) return;
    cost.weight_bytes += weight->bytes();
    cost.operations += 2.0 * static_cast<double>(RowsOf(x)) * weight->in() * weight->out();
  }

  void operator()(const EmbedOp& op) {
    cost.weight_bytes += Bytes(op.words) + Bytes(op.positions) + Bytes(op.types);
    Read(op.norm);
    Touch(op.y);
  }
  void operator()(const InputOp& op) { Touch(op.y); }
  void operator()(const NormOp& op) {
    Read(op.norm);
    Touch(op.x);
    Touch(op.y);
  }
  void operator()(const LinearOp& op) {
    Multiply(op.x, op.weight);
    Touch(op.x);
    Touch(op.y);
  }
  void operator()(const LinearNormOp& op) {
    Multiply(op.x, op.weight);
    Read(op.norm);
    for (const ValueId id : {op.x, op.residual, op.sum, op.y}) Touch(id);
  }
  void operator()(const FeedForwardOp& op) {
    for (const PackedLinear* weight : {op.in, op.gate, op.out}) Multiply(op.x, weight);
    Read(op.norm);
    for (const ValueId id : {op.x, op.residual, op.sum, op.y}) Touch(id);
  }
  void operator()(const AttentionOp& op) {
    const int64_t reach = op.shape.window > 0 ? op.shape.window : batch.length;
    // Keys that the queries of a sequence see.
    double pairs = 0;
    const int64_t first = op.queries == Pick::kLast ? batch.length - 1 : 0;
    const int64_t end = op.queries == Pick::kFirst ? 1 : batch.length;
    for (int64_t i = first; i < end; ++i) {
      pairs += static_cast<double>(std::min(i + reach, batch.length - 1) -
                                   std::max<int64_t>(i - reach, 0) + 1);
    }
    // Of q with k, and of the weights with v.
    cost.operations +=
        4.0 * static_cast<double>(batch.sequences) * pairs * op.shape.heads * op.shape.head_size;
    cost.weight_bytes +=
        Bytes(op.shape.rope_cos) + Bytes(op.shape.rope_sin) + Bytes(op.shape.relative_bias);
    Touch(op.qkv);
    Touch(op.y);
  }
  void operator()(const PoolOp& op) {
    Touch(op.x);
    cost.activation_bytes +=
        RowsOf(op.y) * static_cast<uint64_t>(program.values[op.x].width) * sizeof(float);
  }
  void operator()(const LookupOp& op) {
    cost.weight_bytes += op.words->bytes() / static_cast<uint64_t>(op.words->out()) * RowsOf(op.y);
    Touch(op.y);
  }
  void operator()(const CachedAttentionOp& op) {
    Read(op.norm);
    for (const PackedLinear* weight : {op.q, op.k, op.v}) Multiply(op.x, weight);
    const CachedAttentionShape& shape = op.shape;
    const int64_t window =
        shape.window > 0 ? shape.window : std::numeric_limits<int64_t>::max() / 2;
    double pairs = 0;  // queries and the keys they see
    for (int64_t i = 0; i < batch.length; ++i) {
      const int64_t after = shape.causal ? 0 : std::min(batch.length - 1 - i, window - 1);
      pairs += static_cast<double>(std::min(batch.past + i + 1, window) + after);
    }
    cost.operations +=
        4.0 * static_cast<double>(batch.sequences) * pairs * shape.heads * shape.head_size;
    const int64_t keys = std::min(batch.past + batch.length, window + batch.length - 1);
    cost.cache_bytes += static_cast<uint64_t>(2 * batch.sequences * (keys + batch.length) *
                                              shape.kv_heads * shape.head_size * batch.cache_bytes);
    Touch(op.x);
    Touch(op.y);
  }
  void operator()(const ResidualLinearOp& op) {
    Multiply(op.x, op.weight);
    Read(op.norm);
    for (const ValueId id : {op.x, op.residual, op.y}) Touch(id);
  }
  void operator()(const GatedResidualOp& op) {
    for (const PackedLinear* weight : {op.gate, op.up, op.down}) Multiply(op.x, weight);
    Read(op.norm);
    Read(op.out_norm);
    for (const ValueId id : {op.x, op.residual, op.y}) Touch(id);
  }
  void operator()(const LogitsOp& op) {
    Read(op.norm);
    Multiply(op.y, op.weight);  // the picked rows only
    Touch(op.y);
  }
  void operator()(const StatesOp& op) {
    Read(op.norm);
    Touch(op.y);
  }
};

const char* ActivationText(Activation activation) {
  constexpr const char* kNames[] = {"", ", gelu", ", gelu_tanh", ", relu", ", silu", ", tanh"};
  return kNames[static_cast<size_t>(activation)];
}

const char* PoolingText(Pooling pooling) {
  constexpr const char* kNames[] = {"cls",       "mean",          "max",
                                    "lasttoken", "mean_sqrt_len", "weightedmean"};
  return kNames[static_cast<size_t>(pooling)];
}

std::string TableText(const Table* table) {
  return fmt::format("[{}, {}]", table->rows(), table->width());
}
std::string WeightText(const PackedLinear* weight) {
  return fmt::format("[{}, {}] {}", weight->out(), weight->in(), DTypeFlag(weight->dtype()));
}
const char* NormText(const Norm& norm) { return norm.gamma == nullptr ? "" : ", norm"; }
std::string ScaleText(float scale) { return scale == 1 ? "" : fmt::format(", times {}", scale); }
std::string CapText(float cap) { return cap == 0 ? "" : fmt::format(", soft cap {}", cap); }

// "%7 = " or, where the sum is kept, "%0, %7 = ".
template <typename T>
std::string Results(const T& op) {
  return op.sum == kNoValue ? fmt::format("%{} = ", op.y)
                            : fmt::format("%{}, %{} = ", op.sum, op.y);
}

struct Printer {
  std::string operator()(const EmbedOp& op) const {
    std::string text = fmt::format("%{} = embed(words {}", op.y, TableText(op.words));
    if (op.positions != nullptr) text += ", positions " + TableText(op.positions);
    if (op.types != nullptr) text += ", types " + TableText(op.types);
    return text + NormText(op.norm) + ")";
  }
  std::string operator()(const InputOp& op) const { return fmt::format("%{} = input()", op.y); }
  std::string operator()(const NormOp& op) const {
    return fmt::format("%{} = norm(%{})", op.y, op.x);
  }
  std::string operator()(const LinearOp& op) const {
    return fmt::format("%{} = linear(%{}, {}{})", op.y, op.x, WeightText(op.weight),
                       ActivationText(op.activation));
  }
  std::string operator()(const LinearNormOp& op) const {
    return Results(op) + fmt::format("linear_norm(%{}, {}, + %{}{})", op.x, WeightText(op.weight),
                                     op.residual, NormText(op.norm));
  }
  std::string operator()(const FeedForwardOp& op) const {
    const std::string gate = op.gate == nullptr ? "" : ", gate " + WeightText(op.gate);
    return Results(op) + fmt::format("feed_forward(%{}, in {}{}{}, out {}, + %{}{})", op.x,
                                     WeightText(op.in), ActivationText(op.activation), gate,
                                     WeightText(op.out), op.residual, NormText(op.norm));
  }
  std::string operator()(const AttentionOp& op) const {
    std::string text = fmt::format("%{} = attention(%{}, {} heads of {}", op.y, op.qkv,
                                   op.shape.heads, op.shape.head_size);
    if (op.shape.rope_cos != nullptr) text += fmt::format(", rotary {}", op.shape.rope_size);
    if (op.shape.relative_bias != nullptr) text += ", relative bias";
    if (op.shape.window > 0) text += fmt::format(", window {}", op.shape.window);
    if (op.queries == Pick::kFirst) text += ", first token";
    if (op.queries == Pick::kLast) text += ", last token";
    return text + ")";
  }
  std::string operator()(const LookupOp& op) const {
    return fmt::format("%{} = lookup({}{})", op.y, WeightText(op.words), ScaleText(op.scale));
  }
  std::string operator()(const CachedAttentionOp& op) const {
    const CachedAttentionShape& shape = op.shape;
    std::string text = fmt::format(
        "%{} = cached_attention(%{}{}, q {}, k {}, v {}, layer {}, {} heads of {}, {} kv", op.y,
        op.x, NormText(op.norm), WeightText(op.q), WeightText(op.k), WeightText(op.v), shape.layer,
        shape.heads, shape.head_size, shape.kv_heads);
    if (shape.q_norm.gamma != nullptr) text += ", q norm";
    if (shape.k_norm.gamma != nullptr) text += ", k norm";
    if (shape.rope_cos != nullptr) text += fmt::format(", rotary {}", shape.rope_size);
    if (shape.window > 0) text += fmt::format(", window {}", shape.window);
    if (!shape.causal) text += ", both directions";
    return text + CapText(shape.soft_cap) + ")";
  }
  std::string operator()(const ResidualLinearOp& op) const {
    return fmt::format("%{} = residual_linear(%{}, {}{}{}, + %{})", op.y, op.x,
                       WeightText(op.weight), NormText(op.norm), ScaleText(op.scale), op.residual);
  }
  std::string operator()(const GatedResidualOp& op) const {
    return fmt::format("%{} = gated_residual(%{}{}, gate {}{}, up {}, down {}{}{}, + %{})", op.y,
                       op.x, NormText(op.norm), WeightText(op.gate), ActivationText(op.activation),
                       WeightText(op.up), WeightText(op.down), NormText(op.out_norm),
                       ScaleText(op.scale), op.residual);
  }
  std::string operator()(const LogitsOp& op) const {
    return fmt::format("%{} = logits(%{}{}, {}{}{})", op.y, op.x, NormText(op.norm),
                       WeightText(op.weight), ScaleText(op.scale), CapText(op.soft_cap));
  }
  std::string operator()(const StatesOp& op) const {
    return fmt::format("%{} = states(%{}{})", op.y, op.x, NormText(op.norm));
  }
  std::string operator()(const PoolOp& op) const {
    std::string text = fmt::format("%{} = pool(%{}, {}", op.y, op.x, PoolingText(op.pooling));
    if (op.column > 0) text += fmt::format(", from column {}", op.column);
    return text + ")";
  }
};

}  // namespace

Cost CostOf(const Program& program, const Op& op, const BatchShape& batch) {
  Counter counter{program, batch, {}};
  std::visit(counter, op);
  return counter.cost;
}

Cost CostOf(const Program& program, const BatchShape& batch) {
  Cost all;
  for (const Op& op : program.ops) {
    const Cost cost = CostOf(program, op, batch);
    all.operations += cost.operations;
    all.weight_bytes += cost.weight_bytes;
    all.activation_bytes += cost.activation_bytes;
    all.cache_bytes += cost.cache_bytes;
  }
  return all;
}

uint64_t ValueBytes(const Program& program, const BatchShape& batch) {
  uint64_t bytes = 0;
  for (const Value& value : program.values) {
    bytes += RowCount(value.rows, batch) * static_cast<uint64_t>(value.width) * sizeof(float);
  }
  return bytes;
}

std::string OpText(const Op& op) { return std::visit(Printer(), op); }

std::string ValueText(const Program& program, ValueId id) {
  const Value& value = program.values[id];
  return fmt::format("%{}: {} x {}", id, value.rows == Rows::kTokens ? "tokens" : "sequences",
                     value.width);
}

}  // namespace penstock

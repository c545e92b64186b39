#include "program/program_cost.h"

#include <fmt/format.h>

#include <vector>

namespace penstock::program {
namespace {

uint64_t RowCount(Rows rows, const BatchShape& batch) {
  return static_cast<uint64_t>(rows == Rows::kTokens ? batch.sequences * batch.length
                                                     : batch.sequences);
}

// Counts the cost of one op.
struct Counter : OpVisitor {
  Counter(const Program& given, const BatchShape& shape) : program(given), batch(shape) {}

  int32_t WidthOf(ValueId id) const { return program.values[id].width; }
  Rows RowsOf(ValueId id) const { return program.values[id].rows; }
  uint64_t Count(ValueId id) const { return RowCount(RowsOf(id), batch); }
  void Touch(ValueId id, int32_t width) {
    cost.activation_bytes += Count(id) * static_cast<uint64_t>(width) * sizeof(float);
  }

  void Read(const char* /*name*/, ValueId id, Rows /*rows*/) { Touch(id, WidthOf(id)); }
  void Add(const char* /*name*/, ValueId id, Rows /*rows*/, int32_t /*width*/) {
    Touch(id, WidthOf(id));
  }
  void Write(const char* /*name*/, ValueId id, Rows /*rows*/, int32_t /*width*/) {
    Touch(id, WidthOf(id));
  }
  void WriteColumns(const char* /*name*/, ValueId id, int32_t /*column*/, int32_t width) {
    Touch(id, width);
  }
  int32_t Multiply(const char* /*name*/, const PackedLinear* weight, ValueId rows,
                   int32_t /*width*/) {
    if (weight == nullptr) return 0;
    cost.weight_bytes += weight->bytes();
    cost.operations += 2.0 * static_cast<double>(Count(rows)) * weight->in() * weight->out();
    return weight->out();
  }
  void LookUp(const char* /*name*/, const PackedLinear& weight, ValueId rows) {
    cost.weight_bytes += weight.bytes() / static_cast<uint64_t>(weight.out()) * Count(rows);
  }
  void Use(const char* /*name*/, const Table* table) {
    cost.weight_bytes += table == nullptr ? 0 : table->bytes();
  }
  void Normalise(const char* /*name*/, const Norm& norm, int32_t /*width*/) {
    for (const Table* table : {norm.gamma, norm.beta}) Use("", table);
  }
  template <typename Function>
  void Compute(const Function& of) {
    const Cost more = of(batch);
    cost.operations += more.operations;
    cost.cache_bytes += more.cache_bytes;
  }

  const Program& program;
  const BatchShape& batch;
  Cost cost;
};

// "%0, %1 = name(a, b, ...)".
struct Printer : OpVisitor {
  void Read(const char* /*name*/, ValueId id, Rows /*rows*/) { Note("%{}", id); }
  void ReadPicked(const char* /*name*/, ValueId id) { Note("%{}", id); }
  void Add(const char* /*name*/, ValueId id, Rows /*rows*/, int32_t /*width*/) {
    Note("+ %{}", id);
  }
  void Write(const char* /*name*/, ValueId id, Rows /*rows*/, int32_t /*width*/) {
    results.push_back(fmt::format("%{}", id));
  }
  void WriteColumns(const char* /*name*/, ValueId id, int32_t /*column*/, int32_t /*width*/) {
    results.push_back(fmt::format("%{}", id));
  }
  int32_t Multiply(const char* name, const PackedLinear* weight, ValueId /*rows*/,
                   int32_t /*width*/) {
    if (weight == nullptr) return 0;
    LookUp(name, *weight, kNoValue);
    return weight->out();
  }
  void LookUp(const char* name, const PackedLinear& weight, ValueId /*rows*/) {
    Note("{}{}[{}, {}] {}", name, *name == 0 ? "" : " ", weight.out(), weight.in(),
         numbers::DTypeFlag(weight.dtype()));
  }
  void Use(const char* name, const Table* table) {
    if (table == nullptr || *name == 0) return;
    Note("{} [{}, {}]", name, table->rows(), table->width());
  }
  void Normalise(const char* name, const Norm& norm, int32_t /*width*/) {
    if (norm.gamma != nullptr && *name != 0) Note("{}", name);
  }
  template <typename... Parts>
  void Note(const char* what, const Parts&... parts) {
    settings.push_back(fmt::format(fmt::runtime(what), parts...));
  }

  std::vector<std::string> results;
  std::vector<std::string> settings;
};

}  // namespace

Cost CostOf(const Program& program, const Op& op, const BatchShape& batch) {
  Counter counter(program, batch);
  std::visit([&](const auto& one) { one.Describe(counter); }, op);
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

std::string OpText(const Op& op) {
  Printer printer;
  std::visit([&](const auto& one) { one.Describe(printer); }, op);
  return fmt::format("{} = {}({})", fmt::join(printer.results, ", "), OpName(op),
                     fmt::join(printer.settings, ", "));
}

std::string ValueText(const Program& program, ValueId id) {
  const Value& value = program.values[id];
  return fmt::format("%{}: {} x {}", id, value.rows == Rows::kTokens ? "tokens" : "sequences",
                     value.width);
}

}  // namespace penstock::program

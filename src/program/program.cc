#include "program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::program {
namespace {

// Goes through a program and keeps the first error.
class Checker : public OpVisitor {
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
      std::visit([this](const auto& one) { one.Describe(*this); }, op);
      ++index_;
    }
    if (error_.empty()) {
      index_ = program_.ops.size();
      ReadAny("result", program_.result);
    }
    if (error_.empty()) CheckDirections();
    return error_.empty() ? Status::Ok() : Status::Internal("program: " + error_);
  }

  // A sequence goes through one step as a whole, or goes on in others: in all layers alike.
  void CheckDirections() {
    const auto* first = FirstOp<AttentionOp>(program_);
    for (const Op& op : program_.ops) {
      const auto* attention = std::get_if<AttentionOp>(&op);
      if (attention == nullptr || attention->shape.causal == first->shape.causal) continue;
      Fail("layers attend in one direction and in both");
    }
  }

  int32_t WidthOf(ValueId id) const {
    return id < program_.values.size() ? program_.values[id].width : 0;
  }
  Rows RowsOf(ValueId id) const {
    return id < program_.values.size() ? program_.values[id].rows : Rows::kTokens;
  }
  int32_t max_length() const { return program_.max_length; }
  int32_t rope_switch() const { return program_.rope_switch; }

  void Read(const char* name, ValueId id, Rows rows) {
    ReadAny(name, id);
    if (id >= program_.values.size()) return;
    RequireRows(name, id, rows);
    RequireOrder(rows);
  }
  void ReadPicked(const char* name, ValueId id) { Read(name, id, Rows::kTokens); }
  void Add(const char* name, ValueId id, Rows rows, int32_t width) {
    Read(name, id, rows);
    Require(WidthOf(id) == width, "{} has width {}, the op gives {}", name, WidthOf(id), width);
  }
  void Write(const char* name, ValueId id, Rows rows, int32_t width) {
    if (!Known(name, id)) return;
    RequireRows(name, id, rows);
    RequireOrder(rows);
    Require(WidthOf(id) == width, "{} has width {}, the op gives {}", name, WidthOf(id), width);
    written_[id] = WidthOf(id);
  }
  void WriteColumns(const char* name, ValueId id, int32_t column, int32_t width) {
    if (!Known(name, id)) return;
    RequireRows(name, id, Rows::kSequences);
    Require(column == (column == 0 ? 0 : written_[id]), "columns of {} are filled from the left",
            name);
    Require(column >= 0 && column + width <= WidthOf(id), "{} is too narrow", name);
    written_[id] = column + width;
  }
  void Differ(const char* written, ValueId a, const char* read, ValueId b) {
    Require(a != b, "{} is {}, which the op still reads", written, read);
  }
  int32_t Multiply(const char* name, const PackedLinear* weight, ValueId /*rows*/, int32_t width) {
    if (*name == 0) name = "the weight";
    if (!Require(weight != nullptr, "{} is missing", name)) return 0;
    Require(weight->in() == width, "{} takes width {}, it is given {}", name, weight->in(), width);
    return weight->out();
  }
  void Normalise(const char* /*name*/, const Norm& norm, int32_t width) {
    if (norm.gamma == nullptr) return;
    Require(norm.beta == nullptr || norm.kind == NormKind::kLayer, "an RMS norm has no beta");
    for (const Table* table : {norm.gamma, norm.beta}) {
      if (table == nullptr) continue;
      Require(table->rows() == 1 && table->width() == width,
              "the norm is [{}, {}], its rows have width {}", table->rows(), table->width(), width);
    }
  }
  template <typename... Parts>
  bool Require(bool holds, const char* what, const Parts&... parts) {
    if (!holds) Fail(fmt::format(fmt::runtime(what), parts...));
    return holds;
  }

 private:
  void Fail(const std::string& what) {
    if (!error_.empty()) return;
    const bool in_op = index_ < program_.ops.size();
    error_ =
        in_op ? fmt::format("op {} ({}): {}", index_, OpName(program_.ops[index_]), what) : what;
  }
  bool Known(const char* name, ValueId id) {
    return Require(id < program_.values.size(), "{} is not a value of the program", name);
  }
  void ReadAny(const char* name, ValueId id) {
    if (!Known(name, id)) return;
    Require(written_[id] == WidthOf(id), "{} is read before it is written", name);
    if (RowsOf(id) == Rows::kSequences) sequences_begun_ = true;
  }
  void RequireRows(const char* name, ValueId id, Rows rows) {
    Require(RowsOf(id) == rows, "{} must be rows of {}", name,
            rows == Rows::kTokens ? "tokens" : "sequences");
  }
  void RequireOrder(Rows rows) {
    Require(rows == Rows::kSequences || !sequences_begun_,
            "an op over tokens follows one over sequences");
  }

  const Program& program_;
  size_t index_ = 0;              // of the op under way
  std::vector<int32_t> written_;  // columns of each value
  bool sequences_begun_ = false;
  std::string error_;
};

struct WeightLister : OpVisitor {
  int32_t Multiply(const char* /*name*/, const PackedLinear* weight, ValueId /*rows*/,
                   int32_t /*width*/) {
    if (weight == nullptr) return 0;
    weights.push_back(weight);
    return weight->out();
  }

  std::vector<const PackedLinear*> weights;
};

struct SequenceReader : OpVisitor {
  explicit SequenceReader(const Program& given) : program(given) {}
  Rows RowsOf(ValueId id) const { return program.values[id].rows; }
  void Read(const char* /*name*/, ValueId id, Rows /*rows*/) {
    reads = reads || RowsOf(id) == Rows::kSequences;
  }

  const Program& program;
  bool reads = false;
};

}  // namespace

const char* OpName(const Op& op) {
  return std::visit([](const auto& one) { return one.kName; }, op);
}

std::vector<const PackedLinear*> WeightsOf(const Op& op) {
  WeightLister lister;
  std::visit([&](const auto& one) { one.Describe(lister); }, op);
  return std::move(lister.weights);
}

bool ReadsSequences(const Program& program, const Op& op) {
  SequenceReader reader(program);
  std::visit([&](const auto& one) { one.Describe(reader); }, op);
  return reader.reads;
}

bool UsesCache(const Op& op) {
  const auto* attention = std::get_if<AttentionOp>(&op);
  return attention != nullptr && attention->shape.cached();
}

bool UsesCache(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const Op& op) { return UsesCache(op); });
}

numbers::DType LayerDType(const Program& program) {
  for (const Op& op : program.ops) {
    const std::vector<const PackedLinear*> weights = WeightsOf(op);
    if (!weights.empty()) return weights[0]->dtype();
  }
  return numbers::DType::kF32;
}

std::vector<CacheGroup> CacheGroups(const Program& program) {
  int32_t window = 0;
  bool causal = true;
  for (const Op& op : program.ops) {
    const auto* attention = std::get_if<AttentionOp>(&op);
    if (attention == nullptr || !attention->shape.cached()) continue;
    causal = causal && attention->shape.causal;
    window = std::max(window, attention->shape.window);
  }
  std::vector<CacheGroup> groups = {kFullGroup};
  if (causal && window > 0) groups.push_back({CacheKind::kWindow, window});
  return groups;
}

size_t CacheGroupOf(const AttentionShape& shape, std::span<const CacheGroup> groups) {
  for (size_t group = 1; group < groups.size(); ++group) {
    if (groups[group].kind == CacheKind::kWindow && shape.window > 0) return group;
  }
  return 0;
}

Status CheckProgram(const Program& program) { return Checker(program).Check(); }

}  // namespace penstock::program

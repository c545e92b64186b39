#include "cpu/interpreter.h"

#include <variant>

#include "base/int_math.h"
#include "base/status.h"

namespace penstock::cpu {

PreparedProgram::PreparedProgram(const program::Program& given) : program(&given) {
  for (const program::Value& value : given.values) {
    size_t& width = value.rows == program::Rows::kTokens ? token_width : sequence_width;
    columns_before.push_back(width);
    width += static_cast<size_t>(value.width);
  }
  while (token_ops < given.ops.size() && !program::ReadsSequences(given, given.ops[token_ops])) {
    ++token_ops;
  }
  next.resize(given.ops.size(), nullptr);
  const program::PackedLinear* ahead = nullptr;
  for (size_t i = given.ops.size(); i-- > 0;) {
    next[i] = ahead;
    const std::vector<const program::PackedLinear*> weights = program::WeightsOf(given.ops[i]);
    if (!weights.empty()) ahead = weights.front();
  }
}

void TokenRows::Reserve(size_t tokens, size_t width, HugePageArena* arena) {
  if (tokens <= capacity) return;
  Release();  // first, so that old and new are never held at once
  const size_t rows = penstock::RoundUp(tokens, kStep);
  values = std::make_unique<AlignedBuffer>(rows * width, arena);
  position_ids.resize(rows);
  capacity = rows;  // last: an exception leaves none
}

void TokenRows::Release() {
  capacity = 0;
  values.reset();
  position_ids = std::vector<int32_t>();  // ({} would keep the capacity)
}

uint64_t TokenRows::BytesFor(size_t tokens, size_t width) {
  return penstock::RoundUp(tokens, kStep) * (width * sizeof(float) + sizeof(int32_t));
}

uint64_t TokenRows::bytes() const {
  return position_ids.capacity() * sizeof(int32_t) +
         (values == nullptr ? 0 : values->size() * sizeof(float));
}

void Interpreter::Run(size_t begin, size_t end) {
  for (index_ = begin; index_ < end; ++index_) {
    std::visit([this](const auto& op) { RunOp(op); }, prepared_.program->ops[index_]);
  }
}

float* Interpreter::Data(program::ValueId id) const {
  const program::Value& value = prepared_.program->values[id];
  const size_t before = prepared_.columns_before[id];
  if (value.rows == program::Rows::kTokens)
    return tokens_->values->data() + before * tokens_->capacity;
  return sequence_values_ + before * sequence_capacity_ + first_ * Width(id);
}

}  // namespace penstock::cpu

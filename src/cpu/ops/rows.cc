// InputOp, NormOp and PoolOp, without a cache.
#include <cstring>

#include "cpu/interpreter.h"
#include "cpu/op_support.h"

namespace penstock::cpu {

const char* RefusalOf(const program::InputOp&, bool cached) {
  return cached ? "rows of input" : nullptr;
}

const char* RefusalOf(const program::NormOp& op, bool cached) {
  if (cached) return "a norm by itself";
  return IsOf(op.norm, program::NormKind::kLayer) ? nullptr : "an RMS norm";
}

const char* RefusalOf(const program::PoolOp&, bool cached) { return cached ? "pooling" : nullptr; }

void Interpreter::RunOp(const program::InputOp& op) {
  std::memcpy(Data(op.y), part_.input.data(), part_.input.size_bytes());
}

void Interpreter::RunOp(const program::NormOp& op) {
  ops_->NormRows(Data(op.x), RowsOf(op.x), Width(op.x), WeightsOf(op.norm), Data(op.y));
}

void Interpreter::RunOp(const program::PoolOp& op) {
  ops_->Pool({Data(op.x), part_.offsets, part_.pool_skip, Width(op.x), op.pooling,
              Data(op.y) + op.column, Width(op.y)});
}

}  // namespace penstock::cpu

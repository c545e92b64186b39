// EmbedOp. Without a cache: rows of f32 tables. With one: rows of the matrix that logits are
// multiplied by.
#include "cpu/interpreter.h"
#include "cpu/op_support.h"
#include "cpu/step_worker.h"

namespace penstock::cpu {

const char* RefusalOf(const program::EmbedOp& op, bool cached) {
  if (cached) {
    if (op.words != nullptr) return "words that are a table";
    const bool plain = op.positions == nullptr && op.types == nullptr && op.norm.gamma == nullptr;
    return plain ? nullptr : "positions, types or a norm";
  }
  if (op.matrix != nullptr) return "words that are a matrix";
  if (op.scale != 1) return "a scale";
  return IsOf(op.norm, program::NormKind::kLayer) ? nullptr : "an RMS norm";
}

void Interpreter::NumberPositions(int32_t padding) {
  for (size_t s = 0; s < part_.sequences(); ++s) {
    int32_t next = padding + 1;
    for (int32_t t = part_.offsets[s]; t < part_.offsets[s + 1]; ++t) {
      const size_t token = static_cast<size_t>(t);
      tokens_->position_ids[token] = part_.ids[token] == padding ? padding : next++;
    }
  }
}

void Interpreter::RunOp(const program::EmbedOp& op) {
  EmbedTask task;
  task.ids = part_.ids.data();
  if (op.types != nullptr && op.types->rows() > 1 && !part_.type_ids.empty()) {
    task.type_ids = part_.type_ids.data();
  }
  if (op.positions != nullptr) {
    NumberPositions(op.position_padding);
    task.position_ids = tokens_->position_ids.data();
  }
  task.words = DataOf(op.words);
  task.positions = DataOf(op.positions);
  task.types = DataOf(op.types);
  task.width = op.words->width();
  task.norm = WeightsOf(op.norm);
  ops_->Embed(task, part_.tokens(), Data(op.y));
}

void StepWorker::RunOp(const program::EmbedOp& op) {
  stage_ = StepStage::kLookup;
  const size_t width = shared_.Width(op.y);
  const BlockLinear& words = shared_.Linear(op.matrix);
  const Part rows = ShareOf(rows_);
  for (size_t row = rows.begin; row < rows.end; ++row) {
    float* const to = shared_.Data(op.y) + row * width;
    words.ReadRow(static_cast<size_t>(shared_.batch->ids[row]), to);
    if (op.scale == 1) continue;
    for (size_t i = 0; i < width; ++i) to[i] *= op.scale;
  }
  Meet();
}

}  // namespace penstock::cpu

// PicksOp, with a cache.
#include <algorithm>
#include <cmath>

#include "common/int_math.h"
#include "cpu/op_support.h"
#include "cpu/step_worker.h"

namespace penstock::cpu {
namespace {

float SoftCap(float x, float cap) { return cap * std::tanh(x / cap); }

}  // namespace

const char* RefusalOf(const PicksOp& op, bool cached) {
  if (!cached) return "picked rows";
  return IsOf(op.norm, NormKind::kRms) ? nullptr : "a layer norm";
}

void StepSizes::Add(const PicksOp& op) {
  if (op.weight != nullptr) Input(op.weight);
}

void StepWorker::RunOp(const PicksOp& op) {
  stage_ = StepStage::kLogits;
  const std::span<const int32_t> picked = shared_.batch->logit_rows;
  if (picked.empty()) return;
  if (op.weight == nullptr) {
    const Part rows = ShareOf(picked.size());
    NormRows({shared_.Data(op.x), shared_.Width(op.x), picked.size(), picked.data(), op.norm},
             rows.begin, rows.end, shared_.Data(op.y));
    return Meet();
  }
  const BlockLinear& linear = shared_.Linear(op.weight);
  const BlockLinear* const readers[] = {&linear};
  const Packed packed = Pack(
      {shared_.Data(op.x), shared_.Width(op.x), picked.size(), picked.data(), op.norm}, readers);
  const auto vocabulary = static_cast<size_t>(linear.out());
  const size_t piece_panels = kLogitPieceIds / static_cast<size_t>(kernels_.panel);
  const BlockRun run = {.rows = picked.size(), .y = shared_.Data(op.y), .y_stride = vocabulary};
  const auto finish = [&](size_t piece) {
    const size_t first = piece * kLogitPieceIds;
    const size_t count = std::min(kLogitPieceIds, vocabulary - first);
    for (size_t row = 0; row < picked.size(); ++row) {
      float* const logits = run.y + row * vocabulary + first;
      if (op.scale != 1) {
        for (size_t i = 0; i < count; ++i) logits[i] *= op.scale;
      }
      if (op.soft_cap != 0) {
        for (size_t i = 0; i < count; ++i) logits[i] = SoftCap(logits[i], op.soft_cap);
      }
      if (shared_.sink != nullptr) shared_.sink->Add(worker_, row, {logits, count}, first);
    }
  };
  const Part part = ShareOf(CeilDiv(vocabulary, kLogitPieceIds));
  RunPanels(linear, packed,
            {part.begin * piece_panels, std::min(part.end * piece_panels, linear.panels())}, run);
  for (size_t piece = part.begin; piece < part.end; ++piece) finish(piece);
  Meet();
}

}  // namespace penstock::cpu

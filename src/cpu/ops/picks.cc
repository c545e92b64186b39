// PicksOp, with a cache.
#include <algorithm>
#include <cmath>

#include "base/int_math.h"
#include "cpu/op_support.h"
#include "cpu/step_worker.h"

namespace penstock::cpu {
namespace {

// Workers take the vocabulary in pieces, so that no block of sums is of two workers.
constexpr size_t kPieceIds = 256;

float SoftCap(float x, float cap) { return cap * std::tanh(x / cap); }

}  // namespace

const char* RefusalOf(const program::PicksOp& op, bool cached) {
  if (!cached) return "picked rows";
  return IsOf(op.norm, program::NormKind::kRms) ? nullptr : "a layer norm";
}

void StepSizes::Add(const program::PicksOp& op) {
  if (op.weight != nullptr) Input(op.weight);
}

void StepWorker::RunOp(const program::PicksOp& op) {
  stage_ = StepStage::kLogits;
  const std::span<const int32_t> picked = shared_.batch->picks;
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
  static_assert(kPieceIds % sample::kLogitBlock == 0);
  const size_t piece_panels = kPieceIds / static_cast<size_t>(kernels_.panel);
  const BlockRun run = {.rows = picked.size(), .y = shared_.Data(op.y), .y_stride = vocabulary};
  const Part part = ShareOf(CeilDiv(vocabulary, kPieceIds));
  // The last piece may be short; a share may be empty.
  RunPanels(linear, packed,
            {std::min(part.begin * piece_panels, linear.panels()),
             std::min(part.end * piece_panels, linear.panels())},
            run);
  const size_t first = std::min(part.begin * kPieceIds, vocabulary);
  const size_t count = std::min(part.end * kPieceIds, vocabulary) - first;
  for (size_t pick = 0; pick < picked.size(); ++pick) {
    const std::span<float> logits(run.y + pick * vocabulary + first, count);
    if (op.scale != 1) {
      for (float& logit : logits) logit *= op.scale;
    }
    if (op.soft_cap != 0) {
      for (float& logit : logits) logit = SoftCap(logit, op.soft_cap);
    }
    const program::PickWant want = shared_.found.want(pick);
    if (want == program::PickWant::kRow) continue;
    scan_.Reset(sample::kCandidatesMax, want == program::PickWant::kBestAndSums);
    if (count > 0) scan_.Add(logits, first, shared_.found.Blocks(pick));
    shared_.found.Set(pick, worker_, scan_.Part());
  }
  Meet();
}

}  // namespace penstock::cpu

// LinearOp.
#include <algorithm>

#include "cpu/interpreter.h"
#include "cpu/op_support.h"
#include "cpu/step_worker.h"

namespace penstock::cpu {

const char* RefusalOf(const program::Residual& residual, bool cached) {
  if (cached) {
    if (residual.after.gamma != nullptr || residual.sum != program::kNoValue)
      return "a norm of the sum";
    return IsOf(residual.norm, program::NormKind::kRms) ? nullptr : "a layer norm";
  }
  const bool plain = residual.norm.gamma == nullptr && residual.scale == 1;
  if (!plain) return "a norm or scale before the sum";
  return IsOf(residual.after, program::NormKind::kLayer) ? nullptr : "an RMS norm";
}

const char* RefusalOf(const program::LinearOp& op, bool cached) {
  const bool adds = op.residual.value != program::kNoValue;
  if (cached && !adds) return "a linear layer without a residual";
  if (adds && op.activation != program::Activation::kNone) return "an activation before the sum";
  return adds ? RefusalOf(op.residual, cached) : nullptr;
}

void Interpreter::RunOp(const program::LinearOp& op) {
  const PanelLinear& weight = *Panels(op.weight);
  const program::Residual& residual = op.residual;
  if (residual.value == program::kNoValue) {
    ops_->gemm().Linear(Data(op.x), RowsOf(op.x), weight, op.activation, Data(op.y), next());
    return;
  }
  ops_->gemm().LinearNorm(
      Data(op.x), RowsOf(op.x), weight,
      {Data(residual.value), WeightsOf(residual.after), Optional(residual.sum), Data(op.y)},
      next());
}

void StepSizes::Add(const program::LinearOp& op) {
  Input(op.weight);
  Result(op.weight, op.residual);
}

void StepWorker::AddLinear(const BlockLinear& linear, const Packed& packed,
                           const program::Residual& residual, program::ValueId y) {
  const size_t width = shared_.Width(y);
  const bool direct = residual.norm.gamma == nullptr && residual.scale == 1;
  BlockRun run = {.rows = rows_, .y = shared_.Data(y), .y_stride = width};
  if (direct) {
    run.residual = shared_.Data(residual.value);
  } else {
    run.y = shared_.product.data();
  }
  RunPanels(linear, packed, ShareOf(linear.panels()), run);
  Meet();
  if (direct) return;
  const Part rows = ShareOf(rows_);
  for (size_t row = rows.begin; row < rows.end; ++row) {
    float* const product = shared_.product.data() + row * width;
    if (residual.norm.gamma != nullptr) {
      kernels_.rms_norm(product, 1, width, DataOf(residual.norm.gamma), residual.norm.epsilon,
                        product);
    }
    const float* const from = shared_.Data(residual.value) + row * width;
    float* const to = shared_.Data(y) + row * width;
    for (size_t i = 0; i < width; ++i) to[i] = from[i] + residual.scale * product[i];
  }
  Meet();
}

void StepWorker::RunOp(const program::LinearOp& op) {
  stage_ = StepStage::kOut;
  const BlockLinear& linear = shared_.Linear(op.weight);
  const BlockLinear* const readers[] = {&linear};
  const Packed packed =
      Pack({shared_.Data(op.x), shared_.Width(op.x), rows_, nullptr, {}}, readers);
  AddLinear(linear, packed, op.residual, op.y);
}

}  // namespace penstock::cpu

// FeedForwardOp.
#include <algorithm>

#include "cpu/interpreter.h"
#include "cpu/op_support.h"
#include "cpu/step_worker.h"

namespace penstock::cpu {

const char* RefusalOf(const program::FeedForwardOp& op, bool cached) {
  if (cached) {
    if (op.up == nullptr) return "a feed-forward without a gate";
    if (!IsOf(op.norm, program::NormKind::kRms)) return "a layer norm";
  } else {
    if (op.norm.gamma != nullptr) return "a norm of x";
    if (op.up != nullptr && op.up->dtype() != op.in->dtype()) return "up and in of two types";
  }
  return RefusalOf(op.residual, cached);
}

void Interpreter::RunOp(const program::FeedForwardOp& op) {
  FeedForwardArgs args;
  args.x = Data(op.x);
  args.rows = RowsOf(op.x);
  args.in = Panels(op.in);
  args.gate = Panels(op.up);
  args.activation = op.activation;
  args.out = Panels(op.out);
  args.residual = Data(op.residual.value);
  args.norm = WeightsOf(op.residual.after);
  args.sum = Optional(op.residual.sum);
  args.y = Data(op.y);
  args.next = next();
  ops_->gemm().FeedForward(args);
}

void StepSizes::Add(const program::FeedForwardOp& op) {
  for (const program::PackedLinear* weight : {op.in, op.up, op.out}) Input(weight);
  inner = std::max(inner, static_cast<size_t>(op.in->out()));
  Result(op.out, op.residual);
}

void StepWorker::RunOp(const program::FeedForwardOp& op) {
  stage_ = StepStage::kGateUp;
  const BlockLinear& gate = shared_.Linear(op.in);
  const BlockLinear& up = shared_.Linear(op.up);
  const BlockLinear& down = shared_.Linear(op.out);
  const BlockLinear* const readers[] = {&gate, &up};
  const Packed packed =
      Pack({shared_.Data(op.x), shared_.Width(op.x), rows_, nullptr, op.norm}, readers);
  const auto inner = static_cast<size_t>(gate.out());
  BlockRun run = {.rows = rows_, .y = shared_.inner.data(), .y_stride = inner};
  // A few panels at a time, so that gate's results are in cache when up multiplies them.
  const size_t step = rows_ <= kOwnRows ? gate.panels() : 1;
  const Part part = ShareOf(gate.panels());
  for (size_t panel = part.begin; panel < part.end; panel += step) {
    const Part panels = {panel, std::min(panel + step, part.end)};
    run.activation = op.activation;
    run.multiply = false;
    RunPanels(gate, packed, panels, run);
    run.activation = program::Activation::kNone;
    run.multiply = true;
    RunPanels(up, packed, panels, run);
  }
  Meet();
  stage_ = StepStage::kDown;
  const BlockLinear* const last[] = {&down};
  AddLinear(down, Pack({shared_.inner.data(), inner, rows_, nullptr, {}}, last), op.residual, op.y);
}

}  // namespace penstock::cpu

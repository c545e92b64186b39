// StepCost: how long a step of a decoder takes, fitted to measurements when its engine is loaded.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "tensor/compute_gate.h"
#include "tensor/step.h"

namespace penstock {

// seconds = fixed_s + row_s * rows + work_s * work. Work is the sum over rows of the positions they
// attend to.
struct StepCost {
  double fixed_s = 0;
  double row_s = 0;
  double work_s = 0;
  bool known() const { return row_s > 0; }
  double Seconds(double rows, double work) const { return fixed_s + row_s * rows + work_s * work; }
  // The most rows of a sequence with `past` cached tokens that fit in a step of `seconds` beside
  // what takes `taken_s`; at least 0.
  int32_t RowsWithin(double seconds, double taken_s, int32_t past) const;
  // Work of `rows` after `past` tokens.
  static double Work(int32_t rows, int32_t past) {
    return static_cast<double>(rows) * (static_cast<double>(past) + (rows + 1) / 2.0);
  }
};

// Runs a few steps on the first blocks of `run`, which hold nothing that is needed, each in a turn
// of the bulk class of `gate` (null: none). `context`: the most tokens of a sequence.
Expected<StepCost> MeasureStepCost(StepRun* run, int32_t context, ComputeGate* gate);

}  // namespace penstock

// StepCost: how long a step of a decoder takes, fitted to measurements when its engine is loaded.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "gate/compute_gate.h"
#include "program/program_run.h"
#include "threads/request_context.h"

namespace penstock::generate {

// Of the rows of a step, and of its work: the sum over rows of the positions they attend to. Up to
// kFewRows rows kernels unpack weights as they multiply, and a row more costs little; with more
// they unpack them once, and the time is a line with another beginning.
struct StepCost {
  static constexpr int32_t kFewRows = 8;

  double one_s = 0;    // a step of one row
  double few_s = 0;    // of kFewRows
  double fixed_s = 0;  // of more: fixed_s + row_s * rows
  double row_s = 0;
  double work_s = 0;
  // False: the model is large, and steps of many rows were not run. Live steps tell (StepCostFit).
  bool measured = true;
  bool known() const { return row_s > 0; }
  double Seconds(int32_t rows, double work) const;
  // The most rows of a sequence with `past` cached tokens that fit in `seconds`, beside `rows` and
  // `work` that are in the step already.
  int32_t RowsWithin(double seconds, int32_t rows, double work, int32_t past) const;
  // Work of `rows` after `past` tokens.
  static double Work(int32_t rows, int32_t past) {
    return static_cast<double>(rows) * (static_cast<double>(past) + (rows + 1) / 2.0);
  }
};

// Runs a few steps on the first blocks of `run`, which hold nothing that is needed, each in a turn
// of the bulk class of `gate` (null: none), with as many rows as about 25 ms allow: others wait for
// a step. `context`: the most tokens of a sequence. `now`: the clock; null: Clock.
Expected<StepCost> MeasureStepCost(program::ProgramRun* run, int32_t context,
                                   gate::ComputeGate* gate,
                                   const std::function<Clock::time_point()>& now = nullptr);

// Fits a StepCost to the steps of a model as they come, the latest counting most.
class StepCostFit {
 public:
  explicit StepCostFit(const StepCost& first) : cost_(first) {}
  // Of a step of `rows` rows, and of `work`.
  void Observe(int32_t rows, double work, double seconds);
  const StepCost& cost() const { return cost_; }

 private:
  void FitMany(double rows, double seconds);

  StepCost cost_;
  // Of steps of more than kFewRows rows, weighted: how many, and means over them.
  double weight_ = 0;
  double rows_ = 0, seconds_ = 0;     // means
  double spread_ = 0, together_ = 0;  // variance of rows; covariance of rows and seconds
};

}  // namespace penstock::generate

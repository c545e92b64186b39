// Known answers: what must hold for every model, checked where one is loaded for the first time on
// a machine.
//
//   kernels   a linear layer gives what plain arithmetic gives (linear_check.h)
//   finite    results are finite, and not all the same number
//   batch     a sequence gives the same alone and among others: the same bits, of a model that
//             OpenVINO computes to a thousandth
//
// Whatever the time does not allow is left out. What a model itself comes with is in
// expected_answers.h.
#pragma once

#include <cstdint>
#include <functional>

#include "checks/linear_check.h"
#include "common/request_context.h"
#include "common/status.h"
#include "gate/compute_gate.h"
#include "program/backend.h"
#include "program/encoder_runner.h"
#include "program/program.h"
#include "program/program_run.h"
#include "sched/batch_limits.h"

namespace penstock {

// Time for the checks of a model that took `load` to load: a hundredth of that, at least 200 ms.
Clock::duration CheckTimeOf(Clock::duration load);

// The time that checks may take, from the constructor on. Waiting for other models is not counted.
class CheckClock {
 public:
  using Now = std::function<Clock::time_point()>;
  // `gate`: of the backend, null: none. `now`: for tests.
  CheckClock(Clock::duration limit, ComputeGate* gate, Now now = Clock::now);

  // Whether work that takes about `seconds` fits the time that is left.
  bool Allows(double seconds);
  // Runs it in a turn of the gate, among the bulk work.
  Status Run(const std::function<Status()>& work);
  Clock::duration took() const;
  Clock::duration left() const { return limit_ - took(); }
  // No Allows was false.
  bool complete() const { return complete_; }

 private:
  const Clock::duration limit_;
  ComputeGate* const gate_;
  const Now now_;
  const Clock::time_point begin_;
  const Clock::duration waited_before_;
  Clock::duration waited_{};
  bool complete_ = true;
};

struct RunnerToCheck {
  EncoderRunner* runner = nullptr;
  EncoderOutput output = EncoderOutput::kPooled;
  int32_t vocab_size = 0;
  int32_t max_tokens = 0;  // of a sequence
  BatchTimes times;        // not known: as if batches took no time
  bool same_bits = true;   // results are to have the same bits alone and among others; else nearly
};

// Checks the kernels alone; does nothing if `linear` is null. Errors: as CheckRunner.
Status CheckLinear(const LinearChecker& linear, CheckClock* clock);

// kInternal: a check failed; the message says which and what to do. Other errors are those of
// running the model.
Status CheckRunner(const RunnerToCheck& model, const LinearChecker& linear, CheckClock* clock);

// `run`: of kCheckRows rows, kCheckLogitRows logit rows and two blocks at least. `step_s`: what a
// step takes, about. Errors: those of CheckRunner.
inline constexpr int32_t kCheckRows = 8;
inline constexpr int32_t kCheckLogitRows = 2;
Status CheckSteps(ProgramRun* run, int32_t vocab_size, int32_t context, double step_s,
                  CheckClock* clock);

// A program of a decoder as far as its layers fit the time: steps of few rows take as long as their
// weights take to be read. `step_s` is set to that of the program returned.
Program ProgramWithin(const Program& program, double seconds, double* step_s);

}  // namespace penstock

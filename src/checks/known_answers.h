// Known answers: what must hold for every model, checked where one is loaded for the first time on
// a machine. The results are of made-up tokens. A model that OpenVINO computes gives the same alone
// and among others to a thousandth, all others the same bits.
//
// Whatever the time does not allow is left out. What a model itself comes with is in
// expected_answers.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "checks/check.h"
#include "checks/linear_check.h"
#include "gate/compute_gate.h"
#include "numbers/dtype.h"
#include "program/backend.h"
#include "program/encoder_runner.h"
#include "program/program.h"
#include "program/program_run.h"
#include "sched/batch_limits.h"
#include "threads/request_context.h"

namespace penstock::families {
struct ModelFolder;  // families/model_folder.h
}  // namespace penstock::families

namespace penstock::text {
class Tokenizer;  // text/tokenizer.h
}  // namespace penstock::text

namespace penstock::checks {

// Time for the checks of a model that took `load` to load: a hundredth of that, at least 200 ms.
Clock::duration CheckTimeOf(Clock::duration load);

// The time that checks may take, from the constructor on. Waiting for other models is not counted.
class CheckClock {
 public:
  using Now = std::function<Clock::time_point()>;
  // `gate`: of the backend, null: none. `now`: for tests.
  CheckClock(Clock::duration limit, gate::ComputeGate* gate, Now now = Clock::now);

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
  gate::ComputeGate* const gate_;
  const Now now_;
  const Clock::time_point begin_;
  const Clock::duration waited_before_;
  Clock::duration waited_{};
  bool complete_ = true;
};

// An encoder, or a decoder that embeds or scores.
struct RunnerToCheck {
  program::EncoderRunner* runner = nullptr;
  program::EncoderOutput output = program::EncoderOutput::kPooled;
  int32_t vocab_size = 0;
  int32_t max_tokens = 0;   // of a sequence
  sched::BatchTimes times;  // not known: as if batches took no time
  bool same_bits = true;    // results are to have the same bits alone and among others; else nearly
  // For ExpectedAnswers.
  const families::ModelFolder* folder = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  numbers::DType dtype = numbers::DType::kF32;
};

// Errors: kInternal: the check failed; the message says how and what to do. Other errors are those
// of running the model.
Status CheckLinear(const LinearChecker& linear, CheckClock* clock);

// Batches of a runner. Errors: those of CheckLinear. Both outlive the results.
std::unique_ptr<CheckedResults> ResultsOf(const RunnerToCheck* model, CheckClock* clock);

// Steps of a decoder. `prepare` makes a run of kCheckRows rows, kCheckLogitRows logit rows and two
// blocks at least. Errors: those of CheckLinear.
inline constexpr int32_t kCheckRows = 8;
inline constexpr int32_t kCheckLogitRows = 2;
struct StepsToCheck {
  int32_t vocab_size = 0;
  int32_t context = 0;
  // Sets `step_s` to what a step takes, about. What it needs outlives the results.
  std::function<Expected<std::unique_ptr<program::ProgramRun>>(double* step_s)> prepare;
};
std::unique_ptr<CheckedResults> ResultsOf(StepsToCheck model, CheckClock* clock);

// A program of a decoder as far as its layers fit the time: steps of few rows take as long as their
// weights take to be read. `step_s` is set to that of the program returned.
program::Program ProgramWithin(const program::Program& program, double seconds, double* step_s);

}  // namespace penstock::checks

#include "generate/step_cost.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <vector>

#include "gate/load_turn.h"
#include "kv/cache_pools.h"
#include "threads/request_context.h"

namespace penstock::generate {
namespace {

// Two numbers of rows for the kernels of many rows, few enough that a large model takes a moment.
constexpr int32_t kSomeRows = 16;
constexpr int32_t kManyRows = 48;
// Attention is told from the rest by this many cached tokens.
constexpr int32_t kPast = 1024;
// A step of the measurement takes about this at most, or is of one row.
constexpr double kStepMaxS = 0.025;
// Of a model whose one row takes that long: what a further row adds, as a part of the first.
// Weights are read once for all rows.
constexpr double kRowShareGuess = 0.25;

}  // namespace

double StepCost::Seconds(int32_t rows, double work) const {
  if (rows == 0) return 0;
  const double few = one_s + (few_s - one_s) * (rows - 1) / (kFewRows - 1);
  const double many = std::max(few_s, fixed_s + row_s * rows);
  return (rows <= kFewRows ? few : many) + work_s * work;
}

int32_t StepCost::RowsWithin(double seconds, int32_t rows, double work, int32_t past) const {
  int32_t fit = 0, over = 1 << 16;
  while (over - fit > 1) {
    const int32_t middle = fit + (over - fit) / 2;
    (Seconds(rows + middle, work + Work(middle, past)) <= seconds ? fit : over) = middle;
  }
  return fit;
}

namespace {

// Runs steps and times them.
class Stopwatch {
 public:
  Stopwatch(program::ProgramRun* run, int32_t context, gate::ComputeGate* gate,
            const std::function<Clock::time_point()>& now)
      : run_(run),
        now_(now),
        ids_(static_cast<size_t>(std::min(kManyRows, context)), 0),
        tables_(kv::TablesOfOneText(run->groups(), context, kManyRows)) {
    if (gate != nullptr) turn_.emplace(gate);
  }

  int32_t most() const { return static_cast<int32_t>(ids_.size()); }

  // Of a step of `rows` rows after `past` tokens. The better of two: the first of each kind touches
  // memory for the first time.
  Expected<double> Seconds(int32_t rows, int32_t past) {
    double best = INFINITY;
    for (int repeat = 0; repeat < 2; ++repeat) {
      if (turn_) turn_->Begin();
      const bool long_rope = run_->LongRope(static_cast<size_t>(past + rows));
      const program::SingleSequence sequence(rows, past, tables_, long_rope);
      const int32_t last = rows - 1;
      const auto begin = Now();
      PENSTOCK_RETURN_IF_ERROR(
          run_->Run(sequence.Batch(std::span(ids_).first(static_cast<size_t>(rows)), {&last, 1})));
      best = std::min(best, std::chrono::duration<double>(Now() - begin).count());
      if (turn_) turn_->End();
    }
    return best;
  }

 private:
  Clock::time_point Now() const { return now_ ? now_() : Clock::now(); }

  program::ProgramRun* const run_;
  std::optional<gate::LoadTurn> turn_;
  const std::function<Clock::time_point()>& now_;
  std::vector<int32_t> ids_;
  const std::vector<BlockTable> tables_;
};

struct Timed {
  int32_t rows = 1;
  double seconds = 0;
};

// The largest of `targets` that fits kStepMax, or the most rows below it that do, told from those
// timed before: rows cost no more than in proportion. `from` is the last one timed, and becomes it.
Status TimeRows(Stopwatch* watch, std::initializer_list<int32_t> targets, Timed* from) {
  for (const int32_t target : targets) {
    const int32_t wanted = std::min(target, watch->most());
    const double fit = from->rows * kStepMaxS / std::max(from->seconds, 1e-9);
    const auto rows = static_cast<int32_t>(std::min<double>(wanted, fit));
    if (rows <= from->rows) break;
    PENSTOCK_ASSIGN_OR_RETURN(from->seconds, watch->Seconds(rows, 0));
    from->rows = rows;
    if (rows < wanted) break;
  }
  return Status::Ok();
}

}  // namespace

Expected<StepCost> MeasureStepCost(program::ProgramRun* run, int32_t context,
                                   gate::ComputeGate* gate,
                                   const std::function<Clock::time_point()>& now) {
  Stopwatch watch(run, context, gate, now);
  StepCost cost;
  Timed one, few, some, most;
  PENSTOCK_ASSIGN_OR_RETURN(one.seconds, watch.Seconds(1, 0));
  few = one;
  PENSTOCK_RETURN_IF_ERROR(TimeRows(&watch, {2, 4, StepCost::kFewRows}, &few));
  some = few;
  if (few.rows == StepCost::kFewRows) {
    PENSTOCK_RETURN_IF_ERROR(TimeRows(&watch, {kSomeRows}, &some));
  }
  most = some;
  if (some.rows == kSomeRows) PENSTOCK_RETURN_IF_ERROR(TimeRows(&watch, {kManyRows}, &most));
  // Attention doubles a step at most, or there is but one row.
  const Timed& shallow = 2 * most.seconds <= kStepMaxS ? most : one;
  const int32_t past = std::min(kPast, context - shallow.rows);
  if (past > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const double deep_s, watch.Seconds(shallow.rows, past));
    cost.work_s =
        std::max(0.0, deep_s - shallow.seconds) / (static_cast<double>(shallow.rows) * past);
  }
  cost.one_s = one.seconds;
  cost.measured = most.rows >= std::min(kManyRows, watch.most());
  // What was not run is taken to go on as what was; a row more than one costs something.
  const double few_slope =
      few.rows > 1 ? (few.seconds - one.seconds) / (few.rows - 1) : one.seconds * kRowShareGuess;
  cost.few_s = std::max(cost.one_s, cost.one_s + few_slope * (StepCost::kFewRows - 1));
  if (few.rows == StepCost::kFewRows) cost.few_s = std::max(few.seconds, cost.one_s);
  // Timings are noisy: each row costs something.
  const double slope =
      most.rows > some.rows ? (most.seconds - some.seconds) / (most.rows - some.rows) : few_slope;
  cost.row_s = std::max(cost.measured && most.rows == some.rows ? 0.0 : slope, cost.few_s * 1e-3);
  cost.fixed_s = std::max(0.0, most.seconds - cost.row_s * most.rows);
  return cost;
}

void StepCostFit::Observe(int32_t rows, double work, double seconds) {
  constexpr double kWeight = 0.125;
  seconds -= cost_.work_s * work;
  if (rows <= 0 || seconds <= 0) return;
  if (rows > StepCost::kFewRows) return FitMany(rows, seconds);
  if (rows == 1) {
    cost_.one_s += kWeight * (seconds - cost_.one_s);
  } else {
    const double few =
        cost_.one_s + (seconds - cost_.one_s) * (StepCost::kFewRows - 1) / (rows - 1);
    cost_.few_s += kWeight * (few - cost_.few_s);
  }
  cost_.few_s = std::max(cost_.few_s, cost_.one_s);
}

// A line through what was seen, by least squares; where all steps had about as many rows, the line
// there was, scaled.
void StepCostFit::FitMany(double rows, double seconds) {
  constexpr double kKept = 0.95;  // of the weight of all before, with each step
  constexpr double kSpreadMin = 64;
  weight_ = kKept * weight_ + 1;
  const double share = 1 / weight_;
  const double rows_off = rows - rows_, seconds_off = seconds - seconds_;
  rows_ += share * rows_off;
  seconds_ += share * seconds_off;
  spread_ += share * (rows_off * (rows - rows_) - spread_);
  together_ += share * (rows_off * (seconds - seconds_) - together_);
  if (spread_ >= kSpreadMin) {
    cost_.row_s = std::clamp(together_ / spread_, seconds_ / rows_ * 1e-2, seconds_ / rows_);
    cost_.fixed_s = std::max(0.0, seconds_ - cost_.row_s * rows_);
    return;
  }
  const double scale = seconds_ / (cost_.fixed_s + cost_.row_s * rows_);
  cost_.fixed_s *= scale;
  cost_.row_s *= scale;
}

}  // namespace penstock::generate

#include "cpu/step_threads.h"

#include <algorithm>
#include <limits>

namespace penstock::cpu {

StepThreads::StepThreads(size_t most) {
  // All, 3/4, 1/2, 3/8, 1/4, ...
  for (size_t count = most; count >= kThreadsMin; count /= 2) {
    counts_.push_back(count);
    if (count * 3 / 4 >= kThreadsMin) counts_.push_back(count * 3 / 4);
  }
  if (counts_.empty()) counts_.push_back(most);
}

bool StepThreads::CanTry(const State& state) const {
  return state.fewer ? state.at + 1 < counts_.size() : state.at > 0;
}

size_t StepThreads::InUse(size_t rows) const {
  return counts_[rows > kRowsMax ? 0 : states_[rows].at];
}

size_t StepThreads::Next(size_t rows) const {
  if (rows > kRowsMax) return counts_[0];
  const State& state = states_[rows];
  const bool on_trial = state.until_trial == 0 && state.tried % 2 == 1;
  return counts_[on_trial ? OnTrial(state) : state.at];
}

void StepThreads::Took(size_t rows, double seconds) {
  if (rows > kRowsMax || counts_.size() == 1) return;
  State& state = states_[rows];
  if (state.until_trial > 0) {
    if (--state.until_trial > 0) return;
    if (!CanTry(state)) state.fewer = !state.fewer;
    state.tried = 0;
    state.best_in_use = state.best_on_trial = std::numeric_limits<double>::infinity();
    return;
  }
  double& best = state.tried % 2 == 0 ? state.best_in_use : state.best_on_trial;
  best = std::min(best, seconds);
  if (++state.tried == 2 * kTrialSteps) EndTrial(&state);
}

void StepThreads::EndTrial(State* state) const {
  if (state->best_on_trial < kGain * state->best_in_use) {
    state->at = OnTrial(*state);
    state->lost = 0;
    state->interval = kIntervalMin;
  } else {
    state->fewer = !state->fewer;
    // Both neighbours lost: what is in use is right for a while.
    if (++state->lost % 2 == 0) state->interval = std::min(2 * state->interval, kIntervalMax);
  }
  state->until_trial = state->interval;
}

}  // namespace penstock::cpu

// StepThreads: how many threads take part in a decoder's steps, found by measuring them.
//
// A step of few rows reads the weights once, and its threads meet some hundred times. Once the
// threads use the whole bandwidth, more of them only make their meetings longer. So now and then a
// step is done by some threads more or fewer, in turns with the present count, and what is faster
// is kept. Two trials that find nothing double the time until the next one. Steps of more than
// kRowsMax rows compute more than they read and use all threads. The bits of a step do not depend
// on the count (step_worker.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::cpu {

class StepThreads {
 public:
  static constexpr size_t kRowsMax = 8;     // of a step that is tried
  static constexpr size_t kThreadsMin = 4;  // so few do not use up a machine's bandwidth
  static constexpr size_t kTrialSteps = 4;  // with the count on trial, and the same number without
  static constexpr uint32_t kIntervalMin = 32;
  static constexpr uint32_t kIntervalMax = 4096;
  static constexpr double kGain = 0.97;  // of the time, at most, for a count to be taken

  // `most`: threads that there are; at least 1.
  explicit StepThreads(size_t most);

  // For the next step, of `rows` rows.
  size_t Next(size_t rows) const;
  // That step, with that count, took so long.
  void Took(size_t rows, double seconds);
  // The count in use for steps of `rows` rows.
  size_t InUse(size_t rows) const;

 private:
  // Steps of one number of rows.
  struct State {
    size_t at = 0;      // of counts_
    bool fewer = true;  // what is tried next: the count after `at`, else the one before
    size_t tried = 0;   // steps of the trial that are done, the first with the count in use
    uint32_t until_trial = kIntervalMin;
    uint32_t interval = kIntervalMin;
    int lost = 0;  // trials in a row that found nothing
    double best_in_use = 0;
    double best_on_trial = 0;
  };

  bool CanTry(const State& state) const;
  static size_t OnTrial(const State& state) { return state.fewer ? state.at + 1 : state.at - 1; }
  void EndTrial(State* state) const;

  std::vector<size_t> counts_;  // falling
  std::array<State, kRowsMax + 1> states_;
};

}  // namespace penstock::cpu

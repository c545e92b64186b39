// StepFormer: decides what the next step of a decoder holds. See decode_scheduler.h for the order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "generate/decode_sequence.h"
#include "generate/step_cost.h"

namespace penstock::generate {

struct StepLimits {
  int32_t rows_max = 1;
  int32_t scored_rows_max = 1;  // of prompts whose tokens are scored
  int32_t draft_rows_max = 0;   // of guessed tokens
  int32_t rope_switch = 0;      // as ProgramRun::rope_switch: no guess goes beyond it
  StepCost cost;
  // How long a step may take where sequences decode beside a prompt, if twice the step without the
  // prompt is less; also where others wait for the processor.
  double shared_s = 0.030;
  // Where a prompt is alone.
  double alone_s = 0.250;
};

struct StepDemand {
  Priority first = Priority::kInteractive;  // whose prompts go first
  bool others_wait = false;                 // other engines, for the processor
  Clock::time_point now;
};

// Chooses rows for each of `running`, in the order of arrival: sets DecodeSequence::rows and takes
// room in their caches. Sequences that must give up their blocks, the newest of bulk first, then
// the newest, are handed to `preempt`, which takes them out of `running`. Returns the rows of the
// step; 0: there is no room for any.
class StepFormer {
 public:
  using Preempt = std::function<void(DecodeSequence*)>;
  explicit StepFormer(const StepLimits& limits) : limits_(limits), fit_(limits.cost) {}

  // How long the step that was formed last took: later chunks are corrected by it, and costs that
  // were not measured are told from it.
  void Observe(double seconds);
  int32_t Form(std::vector<DecodeSequence*>* running, const StepDemand& demand,
               const Preempt& preempt);
  // Whether a guess of the text's next token would pay in a step like the last one. Behind
  // NgramDraft::Follow.
  bool GuessPays(const DecodeSequence& sequence) const;

 private:
  // The fewest rows of a prompt that a step takes, so that prompts go on however long steps are.
  static constexpr int32_t kChunkMin = 4;
  // The most of one where costs are not known.
  static constexpr int32_t kChunkUnknown = 128;

  void TakeDecoding(std::vector<DecodeSequence*>* running, const Preempt& preempt);
  void TakeDrafts(const std::vector<DecodeSequence*>& running);
  // At most `most`, in a step of at most `seconds_max`.
  int32_t DraftsOf(const DecodeSequence& sequence, int32_t most, double seconds_max) const;
  void TakePrompts(std::vector<DecodeSequence*>* running, const StepDemand& demand,
                   const Preempt& preempt);
  void OrderClients();
  int32_t ChunkOf(const DecodeSequence& sequence, double seconds) const;
  double Budget(const StepDemand& demand) const;
  // Gives it rows, instead of those it has.
  void Add(DecodeSequence* sequence, int32_t rows);
  void Remove(DecodeSequence* sequence);

  StepLimits limits_;
  StepCostFit fit_;
  std::vector<DecodeSequence*> prompts_;  // kept for their memory
  std::vector<int32_t> joined_;
  int32_t rows_ = 0;
  int32_t decoding_ = 0;
  int32_t scored_ = 0;
  double work_ = 0;
  double predicted_s_ = 0;
  // Seconds of steps with prompts over those predicted, a moving average.
  double error_ = 1;
};

}  // namespace penstock::generate

// DecodeScheduler: steps that are started while the one before is under way, by runs that draw tokens
// themselves (ProgramRun::draws).
//
// Such a step has a row of each text that goes on: its token is the one that the run draws in the
// step before. The host takes the tokens of that step meanwhile, by the same rule. A text that has
// ended, or whose token the host draws otherwise, makes its row void; what the row leaves in the cache
// lies in slots that no token has, and is overwritten later.
//
// Only where nothing else is to be decided: no text waits or has a prompt to run, no other model has
// or awaits a turn, or did within kSharedFor, and no guess pays. So texts and their order are those
// without it; the first request of another model waits for two steps at most. A chain of such steps is
// one turn of the gate, which accounts by turns: it ends after a while (kChainFor), so that what is
// accounted at once is little.
#include <utility>

#include "generate/decode_scheduler_impl.h"

namespace penstock::generate {

// True also for kSharedFor after another model wanted the device: it gets it between two steps. At a
// gate with several turns that model holds one (taken() > 1), and waits on the device.
bool DecodeScheduler::Impl::OthersWait() {
  if (gate->waiting() > 0 || gate->taken() > 1) shared_until = current.began + kSharedFor;
  return current.began < shared_until || inbox_full.load(std::memory_order_relaxed) ||
         !arrived.empty() || !waiting[0].empty() || !waiting[1].empty() || !parked.empty();
}

// True: the text takes part in a step ahead, or will have ended by its length before it. False: its
// next step is formed once the one under way has finished.
bool DecodeScheduler::Impl::GoesOn(DecodeSequence* sequence, bool* takes_part) const {
  const int32_t tokens = sequence->tokens();
  if (sequence->rows == 0 || sequence->logit_row < 0 || sequence->awaits_grammar ||
      sequence->owner->job->prompt_only || !sequence->stream.RuleAfter(0)) {
    return false;
  }
  *takes_part = sequence->stream.RuleAfter(1).has_value();
  if (!*takes_part) return true;
  if (!sequence->long_rope && run->LongRope(static_cast<size_t>(tokens) + 2)) return false;
  if (sequence->ngrams) {
    sequence->ngrams->Follow(tokens, [sequence](int32_t at) { return sequence->id(at); });
    if (former.GuessPays(*sequence)) return false;
  }
  return sequence->cache.Reserve(sequence->rows + 1).ok();
}

// Starts the step behind the one that is under way, if that may be.
void DecodeScheduler::Impl::StartAhead() {
  if (!run->draws() || current.drafts > 0 || current.scores > 0 || OthersWait()) return;
  if (current.began - turn_began > kChainFor) return;
  ClearBatch();
  for (const auto& sequence : running) {
    bool takes_part = false;
    if (!GoesOn(sequence.get(), &takes_part)) return ForgetAhead();
    if (!takes_part) continue;
    sequence->ahead_row = static_cast<int32_t>(picks.size());
    AddPick(sequence->ahead_row, sequence->stream.want(), sequence->stream.RuleAfter(1));
    ids.push_back(0);
    offsets.push_back(static_cast<int32_t>(ids.size()));
    sources.push_back(sequence->logit_row);
    const kv::Sequence& cache = sequence->cache;
    sequences.push_back({cache.length() + sequence->rows, cache.tables(), sequence->long_rope});
  }
  // Where it cannot be started the step is formed once this one has finished.
  if (ids.empty() || !StartRun().ok()) return ForgetAhead();
  ahead = {current.began, static_cast<int32_t>(ids.size()), 0, static_cast<int32_t>(picks.size()),
           0};
}

void DecodeScheduler::Impl::ForgetAhead() {
  for (const auto& sequence : running) sequence->ahead_row = -1;
}

// The step that was started ahead is the current one, of the texts that have not ended.
bool DecodeScheduler::Impl::StepAhead() {
  current = *ahead;
  ahead.reset();
  TakeInbox();
  EndDead(Now());
  formed.clear();
  for (const auto& sequence : running) {
    formed.push_back(sequence.get());
    sequence->logit_row = std::exchange(sequence->ahead_row, -1);
    sequence->rows = sequence->logit_row >= 0 ? 1 : 0;
    sequence->score_row = -1;
  }
  return HandleStep(/*is_formed=*/false);
}

// Waits for steps whose results are not wanted any more.
void DecodeScheduler::Impl::Drain() {
  while (under_way > 0) (void)FinishStep();
  ahead.reset();
  ForgetAhead();
}

}  // namespace penstock::generate

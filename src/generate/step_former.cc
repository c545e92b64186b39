#include "generate/step_former.h"

#include <algorithm>

#include "sched/clock_math.h"

namespace penstock::generate {
namespace {

bool IsBulk(const DecodeSequence* sequence) {
  return sequence->owner->priority() == Priority::kBulk;
}

// Who gives its blocks up first: the newest of bulk, else the newest. `running` is not empty.
DecodeSequence* FirstToGive(const std::vector<DecodeSequence*>& running) {
  const auto bulk = std::find_if(running.rbegin(), running.rend(), IsBulk);
  return bulk != running.rend() ? *bulk : running.back();
}

}  // namespace

void StepFormer::Add(DecodeSequence* sequence, int32_t rows) {
  scored_ += sequence->ScoredRows(rows) - sequence->ScoredRows(sequence->rows);
  rows_ += rows - sequence->rows;
  work_ += StepCost::Work(rows, sequence->cache.length()) -
           StepCost::Work(sequence->rows, sequence->cache.length());
  sequence->rows = rows;
  predicted_s_ = limits_.cost.Seconds(rows_, work_);
}

void StepFormer::Remove(DecodeSequence* sequence) {
  if (sequence->rows == 0) return;
  rows_ -= sequence->rows;
  scored_ -= sequence->ScoredRows(sequence->rows);
  work_ -= StepCost::Work(sequence->rows, sequence->cache.length());
  if (sequence->decodes()) decoding_ -= sequence->rows;
  predicted_s_ = limits_.cost.Seconds(rows_, work_);
  sequence->rows = 0;
  sequence->drafts.clear();
}

int32_t StepFormer::Form(std::vector<DecodeSequence*>* running, const StepDemand& demand,
                         const Preempt& preempt) {
  rows_ = 0;
  decoding_ = 0;
  scored_ = 0;
  work_ = 0;
  predicted_s_ = 0;
  for (DecodeSequence* sequence : *running) {
    sequence->rows = 0;
    sequence->drafts.clear();
  }
  TakeDecoding(running, preempt);
  // Whatever waits for the processor goes before guesses.
  const bool alone = !demand.others_wait &&
                     std::none_of(running->begin(), running->end(),
                                  [](const auto* sequence) { return sequence->remaining() > 1; });
  if (alone) TakeDrafts(*running);
  TakePrompts(running, demand, preempt);
  // Prompts that are cached in part may hold all blocks, so that none can go on.
  const auto waits = [](const auto* sequence) { return sequence->rows_left() == 0; };
  while (rows_ == 0 && running->size() > 1 && !std::ranges::all_of(*running, waits)) {
    preempt(FirstToGive(*running));
    TakePrompts(running, demand, preempt);
  }
  return rows_;
}

void StepFormer::Observe(double seconds) {
  // Steps of which little is a prompt tell nothing about prompts.
  constexpr double kWeight = 0.25;
  if (limits_.cost.known() && !limits_.cost.measured) {
    fit_.Observe(rows_, work_, seconds);
    limits_.cost = fit_.cost();
    return;
  }
  if (rows_ < decoding_ + kChunkMin || predicted_s_ <= 0) return;
  error_ = std::clamp(error_ + kWeight * (seconds / predicted_s_ - error_), 0.25, 8.0);
}

void StepFormer::TakeDecoding(std::vector<DecodeSequence*>* running, const Preempt& preempt) {
  // Interactive ones first: they may take the blocks of bulk. By index, since those that give
  // theirs up leave `running`.
  for (const bool bulk : {false, true}) {
    for (size_t i = 0; i < running->size() && rows_ < limits_.rows_max; ++i) {
      DecodeSequence* const sequence = (*running)[i];
      if (IsBulk(sequence) != bulk || !sequence->decodes() || sequence->awaits_grammar) continue;
      bool room = sequence->cache.Reserve(1).ok();
      while (!room && FirstToGive(*running) != sequence) {
        preempt(FirstToGive(*running));
        room = sequence->cache.Reserve(1).ok();
      }
      i = static_cast<size_t>(std::find(running->begin(), running->end(), sequence) -
                              running->begin());
      if (!room) continue;  // it would be the next to give: the others go on
      Add(sequence, 1);
      ++decoding_;
    }
  }
}

// How many guessed tokens pay: each saves, if it comes true, what a token takes without them, and
// costs a row.
int32_t StepFormer::DraftsOf(const DecodeSequence& sequence, int32_t most,
                             double seconds_max) const {
  const double chance = sequence.ngrams->chance();
  if (chance <= 0) return 0;
  if (!limits_.cost.known()) return chance < 0.5 ? 0 : most;
  const double token_s = predicted_s_ / decoding_;
  double reached = 1;  // the chance that all guesses so far come true
  double saved_s = 0, best_s = 0;
  int32_t best = 0;
  for (int32_t count = 1; count <= most; ++count) {
    reached *= chance;
    saved_s += reached * token_s;
    const double work = work_ + StepCost::Work(count, sequence.cache.length() + 1);
    const double step_s = limits_.cost.Seconds(rows_ + count, work);
    if (step_s > seconds_max) break;
    const double gain_s = saved_s - (step_s - predicted_s_);
    if (gain_s > best_s) {
      best_s = gain_s;
      best = count;
    }
  }
  return best;
}

bool StepFormer::GuessPays(const DecodeSequence& sequence) const {
  return limits_.draft_rows_max > 0 && decoding_ > 0 && DraftsOf(sequence, 1, 2 * predicted_s_) > 0;
}

void StepFormer::TakeDrafts(const std::vector<DecodeSequence*>& running) {
  int32_t left = limits_.draft_rows_max;
  // Texts whose guesses fail wait for those of others no longer than for a prompt.
  const double seconds_max = 2 * predicted_s_;
  for (DecodeSequence* const sequence : running) {
    if (left == 0) return;
    if (sequence->rows != 1 || !sequence->decodes() || !sequence->ngrams) continue;
    const int32_t tokens = sequence->tokens();
    const NgramDraft::Token token = [sequence](int32_t at) { return sequence->id(at); };
    sequence->ngrams->Follow(tokens, token);
    int32_t most = std::min({left, limits_.rows_max - rows_, sequence->tokens_max - 1 - tokens});
    if (limits_.rope_switch > 0 && !sequence->long_rope) {
      most = std::min(most, limits_.rope_switch - tokens);
    }
    const int32_t count = DraftsOf(*sequence, most, seconds_max);
    // Guesses take no blocks from others.
    if (count <= 0 || !sequence->cache.Reserve(1 + count).ok()) continue;
    sequence->ngrams->Guess(count, token, &sequence->drafts);
    Add(sequence, 1 + count);
    decoding_ += count;
    left -= count;
  }
}

double StepFormer::Budget(const StepDemand& demand) const {
  if (decoding_ > 0) return std::max(2 * predicted_s_, limits_.shared_s);
  return demand.others_wait ? limits_.shared_s : limits_.alone_s;
}

int32_t StepFormer::ChunkOf(const DecodeSequence& sequence, double seconds) const {
  int32_t rows = kChunkUnknown;
  if (limits_.cost.known()) {
    rows = limits_.cost.RowsWithin(seconds / error_, rows_, work_, sequence.cache.length());
  }
  return rows;
}

// Of prompts in order: the client whose prompts are through soonest, counted from the seconds it
// had, goes first with all of them. So many prompts of one do not hold up one of another.
void StepFormer::OrderClients() {
  const auto client_of = [](const DecodeSequence* one) { return one->owner->job->context.client; };
  const bool several = std::any_of(
      prompts_.begin(), prompts_.end(),
      [&](const DecodeSequence* one) { return client_of(one) != client_of(prompts_.front()); });
  if (!several) return;
  const auto in_hand = [&](const DecodeSequence* of) {
    int64_t rows = 0;
    for (const DecodeSequence* one : prompts_) {
      if (client_of(one) == client_of(of)) rows += one->remaining();
    }
    return static_cast<double>(rows) * limits_.cost.row_s;
  };
  for (DecodeSequence* one : prompts_) one->turn_s += in_hand(one);
  const Priority first = prompts_.front()->owner->priority();
  std::stable_sort(prompts_.begin(), prompts_.end(),
                   [&](const DecodeSequence* a, const DecodeSequence* b) {
                     const bool a_first = a->owner->priority() == first;
                     const bool b_first = b->owner->priority() == first;
                     return a_first != b_first ? a_first : a->turn_s < b->turn_s;
                   });
}

void StepFormer::TakePrompts(std::vector<DecodeSequence*>* running, const StepDemand& demand,
                             const Preempt& preempt) {
  prompts_.clear();
  for (DecodeSequence* sequence : *running) {
    if (sequence->remaining() > 1 && sequence->rows_left() > 0) prompts_.push_back(sequence);
  }
  if (prompts_.empty()) return;
  // The time its prompt takes, less the time it has waited.
  const auto rank = [&](const DecodeSequence* sequence) {
    return sequence->remaining() * limits_.cost.row_s -
           sched::Seconds(demand.now - sequence->owner->submitted);
  };
  std::stable_sort(prompts_.begin(), prompts_.end(),
                   [&](const DecodeSequence* a, const DecodeSequence* b) {
                     const bool a_first = a->owner->priority() == demand.first;
                     const bool b_first = b->owner->priority() == demand.first;
                     return a_first != b_first ? a_first : rank(a) < rank(b);
                   });
  OrderClients();
  const double budget = Budget(demand);
  const Priority priority = prompts_.front()->owner->priority();
  const int32_t decoding_rows = rows_;
  for (DecodeSequence* sequence : prompts_) {
    // A class's prompts wait until those of the first one are through.
    if (sequence->owner->priority() != priority) break;
    sequence->TakeCached(&joined_);
    int32_t rows = ChunkOf(*sequence, budget);
    if (rows_ == decoding_rows) rows = std::max(rows, kChunkMin);
    rows = std::min({rows, sequence->rows_left(), limits_.rows_max - rows_});
    if (rows <= 0 && sequence->rows_left() > 0) break;
    rows = std::min(rows, sequence->RowsWithScores(limits_.scored_rows_max - scored_));
    if (rows <= 0) continue;
    bool room = sequence->cache.Reserve(rows).ok();
    while (!room && !IsBulk(sequence) && IsBulk(FirstToGive(*running))) {
      DecodeSequence* const bulk = FirstToGive(*running);
      Remove(bulk);
      preempt(bulk);
      room = sequence->cache.Reserve(rows).ok();
    }
    if (room) Add(sequence, rows);
  }
}

}  // namespace penstock::generate

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
  sequence->rows = rows;
  scored_ += sequence->ScoredRows(rows);
  rows_ += rows;
  work_ += StepCost::Work(rows, sequence->cache.length());
  predicted_s_ = limits_.cost.Seconds(rows_, work_);
}

void StepFormer::Remove(DecodeSequence* sequence) {
  if (sequence->rows == 0) return;
  rows_ -= sequence->rows;
  scored_ -= sequence->ScoredRows(sequence->rows);
  work_ -= StepCost::Work(sequence->rows, sequence->cache.length());
  if (sequence->decodes()) --decoding_;
  predicted_s_ = limits_.cost.Seconds(rows_, work_);
  sequence->rows = 0;
}

int32_t StepFormer::Form(std::vector<DecodeSequence*>* running, const StepDemand& demand,
                         const Preempt& preempt) {
  rows_ = 0;
  decoding_ = 0;
  scored_ = 0;
  work_ = 0;
  predicted_s_ = 0;
  for (DecodeSequence* sequence : *running) sequence->rows = 0;
  TakeDecoding(running, preempt);
  TakePrompts(running, demand, preempt);
  // Prompts that are cached in part may hold all blocks, so that none can go on.
  while (rows_ == 0 && running->size() > 1) {
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
      if (IsBulk(sequence) != bulk || !sequence->decodes()) continue;
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
    if (sequence->remaining() > 1) prompts_.push_back(sequence);
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
    rows = std::min({rows, sequence->remaining(), limits_.rows_max - rows_});
    if (rows <= 0) break;
    rows = std::min(rows, sequence->RowsWithScores(limits_.scored_rows_max - scored_));
    if (rows == 0) continue;
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

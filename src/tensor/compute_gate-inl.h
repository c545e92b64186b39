// The implementation of ComputeGate, for compute_gate.cc and for tests that run it step by step.
#pragma once

#include <algorithm>
#include <tuple>

#include "common/status.h"
#include "tensor/compute_gate.h"

namespace penstock {

template <typename Sync>
bool BasicComputeGate<Sync>::TryTake() {
  uint32_t word = word_.load(std::memory_order_relaxed);
  while (word < turns_) {  // so there are no waiters
    if (word_.compare_exchange_weak(word, word + 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

template <typename Sync>
bool BasicComputeGate<Sync>::TryGiveBack() {
  uint32_t word = word_.load(std::memory_order_relaxed);
  while (word < kOneWaiting) {
    if (word_.compare_exchange_weak(word, word - 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

template <typename Sync>
int64_t BasicComputeGate<Sync>::StartTag(const GateClient& client, size_t of,
                                         int64_t at_least) const {
  return std::max(at_least, client.finish_ns_[of].load(std::memory_order_relaxed));
}

template <typename Sync>
void BasicComputeGate<Sync>::ChooseAlone(Turn* turn, const GateDemand& demand) {
  turn->share_ = {};
  turn->priority_ = demand.bulk ? Priority::kBulk : Priority::kInteractive;
  if (demand.interactive && demand.bulk) {
    turn->priority_ = share_.Choose(turn->client_->bulk_rule(), &turn->share_);
  }
  if (!demand.interactive || !demand.bulk_pending) share_.Forget();
  const size_t of = Index(turn->priority_);
  turn->start_ns_ = StartTag(*turn->client_, of, virtual_ns_[of].load(std::memory_order_relaxed));
  virtual_ns_[of].store(turn->start_ns_, std::memory_order_relaxed);
  turn->held_ = true;
  turn->decided_ = true;
}

template <typename Sync>
void BasicComputeGate<Sync>::Link(Turn* turn) {
  for (size_t of = 0; of < kPriorities; ++of) {
    turn->tags_ns_[of] =
        StartTag(*turn->client_, of, virtual_ns_[of].load(std::memory_order_relaxed));
  }
  turn->served_ns_ = served_ns_.load(std::memory_order_relaxed);
  turn->state_.store(Turn::kWaiting, std::memory_order_relaxed);
  turn->in_line_ = true;
  turn->linked_ = true;
  turn->next_ = nullptr;
  turn->before_ = last_;
  (last_ == nullptr ? first_ : last_->next_) = turn;
  last_ = turn;
}

template <typename Sync>
void BasicComputeGate<Sync>::Unlink(Turn* turn) {
  turn->linked_ = false;
  (turn->before_ == nullptr ? first_ : turn->before_->next_) = turn->next_;
  (turn->next_ == nullptr ? last_ : turn->next_->before_) = turn->before_;
}

template <typename Sync>
auto BasicComputeGate<Sync>::Enqueue(Turn* turn, const GateDemand& demand) -> Answer {
  const Lock lock(&locked_);
  const uint32_t before = word_.fetch_add(kOneWaiting, std::memory_order_seq_cst);
  if ((before & kTakenMask) < turns_) {  // given back meanwhile: no waiters
    word_.fetch_sub(kOneWaiting - 1, std::memory_order_seq_cst);
    ChooseAlone(turn, demand);
    return Answer::kGranted;
  }
  Link(turn);
  return Answer::kWaits;
}

template <typename Sync>
auto BasicComputeGate<Sync>::Decide(Turn* self, const GateDemand& demand) -> Decision {
  Decision decision;
  struct Candidate {
    Turn* turn = nullptr;
    std::tuple<bool, int64_t, int64_t> rank;  // in its share's order, start tag, deadline
  };
  std::array<Candidate, kPriorities> best;
  bool bulk_pending = false;
  const int64_t served = served_ns_.load(std::memory_order_relaxed);
  const auto consider = [&](Turn* turn, const GateDemand& has) {
    bulk_pending |= has.bulk_pending;
    for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
      if (!(priority == Priority::kBulk ? has.bulk : has.interactive)) continue;
      const size_t of = Index(priority);
      // A client's tag moves on while another of its turns is in line.
      const int64_t least =
          turn == self ? virtual_ns_[of].load(std::memory_order_relaxed) : turn->tags_ns_[of];
      const bool patient = turn == self || priority == Priority::kBulk ||
                           served - turn->served_ns_ < turn->client_->PatienceNs();
      const std::tuple rank(patient, StartTag(*turn->client_, of, least),
                            turn->client_->EarliestDeadlineNs(priority));
      if (best[of].turn == nullptr || rank < best[of].rank) best[of] = {turn, rank};
    }
  };
  for (Turn* turn = first_; turn != nullptr;) {
    Turn* const next = turn->next_;
    const GateDemand has = turn->client_->Demand();
    if (has.any()) {
      consider(turn, has);
    } else {
      Unlink(turn);
      ++decision.unlinked;
      turn->next_ = decision.sent_back;
      decision.sent_back = turn;
    }
    turn = next;
  }
  consider(self, demand);
  const Candidate& bulk = best[Index(Priority::kBulk)];
  const Candidate& interactive = best[Index(Priority::kInteractive)];
  BulkShare::Turn share;
  Priority priority = bulk.turn == nullptr ? Priority::kInteractive : Priority::kBulk;
  if (bulk.turn != nullptr && interactive.turn != nullptr) {
    priority = share_.Choose(bulk.turn->client_->bulk_rule(), &share);
  }
  if (interactive.turn == nullptr || !bulk_pending) share_.Forget();
  decision.next = best[Index(priority)].turn;
  if (decision.next == nullptr) return decision;
  decision.next->priority_ = priority;
  decision.next->share_ = share;
  const auto& [in_order, start_ns, deadline_ns] = best[Index(priority)].rank;
  decision.next->start_ns_ = start_ns;
  // Who goes before its turn does not take the others' along.
  if (in_order) virtual_ns_[Index(priority)].store(start_ns, std::memory_order_relaxed);
  if (decision.next != self) {
    Unlink(decision.next);
    ++decision.unlinked;
  }
  return decision;
}

template <typename Sync>
void BasicComputeGate<Sync>::Answered(Turn* turn, uint32_t state) {
  Atomic<uint32_t>* const word = &turn->state_;
  if (word->exchange(state, std::memory_order_acq_rel) == Turn::kAsleep) Sync::Wake(word, 1);
}

template <typename Sync>
void BasicComputeGate<Sync>::HandOver(Turn* turn, const GateDemand& demand, bool wait) {
  turn->held_ = turn->decided_ = false;
  Decision decision;
  {
    const Lock lock(&locked_);
    decision = Decide(turn, demand);
    uint32_t less = decision.unlinked * kOneWaiting;
    if (decision.next == nullptr) {
      ++less;  // the turn is free: the line is empty
    } else if (decision.next == turn) {
      turn->held_ = turn->decided_ = true;
    } else if (wait) {
      Link(turn);
      word_.fetch_add(kOneWaiting, std::memory_order_seq_cst);
    }
    if (less != 0) word_.fetch_sub(less, std::memory_order_seq_cst);
  }
  if (decision.next != nullptr && decision.next != turn) Answered(decision.next, Turn::kGranted);
  while (decision.sent_back != nullptr) {
    Turn* const back = decision.sent_back;
    decision.sent_back = back->next_;
    Answered(back, Turn::kSentBack);
  }
}

template <typename Sync>
auto BasicComputeGate<Sync>::Turn::Ask() -> Answer {
  if (in_line_) {
    const uint32_t state = state_.load(std::memory_order_acquire);
    if (state != kGranted && state != kSentBack) return Answer::kWaits;
    in_line_ = false;
    if (state == kSentBack) return Answer::kNoWork;
    held_ = decided_ = true;
    return Answer::kGranted;
  }
  if (held_ && decided_) return Answer::kGranted;
  const GateDemand demand = client_->Demand();
  if (!demand.any()) {
    Drop();
    return Answer::kNoWork;
  }
  if (held_ && gate_->HasWaiting()) {
    gate_->HandOver(this, demand, /*wait=*/true);
    return held_ ? Answer::kGranted : Answer::kWaits;
  }
  if (!held_ && !gate_->TryTake()) return gate_->Enqueue(this, demand);
  gate_->ChooseAlone(this, demand);
  return Answer::kGranted;
}

template <typename Sync>
auto BasicComputeGate<Sync>::Turn::Wait() -> Answer {
  PENSTOCK_CHECK(in_line_);
  // Yields before it sleeps: a wake-up costs about as much as these looks.
  for (int looks = 0; looks < Sync::kYieldsBeforeSleep; ++looks) {
    if (state_.load(std::memory_order_acquire) != kWaiting) return Ask();
    Sync::Yield();
  }
  uint32_t state = kWaiting;
  if (state_.compare_exchange_strong(state, kAsleep, std::memory_order_acq_rel)) {
    do {
      Sync::Wait(&state_, kAsleep, -1);
    } while (state_.load(std::memory_order_acquire) == kAsleep);
  }
  return Ask();
}

template <typename Sync>
bool BasicComputeGate<Sync>::Turn::TryTake(Priority priority) {
  PENSTOCK_CHECK(!held_ && !in_line_);
  if (!gate_->TryTake()) return false;
  const size_t of = Index(priority);
  priority_ = priority;
  share_ = {};
  start_ns_ = gate_->StartTag(*client_, of, gate_->virtual_ns_[of].load(std::memory_order_relaxed));
  gate_->virtual_ns_[of].store(start_ns_, std::memory_order_relaxed);
  held_ = decided_ = true;
  return true;
}

template <typename Sync>
void BasicComputeGate<Sync>::Turn::End(int64_t took_ns, const GateDemand& more) {
  PENSTOCK_CHECK(held_ && decided_);
  gate_->share_.Ended(share_, priority_, took_ns);
  if (took_ns > 0) {
    client_->finish_ns_[Index(priority_)].store(start_ns_ + took_ns, std::memory_order_relaxed);
    const int64_t served = gate_->served_ns_.load(std::memory_order_relaxed);
    gate_->served_ns_.store(served + took_ns, std::memory_order_relaxed);
  }
  decided_ = false;
  if (gate_->HasWaiting()) return gate_->HandOver(this, more, /*wait=*/false);
  if (!more.any()) Drop();
}

template <typename Sync>
void BasicComputeGate<Sync>::Turn::Drop() {
  if (in_line_) {
    {
      const Lock lock(&gate_->locked_);
      if (linked_) {
        gate_->Unlink(this);
        gate_->word_.fetch_sub(kOneWaiting, std::memory_order_seq_cst);
        in_line_ = false;
        return;
      }
    }
    // Unlinked by a decision, which is about to store kGranted or kSentBack.
    for (typename Sync::Spin spin; Ask() == Answer::kWaits;) spin.Once();
  }
  if (!held_) return;
  if (decided_) gate_->share_.Ended(share_, priority_, 0);
  if (!gate_->TryGiveBack()) return gate_->HandOver(this, {}, /*wait=*/false);
  held_ = decided_ = false;
}

}  // namespace penstock

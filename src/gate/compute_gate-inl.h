// The implementation of ComputeGate, for compute_gate.cc and for tests that run it step by step.
#pragma once

#include <algorithm>
#include <tuple>

#include "base/status.h"
#include "gate/compute_gate.h"

namespace penstock::gate {

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

// What a decision knows of the turns of one class: the first by tags, and the first of those whose
// patience is over.
template <typename Sync>
class BasicComputeGate<Sync>::ClassLine {
 public:
  struct Candidate {
    Turn* turn = nullptr;
    int64_t start_ns = 0;
    int64_t deadline_ns = INT64_MAX;
    int64_t due_ns = INT64_MAX;  // of served_ns_: it has waited as long as it should
    bool Before(const Candidate& other) const {
      return other.turn == nullptr ||
             std::tuple(start_ns, deadline_ns) < std::tuple(other.start_ns, other.deadline_ns);
    }
  };

  void Add(const Candidate& one) {
    if (one.Before(first_)) first_ = one;
  }
  void AddImpatient(const Candidate& one) {
    if (one.Before(impatient_)) impatient_ = one;
  }
  Turn* first() const { return first_.turn; }
  int64_t virtual_ns() const { return first_.start_ns; }
  // Who is not patient goes first, but not before one that should have gone earlier, and only while
  // it is little ahead of its share.
  const Candidate& next() const {
    const bool ahead = impatient_.turn != nullptr && impatient_.due_ns < first_.due_ns &&
                       impatient_.start_ns - first_.start_ns <= kAheadNs;
    return ahead ? impatient_ : first_;
  }

 private:
  Candidate first_;
  Candidate impatient_;
};

template <typename Sync>
void BasicComputeGate<Sync>::Consider(Turn* turn, bool in_line, const GateDemand& has,
                                      Lines* lines) const {
  const int64_t served = served_ns_.load(std::memory_order_relaxed);
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    const bool bulk = priority == Priority::kBulk;
    if (!(bulk ? has.bulk : has.interactive)) continue;
    const size_t of = Index(priority);
    const GateClient& client = *turn->client_;
    // A client's tag moves on while another of its turns is in line.
    const int64_t least =
        in_line ? turn->tags_ns_[of] : virtual_ns_[of].load(std::memory_order_relaxed);
    const int64_t since = in_line ? turn->served_ns_ : served;
    typename ClassLine::Candidate one{turn, StartTag(client, of, least),
                                      client.EarliestDeadlineNs(priority),
                                      since + client.last_ns_[of].load(std::memory_order_relaxed)};
    (*lines)[of].Add(one);
    const int64_t patience = bulk || !in_line ? INT64_MAX : client.PatienceNs();
    if (served - since < patience) continue;
    one.due_ns = since + patience;
    (*lines)[of].AddImpatient(one);
  }
}

template <typename Sync>
auto BasicComputeGate<Sync>::Decide(Turn* self, const GateDemand& demand) -> Decision {
  Decision decision;
  Lines lines;
  bool bulk_pending = demand.bulk_pending;
  for (Turn* turn = first_; turn != nullptr;) {
    Turn* const next = turn->next_;
    const GateDemand has = turn->client_->Demand();
    if (has.any()) {
      bulk_pending |= has.bulk_pending;
      Consider(turn, /*in_line=*/true, has, &lines);
    } else {
      Unlink(turn);
      ++decision.unlinked;
      turn->next_ = decision.sent_back;
      decision.sent_back = turn;
    }
    turn = next;
  }
  Consider(self, /*in_line=*/false, demand, &lines);
  Turn* const bulk = lines[Index(Priority::kBulk)].first();
  const bool interactive = lines[Index(Priority::kInteractive)].first() != nullptr;
  BulkShare::Turn share;
  Priority priority = bulk == nullptr ? Priority::kInteractive : Priority::kBulk;
  if (bulk != nullptr && interactive) priority = share_.Choose(bulk->client_->bulk_rule(), &share);
  if (!interactive || !bulk_pending) share_.Forget();
  const ClassLine& line = lines[Index(priority)];
  decision.next = line.next().turn;
  if (decision.next == nullptr) return decision;
  decision.next->priority_ = priority;
  decision.next->share_ = share;
  decision.next->start_ns_ = line.next().start_ns;
  // Whoever goes, those that come now begin beside the one that had least.
  virtual_ns_[Index(priority)].store(line.virtual_ns(), std::memory_order_relaxed);
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
    std::atomic<int64_t>& finish = client_->finish_ns_[Index(priority_)];
    int64_t before = finish.load(std::memory_order_relaxed);
    // Turns of an engine that began at one tag count one behind the other.
    while (!finish.compare_exchange_weak(before, std::max(before, start_ns_) + took_ns,
                                         std::memory_order_relaxed)) {
    }
    client_->last_ns_[Index(priority_)].store(took_ns, std::memory_order_relaxed);
    gate_->served_ns_.fetch_add(took_ns, std::memory_order_relaxed);
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

}  // namespace penstock::gate

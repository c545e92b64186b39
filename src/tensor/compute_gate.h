// ComputeGate: turns at a processor, for all engines that run on it. One a Backend.
//
// A turn is taken before a batch is sealed or formed, so a batch grows while it waits, and covers
// one batch up to the end of its forward pass; answers are given without it. It is meant for one
// encoder batch, one decode step or one prefill chunk.
//
// Who is next
//   class     Interactive before bulk. Ageing over all engines: while both classes wait, bulk gets
//             one part of the processor's time in bulk_every + 1, counted in seconds
//             (bulk_share.h).
//   engine    Inside a class start-time fair queueing by measured seconds: each engine has a finish
//             tag, the start tag of its last turn plus what that took; a new start tag is the
//             larger of the finish tag and the class's virtual time (the start tag of the turn in
//             service). The smallest start tag goes first: engines that always have work get equal
//             time, one that was idle saves nothing up. Equal tags: the earliest deadline, then who
//             has waited longest.
// What an engine has to run is asked at each decision (GateClient::Demand), not noted when it comes
// to wait: work of either class that arrives meanwhile counts.
//
// An executor that has more to run keeps its turn over the answers of its last batch if the rule
// says that it goes next. Else the strict alternation of waiting and answering would give every
// second turn to another engine, whatever the class. So answers must not wait for other engines.
//
//   executor                                     leader (a submitting thread)
//   --------                                     ----------------------------
//   turn.Ask(): granted, or turn.Wait()          turn.TryTake(): never waits; false: leave the job
//   form and run a batch of turn.priority()        to an executor, so that it can share a batch
//   turn.End(seconds, what it could run next)    form, run, turn.End(seconds, nothing)
//   give the answers; again, or turn.Drop()
//
// Cost where nobody waits: Ask and End are one compare-and-swap each, one load each for a turn that
// is kept; no lock and no system call.
//
// The word: taken turns in the low half, waiting ones in the high half.
//
// Why nobody waits for ever
//   invariant   Outside the lock: if somebody waits, all turns are taken. A turn is taken or given
//               back without the lock only by a compare-and-swap of a word without waiters. Who
//               comes to wait counts itself in first, under the lock, and looks at the word it
//               changed: a turn given back before is seen there and taken at once; after, the
//               release sees the count and takes the lock, which it gets once the waiter is linked.
//   decision    Who gives a turn back while others wait hands it to one of them. Waiters that have
//               nothing to run (another replica took it) are sent back without a turn: they look
//               for work, or sleep, where they are notified of it. So as long as turns end each
//               waiter is granted one or sent back, and a turn is free only if nobody waits.
//   wake-up     The decision changes the waiter's own word from kWaiting or kAsleep before it
//               wakes; the waiter sleeps only if it could change kWaiting to kAsleep, and the futex
//               compares again. One of the two sees the other.
//   stopping    An engine that stops goes on until its jobs are answered, as any other; its waiters
//               are granted turns, or sent back at the next decision. No turn of an engine is
//               linked once its threads have ended (~Turn unlinks), so it may be destroyed while
//               others wait.
//   no circle   Under the lock only Demand and EarliestDeadlineNs are called, which load atomics.
//               A leader never waits, so a callback that submits under a kept turn cannot either.
// After the decision has changed a waiter's word the waiter may be gone; only its address is used.
//
// Checked by compute_gate_test.cc and, over seeded schedules of single steps with runners and
// leaders, batch/compute_gate_steps_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/event_count.h"
#include "common/request_context.h"
#include "tensor/bulk_share.h"

namespace penstock {

// What an engine could run now.
struct GateDemand {
  bool interactive = false;
  bool bulk = false;
  bool bulk_pending = false;  // there is bulk work, whether or not it may run now
  bool any() const { return interactive || bulk; }
};

// An engine at the gate. It outlives its turns.
class GateClient {
 public:
  virtual ~GateClient() = default;
  // Called under the gate's lock: loads atomics only, seq_cst.
  virtual GateDemand Demand() const = 0;
  // Of the jobs of a class that wait, on the steady clock; INT64_MAX: none has one. An estimate.
  virtual int64_t EarliestDeadlineNs(Priority) const { return INT64_MAX; }
  virtual BulkShare::Rule bulk_rule() const { return {}; }

 private:
  template <typename Sync>
  friend class BasicComputeGate;
  // Finish tags by class, in nanoseconds of turns. Written by who has a turn.
  std::array<std::atomic<int64_t>, kPriorities> finish_ns_{};
};

template <typename Sync>
class BasicComputeGate {
 public:
  class Turn;
  enum class Answer {
    kGranted,
    kWaits,   // ask again, or Wait
    kNoWork,  // the engine has nothing to run; the turn is not held
  };
  // How long interactive work counts as being about.
  static constexpr int64_t kInteractiveSeenNs = 1'000'000'000;

  // `turns`: how many may be held at once.
  explicit BasicComputeGate(uint32_t turns = 1) : turns_(turns) {}
  BasicComputeGate(const BasicComputeGate&) = delete;
  BasicComputeGate& operator=(const BasicComputeGate&) = delete;

  // Interactive work of any engine was seen at `now_ns`. Noted every 10 ms, as the line is shared
  // by all submitting threads.
  void SeeInteractive(int64_t now_ns) {
    constexpr int64_t kStepNs = 10'000'000;
    if (now_ns - interactive_ns_.load(std::memory_order_relaxed) >= kStepNs) {
      interactive_ns_.store(now_ns, std::memory_order_relaxed);
    }
  }
  bool InteractiveSeen(int64_t now_ns) const {
    return now_ns - interactive_ns_.load(std::memory_order_relaxed) <= kInteractiveSeenNs;
  }

  uint32_t taken() const { return word_.load(std::memory_order_seq_cst) & kTakenMask; }
  uint32_t waiting() const { return word_.load(std::memory_order_seq_cst) >> kWaitingShift; }

 private:
  template <typename T>
  using Atomic = typename Sync::template Atomic<T>;
  static constexpr int kWaitingShift = 16;
  static constexpr uint32_t kOneWaiting = uint32_t{1} << kWaitingShift;
  static constexpr uint32_t kTakenMask = kOneWaiting - 1;
  static constexpr size_t Index(Priority priority) { return static_cast<size_t>(priority); }

  class Lock {
   public:
    explicit Lock(Atomic<bool>* locked) : locked_(locked) {
      for (typename Sync::Spin spin; locked_->exchange(true, std::memory_order_acquire);) {
        spin.Once();
      }
    }
    ~Lock() { locked_->store(false, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Atomic<bool>* const locked_;
  };

  // What a decision came to.
  struct Decision {
    Turn* next = nullptr;       // granted, the turn that asked included; null: nobody has work
    Turn* sent_back = nullptr;  // a list
    uint32_t unlinked = 0;
  };

  bool TryTake();
  bool TryGiveBack();
  bool HasWaiting() const { return word_.load(std::memory_order_seq_cst) >= kOneWaiting; }
  int64_t StartTag(const GateClient& client, size_t of, int64_t at_least) const;
  // The class of `turn`'s next batch, where no other engine waits.
  void ChooseAlone(Turn* turn, const GateDemand& demand);
  Answer Enqueue(Turn* turn, const GateDemand& demand);
  // Gives `turn`'s turn to who is next: itself, if `demand` has work and the rule says so. With
  // `wait` it is linked where another is next.
  void HandOver(Turn* turn, const GateDemand& demand, bool wait);
  // Under the lock.
  void Link(Turn* turn);
  void Unlink(Turn* turn);
  Decision Decide(Turn* self, const GateDemand& demand);
  static void Answered(Turn* turn, uint32_t state);

  const uint32_t turns_;
  BulkShare share_;
  std::array<std::atomic<int64_t>, kPriorities> virtual_ns_{};  // by class
  alignas(64) Atomic<uint32_t> word_{0};
  Atomic<bool> locked_{false};
  Turn* first_ = nullptr;  // who waits, the longest first; under the lock
  Turn* last_ = nullptr;
  alignas(64) std::atomic<int64_t> interactive_ns_{INT64_MIN / 2};
};

// A turn of one executor or leader: taken, waited for, or neither. One thread.
template <typename Sync>
class BasicComputeGate<Sync>::Turn {
 public:
  Turn(BasicComputeGate* gate, GateClient* client) : gate_(gate), client_(client) {}
  ~Turn() { Drop(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // For a batch of what the engine has to run, of the class the gate chooses. kWaits: the turn is
  // in line, and will be granted or sent back.
  Answer Ask();
  // After kWaits: sleeps until that has happened.
  Answer Wait();
  // For a batch of this class, if nobody else has the turn or waits for it.
  bool TryTake(Priority priority);

  bool held() const { return held_; }
  Priority priority() const { return priority_; }

  // The forward pass is over and took so long; 0: there was none. `more`: what this thread could
  // run next; with any the turn may stay its own, and Ask says whether it did.
  void End(int64_t took_ns, const GateDemand& more);
  // Gives the turn back, or the place in line.
  void Drop();

 private:
  friend class BasicComputeGate;
  enum State : uint32_t { kIdle, kWaiting, kAsleep, kGranted, kSentBack };

  BasicComputeGate* const gate_;
  GateClient* const client_;
  bool held_ = false;
  bool decided_ = false;  // held, and the class is selected
  bool in_line_ = false;  // Ask has said kWaits and nothing else since
  // Written under the gate's lock before `state_` says kGranted, else by the thread itself.
  Priority priority_ = Priority::kInteractive;
  BulkShare::Turn share_;
  int64_t start_ns_ = 0;
  // Of a turn in line, under the lock.
  std::array<int64_t, kPriorities> tags_ns_{};
  Turn* next_ = nullptr;
  Turn* before_ = nullptr;
  bool linked_ = false;
  Atomic<uint32_t> state_{kIdle};
};

using ComputeGate = BasicComputeGate<SystemSync>;

}  // namespace penstock

// ComputeGate: grants turns at a processor to all engines that run on it. One per Backend.
//
// A turn is taken before a batch is sealed or formed, so a batch grows while it waits, and covers
// one batch up to the end of its forward pass; results are delivered without it. A turn is one
// encoder batch, one prefill chunk, or a decode step with those started ahead of it.
//
// Order of turns
//   class     Interactive before bulk. Ageing over all engines: while both classes wait, bulk gets
//             one part of the processor's time in bulk_every + 1, counted in seconds
//             (bulk_share.h).
//   engine    Inside a class start-time fair queueing by measured seconds: each engine has a finish
//             tag, the start tag of its last turn plus the time that took, and the time of any
//             other turn that it held beside that one; a new start tag is the
//             larger of the finish tag and the class's virtual time (at the last decision, the
//             least start tag in line). The smallest start tag goes first: engines that always
//             have work get equal time; an idle engine saves nothing up. Equal tags: the earliest
//             deadline, then the longest wait.
//   pace      An engine that generates text goes before the tags' order once others had as long as
//             its last step (PatienceNs). Not before the first by tags, if that one has been due
//             for longer: others had as long as its own last turn. And only while its start tag is
//             at most kAheadNs above the least in line, so however many engines generate text, each
//             engine keeps its share to within kAheadNs and a turn, and who has the least tag waits
//             for its own last turn's time and then for one turn of each other engine at most.
// Each decision asks an engine what it has to run (GateClient::Demand); nothing is noted when it
// begins to wait, so work of either class that arrives meanwhile counts.
//
// An executor that has more to run keeps its turn while it delivers the results of its last batch,
// if the rule makes it the next one. Otherwise waiting and delivering would alternate, and every
// second turn would go to another engine, whatever the class. So delivery must not wait for other
// engines.
//
//   executor                                     leader (a submitting thread)
//   --------                                     ----------------------------
//   turn.Ask(): granted, or turn.Wait()          turn.TryTake(): never waits; false: leave the job
//   form and run a batch of turn.priority()        to an executor, so that it can share a batch
//   turn.End(seconds, work it could run next)    form, run, turn.End(seconds, nothing)
//   deliver results; again, or turn.Drop()
//
// Cost without waiters: Ask and End are one compare-and-swap each, one load each for a turn that is
// kept, and End adds to two counters; no lock and no system call.
//
// The word: taken turns in the low half, waiting ones in the high half.
//
// Why no waiter waits for ever
//   invariant   Outside the lock: if there are waiters, all turns are taken. A turn is taken or
//               given back without the lock only by a compare-and-swap of a word without waiters. A
//               new waiter first counts itself in, under the lock, and looks at the word it
//               changed: it sees a turn given back before and takes it at once; a later release
//               sees the count and takes the lock, which it gets once the waiter is linked.
//   decision    A turn given back while others wait is handed to one of them. Waiters that have
//               nothing to run (another replica took the work) are sent back without a turn: they
//               look for work, or sleep where they are notified of it. So as long as turns end,
//               each waiter is granted one or sent back, and a turn is free only without waiters.
//   wake-up     The decision changes the waiter's own word from kWaiting or kAsleep before it
//               wakes; the waiter sleeps only if it could change kWaiting to kAsleep, and the futex
//               compares again. One of the two sees the other.
//   stopping    An engine that stops goes on until its jobs are answered, as any other; its waiters
//               are granted turns, or sent back at the next decision. No turn of an engine is
//               linked once its threads have ended (~Turn unlinks), so it may be destroyed while
//               others wait.
//   no cycle    Under the lock only Demand and EarliestDeadlineNs are called, which load atomics.
//               A leader never waits, so a callback that submits under a kept turn cannot either.
// After the decision has changed a waiter's word the waiter may be destroyed; only its address is
// used.
//
// Checked by compute_gate_test.cc and, over seeded schedules of single steps with runners and
// leaders, batch/compute_gate_steps_test.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gate/bulk_share.h"
#include "threads/event_count.h"
#include "threads/request_context.h"

namespace penstock::gate {

// The work that an engine could run now.
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
  // The earliest deadline of a class's waiting jobs, on the steady clock; INT64_MAX: none. An
  // estimate.
  virtual int64_t EarliestDeadlineNs(Priority) const { return INT64_MAX; }
  virtual BulkShare::Rule bulk_rule() const { return {}; }
  // How much time others may have while a turn of interactive work is in line, before it goes first
  // of its class, if it is little ahead of its share (kAheadNs): of text whose reader waits for the
  // next token. An atomic load.
  virtual int64_t PatienceNs() const { return INT64_MAX; }

 private:
  template <typename Sync>
  friend class BasicComputeGate;
  // Finish tags by class, in nanoseconds of turns. Written by holders of turns.
  std::array<std::atomic<int64_t>, kPriorities> finish_ns_{};
  std::array<std::atomic<int64_t>, kPriorities> last_ns_{};  // of the last turn alone
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
  // Interactive work counts as present for this long after it was seen.
  static constexpr int64_t kInteractiveSeenNs = 1'000'000'000;
  // How far ahead of its share text may be for its pace: some steps of a model of any size.
  static constexpr int64_t kAheadNs = 200'000'000;

  // `turns`: how many may be held at once.
  explicit BasicComputeGate(uint32_t turns = 1) : turns_(turns) {}
  BasicComputeGate(const BasicComputeGate&) = delete;
  BasicComputeGate& operator=(const BasicComputeGate&) = delete;

  // Interactive work of any engine was seen at `now_ns`. Stored every 10 ms at most: all submitting
  // threads share the cache line.
  void SeeInteractive(int64_t now_ns) { See(&interactive_ns_, now_ns); }
  bool InteractiveSeen(int64_t now_ns) const { return Seen(interactive_ns_, now_ns); }
  // The same of interactive text whose next token waits for the turns of others.
  void SeeStream(int64_t now_ns) { See(&stream_ns_, now_ns); }
  bool StreamSeen(int64_t now_ns) const { return Seen(stream_ns_, now_ns); }
  // The same of a load, which waits for the turns of others many times.
  void SeeLoad(int64_t now_ns) { See(&load_ns_, now_ns); }
  // Bulk batches are to be short now, for others wait for them.
  bool ShortBulk(int64_t now_ns) const {
    return Seen(interactive_ns_, now_ns) || Seen(load_ns_, now_ns);
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

  // The result of a decision.
  struct Decision {
    Turn* next = nullptr;       // granted, maybe the turn that asked; null: no engine has work
    Turn* sent_back = nullptr;  // a list
    uint32_t unlinked = 0;
  };

  class ClassLine;
  using Lines = std::array<ClassLine, kPriorities>;

  static void See(std::atomic<int64_t>* last_ns, int64_t now_ns) {
    constexpr int64_t kStepNs = 10'000'000;
    if (now_ns - last_ns->load(std::memory_order_relaxed) >= kStepNs) {
      last_ns->store(now_ns, std::memory_order_relaxed);
    }
  }
  static bool Seen(const std::atomic<int64_t>& last_ns, int64_t now_ns) {
    return now_ns - last_ns.load(std::memory_order_relaxed) <= kInteractiveSeenNs;
  }

  bool TryTake();
  bool TryGiveBack();
  bool HasWaiting() const { return word_.load(std::memory_order_seq_cst) >= kOneWaiting; }
  int64_t StartTag(const GateClient& client, size_t of, int64_t at_least) const;
  // The class of `turn`'s next batch, where no other engine waits.
  void ChooseAlone(Turn* turn, const GateDemand& demand);
  Answer Enqueue(Turn* turn, const GateDemand& demand);
  // Hands `turn`'s turn to the next in order: to itself, if `demand` has work and the order says
  // so. With `wait`, `turn` joins the line if another is next.
  void HandOver(Turn* turn, const GateDemand& demand, bool wait);
  // Under the lock.
  void Link(Turn* turn);
  void Unlink(Turn* turn);
  Decision Decide(Turn* self, const GateDemand& demand);
  // One that is not in line has just had its turn.
  void Consider(Turn* turn, bool in_line, const GateDemand& has, Lines* lines) const;
  static void Answered(Turn* turn, uint32_t state);

  const uint32_t turns_;
  BulkShare share_;
  std::array<std::atomic<int64_t>, kPriorities> virtual_ns_{};  // by class
  std::atomic<int64_t> served_ns_{0};                           // of all turns that ended
  alignas(64) Atomic<uint32_t> word_{0};
  Atomic<bool> locked_{false};
  Turn* first_ = nullptr;  // the line, the longest waiter first; under the lock
  Turn* last_ = nullptr;
  alignas(64) std::atomic<int64_t> interactive_ns_{INT64_MIN / 2};
  std::atomic<int64_t> stream_ns_{INT64_MIN / 2};
  std::atomic<int64_t> load_ns_{INT64_MIN / 2};
};

// A turn of one executor or leader: taken, waited for, or neither. One thread.
template <typename Sync>
class BasicComputeGate<Sync>::Turn {
 public:
  Turn(BasicComputeGate* gate, GateClient* client) : gate_(gate), client_(client) {}
  ~Turn() { Drop(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Asks for a turn to run one batch, whose class the gate chooses. kWaits: the turn is in line,
  // and will be granted or sent back.
  Answer Ask();
  // After kWaits: sleeps until the turn is granted or sent back.
  Answer Wait();
  // Takes a turn for a batch of this class, if one is free and no turn is in line.
  bool TryTake(Priority priority);

  bool held() const { return held_; }
  Priority priority() const { return priority_; }

  // The forward pass is over. took_ns: its time; 0: none was run. `more`: what this thread could
  // run next; with any it may keep the turn, as the next Ask tells.
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
  bool in_line_ = false;  // Ask's last answer was kWaits
  // Written under the gate's lock before `state_` says kGranted, else by the thread itself.
  Priority priority_ = Priority::kInteractive;
  BulkShare::Turn share_;
  int64_t start_ns_ = 0;
  // Of a turn in line, under the lock.
  std::array<int64_t, kPriorities> tags_ns_{};
  int64_t served_ns_ = 0;  // the gate's, when it was linked
  Turn* next_ = nullptr;
  Turn* before_ = nullptr;
  bool linked_ = false;
  Atomic<uint32_t> state_{kIdle};
};

using ComputeGate = BasicComputeGate<SystemSync>;

}  // namespace penstock::gate

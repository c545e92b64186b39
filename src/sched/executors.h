// Executors: the threads that run a model's batches, its runners, and its turns at the processor.
//
//   executor, one a runner   sleeps until there is work, takes a runner and a turn, has a batch run
//   leader                   a submitting thread that finds a runner and the processor free: it
//                            runs its own job at once
//   Step                     an executor's work on the caller's thread; for tests and simulations
//
// The scheduler decides what a batch holds: BatchSource. A thread that runs batches holds a runner
// (batch/runner_set.h) and a turn of the gate (gate/compute_gate.h). A runner is taken first, so
// with one runner no job is led while the executor waits for its turn: new jobs gather in the
// batch. With several runners bulk never has the last one.
//
// Why no work is left behind (the Dekker arguments)
//   executor sleeps   Between PrepareWait and Wait on work_ready it asks HasWork; a producer
//                     publishes (seq_cst) before it notifies. One sees the other.
//   waits at the gate Work that arrives meanwhile is seen by the gate, which asks HasWork at each
//                     decision and sends those back that have none; they come to the line above.
//   leader leaves     An executor that finds work but no runner sleeps on runner_free, having
//                     looked at the set after PrepareWait; the leader gives the runner back
//                     (seq_cst) before it notifies. No other thread need be told: a producer that
//                     published while the leader ran has notified an executor. When two
//                     releases are close together the second may wake none (event_count.h), so a
//                     thread that gets a runner and sees another free wakes the next waiter. A
//                     leader of a bulk job also looks for work once it counts as bulk no more:
//                     executors may not have been allowed it. (tests/spin/batch_ring.pml,
//                     RUNNER_FREE.)
//   Stop              See admission.h; BatchSource::AllAnswered is its count.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "batch/runner_set.h"
#include "gate/compute_gate.h"
#include "sched/scheduler_metrics.h"
#include "threads/event_count.h"
#include "threads/request_context.h"

namespace penstock::sched {

class BatchTurn;

// The work of executors: the queues of a scheduler and its model.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // seq_cst loads only.
  virtual bool HasWork(Priority priority) const = 0;
  virtual int64_t EarliestDeadlineNs(Priority priority) const = 0;
  virtual bool AllAnswered() const = 0;
  virtual bool stopping() const = 0;
  // Whether enough work waits for a batch, so that it need not linger.
  virtual bool EnoughWaits() const = 0;
  // Forms a batch of the class and runs it with this runner; tells `turn` between the forward pass
  // and the answers.
  virtual void RunBatch(Priority priority, size_t runner, BatchTurn* turn) = 0;
  virtual void PlaceExecutor(size_t runner) = 0;
  virtual void ReleaseMemory() = 0;
};

struct ExecutorsOptions {
  size_t runners = 1;
  gate::ComputeGate* gate = nullptr;  // outlives the executors; null: one of their own
  gate::BulkShare::Rule bulk_rule;
  int32_t linger_us = 0;
  double idle_release_s = 0;
  bool manual = false;
  std::function<Clock::time_point()> now;  // null: the steady clock
};

class Executors : private gate::GateClient {
 public:
  // All pointers outlive this.
  Executors(const ExecutorsOptions& options, BatchSource* source, const QueueMetrics* metrics,
            EventCount* work_ready);
  ~Executors() override;  // joined
  Executors(const Executors&) = delete;
  Executors& operator=(const Executors&) = delete;

  // Starts the threads; in manual mode there are none. Throws what std::thread does, with no thread
  // left behind once Join was called.
  void Start();
  // Waits until all threads have ended; after stopping() they end once all is answered.
  void Join();

  // Runs one batch on this thread; manual mode only. False: there is nothing to do, or it is
  // another engine's turn.
  bool Step();
  // Leads: run(runner, BatchTurn*) on this thread, if a runner and the processor are free. False:
  // they are not, and nothing happened.
  template <typename Run>
  bool TryLead(Priority priority, Run run) {
    const bool led = TryLeadOnce(priority, run);
    // Executors may have seen bulk work that they could not begin.
    if (priority == Priority::kBulk && options_.runners > 1 && HasWork()) work_ready_->NotifyOne();
    return led;
  }

  // Called after each batch.
  void RanAt(Clock::time_point done);
  // Wakes another executor if there is more it may begin.
  void PassOn() {
    if (options_.runners > 1 && HasWork()) work_ready_->NotifyOne();
  }
  Clock::time_point Now() const { return options_.now ? options_.now() : Clock::now(); }
  gate::ComputeGate& gate() { return *gate_; }
  const gate::ComputeGate& gate() const { return *gate_; }

 private:
  friend class BatchTurn;
  using Turn = gate::ComputeGate::Turn;
  // Holds a runner, if one was free.
  class RunnerHold {
   public:
    explicit RunnerHold(Executors* executors);
    ~RunnerHold();
    RunnerHold(const RunnerHold&) = delete;
    RunnerHold& operator=(const RunnerHold&) = delete;
    bool held() const { return runner_ >= 0; }
    size_t runner() const { return static_cast<size_t>(runner_); }
    void Release();  // does nothing if none is held

   private:
    Executors* const executors_;
    int runner_;
  };
  // The right to run a batch of a class. With several runners bulk never has the last one.
  class Permit {
   public:
    Permit(Executors* executors, Priority priority);
    ~Permit();
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    bool held() const { return held_; }
    bool counted() const { return counted_; }

   private:
    Executors* const executors_;
    bool counted_ = false;  // in bulk_running_
    bool held_ = true;
  };
  gate::GateDemand Demand() const override;
  int64_t EarliestDeadlineNs(Priority priority) const override {
    return source_->EarliestDeadlineNs(priority);
  }
  gate::BulkShare::Rule bulk_rule() const override { return options_.bulk_rule; }

  template <typename Run>
  bool TryLeadOnce(Priority priority, Run run);
  // Waits for a turn; false: there is nothing to run, or (manual) it is another engine's turn.
  // *now becomes the time of the grant.
  bool TakeTurn(Turn* turn, Clock::time_point* now);
  // Work that a thread could run next, given whether it counts as running bulk.
  gate::GateDemand DemandBeside(bool counted_as_bulk) const;
  bool RunOnce(size_t runner, Turn* turn);
  bool HasWork() const;
  bool BulkMayRun() const;
  bool Lingers(Clock::time_point now);
  void ExecutorMain(size_t index);
  // Sleeps until there may be work and a runner; false: stopped, and nothing is left.
  bool AwaitWork(size_t index);
  void WaitForRunner();
  int64_t SleepNs(size_t index) const;
  void ReleaseIfIdle();

  const ExecutorsOptions options_;
  BatchSource* const source_;
  const QueueMetrics* const metrics_;
  gate::ComputeGate own_gate_;  // as many turns as runners
  gate::ComputeGate* const gate_;
  EventCount* const work_ready_;  // executors without work
  EventCount runner_free_;        // executors with work and without a runner
  batch::RunnerSet free_runners_;
  std::atomic<uint32_t> bulk_running_{0};
  std::atomic<int64_t> linger_from_ns_{0};  // when work was first seen; 0: none
  std::atomic<int64_t> last_run_ns_{0};
  std::atomic<bool> released_{false};  // memory was released and nothing ran since
  Turn manual_turn_;
  Clock::time_point asked_;  // manual mode: when the turn that is in line was asked for
  std::vector<std::thread> threads_;
};

// The granted turn of one batch: ends with its forward pass, or when this is destroyed.
//
// A batch in parts may pause: the turn ends, and one of the same class is taken at the gate's order
// for the parts that follow, in the name of this batch alone, for its engine's queues may be empty.
class BatchTurn {
 public:
  ~BatchTurn() {
    if (!ended_) End(std::chrono::nanoseconds(0));
  }
  BatchTurn(const BatchTurn&) = delete;
  BatchTurn& operator=(const BatchTurn&) = delete;

  // So much of the work was a device's, which computes other batches while this one waits. The turn
  // took that, and not the time since it began.
  void AddDeviceTime(double seconds) {
    device_time_ += std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  }
  // Ends the turn and returns the time; once.
  Clock::time_point ForwardDone();
  // Lets other engines have the processor (not in manual mode). Returns when it is the batch's turn
  // again; true: others had one.
  bool Pause();
  // Whether a submitting thread runs its own job; then it may give the runner back before the
  // answers, once it needs nothing of it any more. After ForwardDone.
  bool leads() const { return leaders_hold_ != nullptr; }
  void ReleaseRunner() { leaders_hold_->Release(); }

 private:
  friend class Executors;
  // `permit`: null for a leader, which runs nothing else. `leaders_hold`: null for an executor.
  BatchTurn(const Executors* executors, gate::ComputeGate::Turn* turn,
            const Executors::Permit* permit, Executors::RunnerHold* leaders_hold,
            Clock::time_point began)
      : executors_(executors),
        turn_(turn),
        permit_(permit),
        leaders_hold_(leaders_hold),
        began_(began),
        rest_(turn->priority()) {}
  // What is left of a batch, as the gate sees it.
  struct Rest final : gate::GateClient {
    explicit Rest(Priority of) : priority(of) {}
    gate::GateDemand Demand() const override {
      const bool bulk = priority == Priority::kBulk;
      return {.interactive = !bulk, .bulk = bulk, .bulk_pending = bulk};
    }
    const Priority priority;
  };
  // What the turn took by that time.
  std::chrono::nanoseconds Took(Clock::time_point now) const;
  // The turn that is held.
  void End(std::chrono::nanoseconds took);
  gate::GateDemand More() const {
    return permit_ == nullptr ? gate::GateDemand{} : executors_->DemandBeside(permit_->counted());
  }

  const Executors* const executors_;
  gate::ComputeGate::Turn* const turn_;
  const Executors::Permit* const permit_;
  Executors::RunnerHold* const leaders_hold_;
  Clock::time_point began_;
  std::chrono::nanoseconds device_time_{0};  // since then
  Rest rest_;
  std::optional<gate::ComputeGate::Turn> paused_turn_;  // since the first pause
  bool ended_ = false;
};

template <typename Run>
bool Executors::TryLeadOnce(Priority priority, Run run) {
  const Permit permit(this, priority);
  if (!permit.held()) return false;
  RunnerHold hold(this);
  if (!hold.held()) return false;
  Turn turn(gate_, this);
  if (!turn.TryTake(priority)) return false;
  metrics_->classes[static_cast<size_t>(priority)].gate_wait->Observe(0);
  BatchTurn batch_turn(this, &turn, nullptr, &hold, Now());
  run(hold.runner(), &batch_turn);
  return true;
}

}  // namespace penstock::sched

// Property test over seeded schedules (step_sync.h) of the gate and its users in sched/executors.h:
// executors that sleep without work or without a runner, leaders, replicas, several engines. In any
// schedule one batch is run at a time, every job is run exactly once and no thread sleeps for ever.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "batch/runner_set.h"
#include "batch/step_sync.h"
#include "gate/compute_gate-inl.h"

namespace penstock::batch {
namespace {

using Gate = gate::BasicComputeGate<StepSync>;
using Events = BasicEventCount<StepSync>;
using Runners = BasicRunnerSet<StepSync>;

// One engine: jobs by class, executors and leaders.
struct Engine final : gate::GateClient {
  explicit Engine(uint32_t runners) : free_runners(runners) {}
  gate::GateDemand Demand() const override {
    gate::GateDemand demand;
    demand.interactive = jobs[0].load(std::memory_order_seq_cst) > 0;
    demand.bulk = demand.bulk_pending = jobs[1].load(std::memory_order_seq_cst) > 0;
    return demand;
  }
  bool HasWork() const { return Demand().any(); }

  std::array<StepSync::Atomic<uint32_t>, kPriorities> jobs;
  StepSync::Atomic<uint32_t> open{0};  // not run
  Events work_ready, runner_free;
  Runners free_runners;
};

class World {
 public:
  explicit World(uint64_t seed)
      : seed_(seed),
        random_(seed),
        turns_(Below(4) == 0 ? 2 : 1),
        gate_(turns_),
        scheduler_(seed * 977 + 5) {
    const uint32_t engines = 1 + Below(3);
    for (uint32_t i = 0; i < engines; ++i) {
      runners_.push_back(1 + Below(2));
      engines_.push_back(std::make_unique<Engine>(runners_.back()));
    }
  }

  void Run() {
    for (size_t i = 0; i < engines_.size(); ++i) {
      Engine* const engine = engines_[i].get();
      for (uint32_t r = 0; r < runners_[i]; ++r) {
        scheduler_.Spawn([this, engine] { Execute(engine); });
      }
      // Two that may lead, and one that may not.
      const uint32_t pieces = 1 + Below(4);
      total_ += 3 * pieces;
      engine->open.fetch_add(3 * pieces, std::memory_order_seq_cst);
      for (int producer = 0; producer < 3; ++producer) {
        scheduler_.Spawn([this, engine, pieces, producer] {
          for (uint32_t p = 0; p < pieces; ++p) Submit(engine, producer < 2);
        });
      }
    }
    const StepScheduler::End end = scheduler_.Run(400'000);
    ASSERT_NE(end, StepScheduler::End::kAllAsleep) << "all asleep; seed " << seed_;
    ASSERT_EQ(end, StepScheduler::End::kDone) << "no end; seed " << seed_;
    ASSERT_EQ(run_, total_) << seed_;
    ASSERT_EQ(gate_.taken(), 0u) << seed_;
    ASSERT_EQ(gate_.waiting(), 0u) << seed_;
  }

 private:
  uint32_t Below(uint64_t n) { return static_cast<uint32_t>(random_() % n); }

  // With the turn: the batch, and its end.
  void RunJobs(uint32_t jobs) {
    ++inside_;
    ASSERT_LE(inside_, turns_) << "two at a time; seed " << seed_;
    for (uint32_t i = 0; i < 1 + Below(4); ++i) StepSync::Step();
    --inside_;
    run_ += jobs;
  }
  // After the turn: the answers.
  void Answer(Engine* engine, uint32_t jobs) {
    if (engine->open.fetch_sub(jobs, std::memory_order_seq_cst) == jobs) {
      engine->work_ready.NotifyAll();  // it stops
    }
  }

  void Submit(Engine* engine, bool may_lead) {
    const size_t of = Below(2);
    if (may_lead && TryLead(engine, static_cast<Priority>(of))) return;
    engine->jobs[of].fetch_add(1, std::memory_order_seq_cst);
    engine->work_ready.NotifyOne();
  }

  int TakeRunner(Engine* engine) {
    const int runner = engine->free_runners.TryAcquire();
    if (runner >= 0 && engine->runner_free.HasWaiters() && engine->free_runners.AnyFree()) {
      engine->runner_free.NotifyOne();
    }
    return runner;
  }
  void GiveRunner(Engine* engine, int runner) {
    engine->free_runners.Release(runner);
    engine->runner_free.NotifyOne();
  }

  bool TryLead(Engine* engine, Priority priority) {
    const int runner = TakeRunner(engine);
    if (runner < 0) return false;
    bool led = false;
    {
      Gate::Turn turn(&gate_, engine);
      led = turn.TryTake(priority);
      if (led) {
        RunJobs(1);
        turn.End(100, {});
        Answer(engine, 1);
      }
    }
    GiveRunner(engine, runner);
    return led;
  }

  // As Executors::ExecutorMain.
  void Execute(Engine* engine) {
    while (AwaitWork(engine)) {
      const int runner = TakeRunner(engine);
      if (runner < 0) continue;
      {
        Gate::Turn turn(&gate_, engine);
        while (RunOnce(engine, &turn)) {
        }
      }
      GiveRunner(engine, runner);
    }
  }
  bool RunOnce(Engine* engine, Gate::Turn* turn) {
    Gate::Answer answer = turn->Ask();
    if (answer == Gate::Answer::kWaits) answer = turn->Wait();
    if (answer != Gate::Answer::kGranted) return false;
    const uint32_t jobs =
        engine->jobs[static_cast<size_t>(turn->priority())].exchange(0, std::memory_order_seq_cst);
    if (engine->HasWork()) engine->work_ready.NotifyOne();
    if (jobs > 0) RunJobs(jobs);
    turn->End(jobs > 0 ? 100 * jobs : 0, engine->Demand());
    if (jobs > 0) Answer(engine, jobs);
    return true;
  }
  bool AwaitWork(Engine* engine) {
    while (true) {
      const auto key = engine->work_ready.PrepareWait();
      if (engine->open.load(std::memory_order_seq_cst) == 0) {
        engine->work_ready.CancelWait();
        return false;
      }
      if (engine->HasWork()) {
        engine->work_ready.CancelWait();
        if (engine->free_runners.AnyFree()) return true;
        const auto free_key = engine->runner_free.PrepareWait();
        if (engine->free_runners.AnyFree()) {
          engine->runner_free.CancelWait();
        } else {
          engine->runner_free.Wait(free_key);
        }
        return true;
      }
      engine->work_ready.Wait(key);
    }
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  const uint32_t turns_;
  Gate gate_;
  StepScheduler scheduler_;
  std::vector<uint32_t> runners_;
  std::vector<std::unique_ptr<Engine>> engines_;
  uint32_t inside_ = 0;
  uint32_t total_ = 0;
  uint32_t run_ = 0;
};

TEST(ComputeGateSteps, EveryJobOnceOnEverySchedule) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "fibers of one thread: nothing for the thread sanitizer";
#endif
  for (uint64_t seed = 1; seed <= 6'000; ++seed) {
    World world(seed);
    world.Run();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::batch

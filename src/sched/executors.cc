#include "sched/executors.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "log/exception_status.h"
#include "log/log.h"
#include "sched/clock_math.h"

namespace penstock::sched {

Executors::Executors(const ExecutorsOptions& options, BatchSource* source,
                     const QueueMetrics* metrics, EventCount* work_ready)
    : options_(options),
      source_(source),
      metrics_(metrics),
      own_gate_(static_cast<uint32_t>(options.runners)),
      gate_(options.gate != nullptr ? options.gate : &own_gate_),
      work_ready_(work_ready),
      free_runners_(static_cast<uint32_t>(options.runners)),
      manual_turn_(gate_, this) {}

Executors::~Executors() = default;

void Executors::Start() {
  if (options_.manual) return;
  threads_.reserve(options_.runners);
  for (size_t i = 0; i < options_.runners; ++i) {
    threads_.emplace_back([this, i] { ExecutorMain(i); });
  }
}

void Executors::Join() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

// --- Runners, permits, turns ------------------------------------------------------------------

Executors::RunnerHold::RunnerHold(Executors* executors)
    : executors_(executors), runner_(executors->free_runners_.TryAcquire()) {
  // Among several releases at once only the first wakes a waiter (event_count.h): the woken thread,
  // or a faster one, wakes the next while a runner is free.
  if (held() && executors_->runner_free_.HasWaiters() && executors_->free_runners_.AnyFree()) {
    executors_->runner_free_.NotifyOne();
  }
}

Executors::RunnerHold::~RunnerHold() { Release(); }

void Executors::RunnerHold::Release() {
  if (!held()) return;
  executors_->free_runners_.Release(runner_);
  executors_->runner_free_.NotifyOne();
  runner_ = -1;
}

Executors::Permit::Permit(Executors* executors, Priority priority) : executors_(executors) {
  const size_t runners = executors->options_.runners;
  if (priority != Priority::kBulk || runners == 1) return;
  std::atomic<uint32_t>& bulk_running = executors_->bulk_running_;
  uint32_t running = bulk_running.load(std::memory_order_seq_cst);
  do {
    held_ = running + 1 < runners;
  } while (held_ &&
           !bulk_running.compare_exchange_weak(running, running + 1, std::memory_order_seq_cst));
  counted_ = held_;
}

Executors::Permit::~Permit() {
  if (counted_) executors_->bulk_running_.fetch_sub(1, std::memory_order_seq_cst);
}

bool Executors::BulkMayRun() const {
  return options_.runners == 1 ||
         bulk_running_.load(std::memory_order_seq_cst) + 1 < options_.runners;
}

// Work that an executor may begin now.
bool Executors::HasWork() const {
  return source_->HasWork(Priority::kInteractive) ||
         (BulkMayRun() && source_->HasWork(Priority::kBulk));
}

gate::GateDemand Executors::DemandBeside(bool counted_as_bulk) const {
  gate::GateDemand demand;
  demand.interactive = source_->HasWork(Priority::kInteractive);
  demand.bulk_pending = source_->HasWork(Priority::kBulk);
  demand.bulk = demand.bulk_pending && (counted_as_bulk || BulkMayRun());
  return demand;
}

gate::GateDemand Executors::Demand() const { return DemandBeside(false); }

Clock::time_point BatchTurn::ForwardDone() {
  ended_ = true;
  const Clock::time_point now = executors_->Now();
  End(Took(now));
  return now;
}

std::chrono::nanoseconds BatchTurn::Took(Clock::time_point now) const {
  if (device_time_.count() > 0) return device_time_;
  return std::max(now - began_, Clock::duration(1));
}

void BatchTurn::End(std::chrono::nanoseconds took) {
  if (took.count() > 0) {
    executors_->metrics_->classes[static_cast<size_t>(rest_.priority)].gate_turn->Observe(
        Seconds(took));
  }
  if (!paused_turn_) return turn_->End(took.count(), More());
  paused_turn_->End(took.count(), {});
  paused_turn_->Drop();
}

bool BatchTurn::Pause() {
  if (executors_->options_.manual || executors_->gate_->waiting() == 0) return false;
  const Clock::time_point left = executors_->Now();
  const std::chrono::nanoseconds took = Took(left);
  if (paused_turn_) {
    End(took);
  } else {
    // Nothing else of this thread can run before the batch is done.
    executors_->metrics_->classes[static_cast<size_t>(rest_.priority)].gate_turn->Observe(
        Seconds(took));
    turn_->End(took.count(), {});
    turn_->Drop();
    paused_turn_.emplace(executors_->gate_, &rest_);
  }
  gate::ComputeGate::Answer answer = paused_turn_->Ask();
  while (answer != gate::ComputeGate::Answer::kGranted) {
    answer =
        answer == gate::ComputeGate::Answer::kWaits ? paused_turn_->Wait() : paused_turn_->Ask();
  }
  began_ = executors_->Now();
  device_time_ = {};
  executors_->metrics_->classes[static_cast<size_t>(rest_.priority)].gate_wait->Observe(
      Seconds(began_ - left));
  return true;
}

bool Executors::TakeTurn(Turn* turn, Clock::time_point* now) {
  const Clock::time_point asked = *now;
  gate::ComputeGate::Answer answer = turn->Ask();
  Clock::duration waited{};
  if (answer == gate::ComputeGate::Answer::kWaits && options_.manual) {
    if (asked_ == Clock::time_point()) asked_ = asked;
    return false;
  }
  if (answer == gate::ComputeGate::Answer::kWaits) {
    answer = turn->Wait();
    *now = Now();
    waited = *now - asked;
  } else if (asked_ != Clock::time_point()) {
    waited = asked - asked_;
    asked_ = {};
  }
  if (answer != gate::ComputeGate::Answer::kGranted) return false;
  metrics_->classes[static_cast<size_t>(turn->priority())].gate_wait->Observe(Seconds(waited));
  return true;
}

// --- When to run ------------------------------------------------------------------------------

bool Executors::RunOnce(size_t runner, Turn* turn) {
  Clock::time_point began = Now();
  if (options_.linger_us > 0 && HasWork() && Lingers(began)) {
    turn->Drop();
    return false;
  }
  if (!TakeTurn(turn, &began)) return false;
  if (linger_from_ns_.load(std::memory_order_relaxed) != 0) {
    linger_from_ns_.store(0, std::memory_order_relaxed);
  }
  const Priority priority = turn->priority();
  if (priority == Priority::kInteractive) gate_->SeeInteractive(Nanoseconds(began));
  const Permit permit(this, priority);
  BatchTurn batch_turn(this, turn, &permit, nullptr, began);
  if (permit.held()) source_->RunBatch(priority, runner, &batch_turn);
  return permit.held();
}

bool Executors::Step() {
  PENSTOCK_CHECK(options_.manual);
  const RunnerHold hold(this);
  return hold.held() && RunOnce(hold.runner(), &manual_turn_);
}

bool Executors::Lingers(Clock::time_point now) {
  if (options_.linger_us == 0 || source_->stopping() || source_->EnoughWaits()) return false;
  int64_t from = 0;
  const int64_t now_ns = Nanoseconds(now);
  if (linger_from_ns_.compare_exchange_strong(from, now_ns)) from = now_ns;
  return now_ns < from + int64_t{options_.linger_us} * 1000;
}

void Executors::ExecutorMain(size_t index) {
  pthread_setname_np(pthread_self(), ("executor-" + std::to_string(index)).c_str());
  source_->PlaceExecutor(index);
  while (AwaitWork(index)) {
    try {
      const RunnerHold hold(this);
      if (!hold.held()) continue;
      Turn turn(gate_, this);
      while (RunOnce(hold.runner(), &turn)) {
      }
    } catch (...) {  // exceptions are caught nearer to their job
      LogException("an executor");
    }
    // Waking up costs 15 to 20 µs: it pays to spin as long before sleeping. Without the runner,
    // which a leader may want.
    for (int looks = 0; looks < SystemSync::kYieldsBeforeSleep && !HasWork(); ++looks) {
      SystemSync::Yield();
    }
  }
}

bool Executors::AwaitWork(size_t index) {
  while (true) {
    const EventCount::Key key = work_ready_->PrepareWait();
    if (source_->stopping() && source_->AllAnswered()) {
      work_ready_->CancelWait();
      return false;
    }
    const bool work = HasWork();
    if (work && !Lingers(Now())) {
      work_ready_->CancelWait();
      if (free_runners_.AnyFree()) return true;
      WaitForRunner();
      return true;
    }
    work_ready_->Wait(key, work ? int64_t{options_.linger_us} * 1000 : SleepNs(index));
    ReleaseIfIdle();
  }
}

// While a leader has the runner, producers need not wake this executor again.
void Executors::WaitForRunner() {
  const EventCount::Key key = runner_free_.PrepareWait();
  if (free_runners_.AnyFree()) return runner_free_.CancelWait();
  runner_free_.Wait(key);
}

// --- Memory of a model that idles ---------------------------------------------------------------

// -1: for ever; else until memory is to be released.
int64_t Executors::SleepNs(size_t index) const {
  if (options_.idle_release_s <= 0 || index != 0 || released_.load(std::memory_order_seq_cst)) {
    return -1;
  }
  const auto idle_ns = static_cast<int64_t>(options_.idle_release_s * 1e9);
  const int64_t until = last_run_ns_.load(std::memory_order_relaxed) + idle_ns;
  return std::max<int64_t>(until - Nanoseconds(Now()), 1'000'000);
}

void Executors::ReleaseIfIdle() {
  if (options_.idle_release_s <= 0 || released_.load(std::memory_order_relaxed)) return;
  const auto idle_ns = static_cast<int64_t>(options_.idle_release_s * 1e9);
  if (!source_->AllAnswered() ||
      Nanoseconds(Now()) < last_run_ns_.load(std::memory_order_relaxed) + idle_ns) {
    return;
  }
  released_.store(true, std::memory_order_seq_cst);
  try {
    source_->ReleaseMemory();
  } catch (...) {
    LogException("releasing memory");
  }
}

void Executors::RanAt(Clock::time_point done) {
  if (options_.idle_release_s <= 0) return;
  last_run_ns_.store(Nanoseconds(done), std::memory_order_relaxed);
  // Executor 0 sleeps for ever; it must sleep with a timeout again.
  if (released_.load(std::memory_order_relaxed) && released_.exchange(false)) {
    work_ready_->NotifyAll();
  }
}

}  // namespace penstock::sched

// The side of the scheduler that forms and runs batches: executor threads, leaders and Step().
#include <algorithm>
#include <cmath>

#include "metrics/stages.h"
#include "sched/scheduler_impl.h"

namespace penstock {
namespace {

// A long backlog is searched for dead jobs as a whole this often; its oldest before each batch.
constexpr int64_t kSweepNs = 20'000'000;
// Weight of the newest batch in the moving averages of the drain rate.
constexpr double kRateWeight = 0.2;

int64_t Nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

bool AllFinite(std::span<const float> values) {
  // x - x is 0 for a finite x, NaN otherwise; a sum of them is 0 or NaN. Vectorises.
  float sum = 0;
  for (const float x : values) sum += x - x;
  return sum == 0;
}

void Average(double newest, std::atomic<double>* average) {
  // Two at once may lose one of their batches; it is an estimate.
  const double old = average->load(std::memory_order_relaxed);
  average->store(old == 0 ? newest : old + kRateWeight * (newest - old), std::memory_order_relaxed);
}

}  // namespace

// --- When to run ------------------------------------------------------------------------------

bool EncoderScheduler::Impl::Lane::HasWork() const {
  return std::any_of(kinds.begin(), kinds.end(),
                     [](const Queue& queue) { return queue.HasWork(); });
}

bool EncoderScheduler::Impl::BulkMayRun() const {
  return runners.size() == 1 || bulk_running.load(std::memory_order_seq_cst) + 1 < runners.size();
}

// Work that an executor may begin now.
bool EncoderScheduler::Impl::HasWork() const {
  const Lane& bulk = lanes[static_cast<size_t>(Priority::kBulk)];
  return lanes[static_cast<size_t>(Priority::kInteractive)].HasWork() ||
         (BulkMayRun() && bulk.HasWork());
}

void EncoderScheduler::Impl::Executor(size_t index) {
  while (AwaitWork(index)) {
    const int runner = free_runners.TryAcquire();
    if (runner < 0) continue;
    // To wake up costs 15 to 20 µs: it pays to look about as long before going to sleep.
    int looks = 0;
    while (looks < SystemSync::kYieldsBeforeSleep) {
      looks = RunOnce(static_cast<size_t>(runner)) ? 0 : looks + 1;
      if (looks > 0) SystemSync::Yield();
    }
    free_runners.Release(runner);
    runner_free.NotifyOne();
  }
}

bool EncoderScheduler::Impl::AwaitWork(size_t index) {
  while (true) {
    const EventCount::Key key = work_ready.PrepareWait();
    if (stopping.load(std::memory_order_seq_cst) &&
        queued_rows.load(std::memory_order_seq_cst) == 0) {
      work_ready.CancelWait();
      return false;
    }
    const bool work = HasWork();
    if (work && !Lingers(Now())) {
      work_ready.CancelWait();
      if (free_runners.AnyFree()) return true;
      WaitForRunner();
      return true;
    }
    work_ready.Wait(key, work ? int64_t{options.linger_us} * 1000 : SleepNs(index));
    ReleaseIfIdle();
  }
}

// While a leader has the runner, those who publish need not wake this executor again.
void EncoderScheduler::Impl::WaitForRunner() {
  const EventCount::Key key = runner_free.PrepareWait();
  if (free_runners.AnyFree()) return runner_free.CancelWait();
  runner_free.Wait(key);
}

// For ever, but for the one sleep after which memory is released.
int64_t EncoderScheduler::Impl::SleepNs(size_t index) const {
  if (options.idle_release_s <= 0 || index != 0 || released.load(std::memory_order_seq_cst)) {
    return -1;
  }
  const auto idle_ns = static_cast<int64_t>(options.idle_release_s * 1e9);
  const int64_t until = last_run_ns.load(std::memory_order_relaxed) + idle_ns;
  return std::max<int64_t>(until - Nanoseconds(Now()), 1'000'000);
}

void EncoderScheduler::Impl::ReleaseIfIdle() {
  if (options.idle_release_s <= 0 || released.load(std::memory_order_relaxed)) return;
  const auto idle_ns = static_cast<int64_t>(options.idle_release_s * 1e9);
  if (queued_rows.load(std::memory_order_relaxed) > 0 ||
      Nanoseconds(Now()) < last_run_ns.load(std::memory_order_relaxed) + idle_ns) {
    return;
  }
  released.store(true, std::memory_order_seq_cst);
  for (const auto& runner : runners) runner->ReleaseMemory();
}

bool EncoderScheduler::Impl::Lingers(Clock::time_point now) {
  if (options.linger_us == 0 || stopping.load(std::memory_order_relaxed)) return false;
  // Rows under way count as well; then this model has several runners, and need not wait.
  if (queued_tokens.load(std::memory_order_relaxed) >= limits.tokens ||
      queued_rows.load(std::memory_order_relaxed) >= limits.rows) {
    return false;
  }
  int64_t from = 0;
  const int64_t now_ns = Nanoseconds(now);
  if (linger_from_ns.compare_exchange_strong(from, now_ns)) from = now_ns;
  return now_ns < from + int64_t{options.linger_us} * 1000;
}

// --- What to run ------------------------------------------------------------------------------

EncoderScheduler::Impl::Queue* EncoderScheduler::Impl::Pick(Priority* picked,
                                                            EncoderOutput* output) {
  const bool interactive = lane(Priority::kInteractive).HasWork();
  bool bulk = BulkMayRun() && lane(Priority::kBulk).HasWork();
  if (!interactive && !bulk) return nullptr;
  if (bulk && interactive) {
    const uint32_t streak = interactive_streak.load(std::memory_order_relaxed);
    bulk = streak >= static_cast<uint32_t>(options.bulk_every);
    interactive_streak.store(bulk ? 0 : streak + 1, std::memory_order_relaxed);
  } else {
    interactive_streak.store(0, std::memory_order_relaxed);
  }
  *picked = bulk ? Priority::kBulk : Priority::kInteractive;
  Lane& from = lane(*picked);
  const uint32_t first = from.next_kind.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kOutputKinds; ++i) {
    const size_t kind = (first + i) % kOutputKinds;
    if (!from.kinds[kind].HasWork()) continue;
    from.next_kind.store(static_cast<uint32_t>(kind + 1), std::memory_order_relaxed);
    *output = static_cast<EncoderOutput>(kind);
    return &from.kinds[kind];
  }
  return nullptr;  // another executor took it
}

bool EncoderScheduler::Impl::RunOnce(size_t runner) {
  const Clock::time_point now = Now();
  if (options.linger_us > 0 && HasWork() && Lingers(now)) return false;
  Priority priority;
  EncoderOutput output;
  Queue* const queue = Pick(&priority, &output);
  if (queue == nullptr) return false;
  linger_from_ns.store(0, std::memory_order_relaxed);
  SweepSometimes(now);
  SweepBacklog(queue, now, limits.rows);
  if (priority == Priority::kInteractive || runners.size() == 1) {
    RunBatch(queue, runner, priority, output);
    return true;
  }
  // Counted in before the look, so that two executors never both take the last runner for bulk.
  const uint32_t others = bulk_running.fetch_add(1, std::memory_order_seq_cst);
  const bool may = others + 1 < runners.size();
  if (may) RunBatch(queue, runner, priority, output);
  bulk_running.fetch_sub(1, std::memory_order_seq_cst);
  return may;
}

void EncoderScheduler::Impl::RunBatch(Queue* queue, size_t runner, Priority priority,
                                      EncoderOutput output) {
  BatchRing::Claimed claimed;
  const bool from_ring = queue->ring != nullptr && queue->ring->Claim(&claimed);
  EncodeBatch& batch = from_ring ? queue->slots[claimed.slot] : own_batches[runner];
  const Clock::time_point sealed = Now();
  const auto observe_wait = [&](const EncodeJob& job) {
    metrics.queue_duration.Observe(Seconds(sealed - job.progress.submitted));
  };
  if (from_ring) {
    batch.Seal(claimed.rows, claimed.units);
    batch.ForEachSegment([&](EncodeJob* job, size_t, size_t) { observe_wait(*job); });
    DropDead(&batch, sealed);
  } else {
    batch.Clear();
  }
  queue->backlog.Fill(&batch, limits, observe_wait);
  if (runners.size() > 1 && HasWork()) work_ready.NotifyOne();
  if (batch.rows() > 0) Execute(&batch, runner, priority, output, sealed);
  if (from_ring) queue->ring->Complete(claimed);
}

// --- The dead ---------------------------------------------------------------------------------

bool EncoderScheduler::Impl::IsDead(const EncodeJob& job, Clock::time_point now) const {
  return job.progress.failed.load(std::memory_order_relaxed) || job.context.cancelled() ||
         job.context.deadline <= now;
}

void EncoderScheduler::Impl::MarkDead(EncodeJob* job, Clock::time_point now, size_t rows) {
  if (job->context.cancelled()) {
    metrics.CountDropped(StatusCode::kCancelled, rows);
    Fail(job, {StatusCode::kCancelled, "the client left"});
  } else if (job->context.deadline <= now) {
    metrics.CountDropped(StatusCode::kDeadlineExceeded, rows);
    Fail(job, {StatusCode::kDeadlineExceeded,
               "the request's time ran out while it waited for the model"});
  }
}

void EncoderScheduler::Impl::DropDead(EncodeBatch* batch, Clock::time_point now) {
  struct DeadRows {
    EncodeJob* job;
    uint32_t rows;
  };
  std::vector<DeadRows> dead;  // allocates only where there are any
  batch->ForEachSegment([&](EncodeJob* job, size_t begin, size_t end) {
    if (!IsDead(*job, now)) return;
    dead.push_back({job, static_cast<uint32_t>(end - begin)});
    MarkDead(job, now, end - begin);
  });
  if (dead.empty()) return;
  // Failed by now are those above, and whatever failed meanwhile and still has to be run: so not
  // `failed` but membership decides.
  batch->Remove([&](const EncodeJob* job) {
    return std::any_of(dead.begin(), dead.end(), [&](const DeadRows& d) { return d.job == job; });
  });
  for (const DeadRows& d : dead) FinishRows(d.job, d.rows, nullptr);
}

void EncoderScheduler::Impl::SweepBacklog(Queue* queue, Clock::time_point now, size_t live_max) {
  EncodeJob* dead =
      queue->backlog.Sweep([&](const EncodeJob& job) { return IsDead(job, now); }, live_max);
  while (dead != nullptr) {
    EncodeJob* const job = dead;
    dead = job->progress.next;
    const uint32_t rows = static_cast<uint32_t>(job->rows()) - job->progress.next_row;
    MarkDead(job, now, rows);
    FinishRows(job, rows, nullptr);
  }
}

void EncoderScheduler::Impl::SweepSometimes(Clock::time_point now) {
  int64_t last = swept_ns.load(std::memory_order_relaxed);
  const int64_t now_ns = Nanoseconds(now);
  if (now_ns < last + kSweepNs || !swept_ns.compare_exchange_strong(last, now_ns)) return;
  for (Lane& from : lanes) {
    for (Queue& queue : from.kinds) SweepBacklog(&queue, now, SIZE_MAX);
  }
}

void EncoderScheduler::Impl::Fail(EncodeJob* job, Status status) {
  const std::lock_guard lock(failure_mutex);
  if (job->progress.failed.load(std::memory_order_relaxed)) return;
  job->progress.status = std::move(status);
  job->progress.failed.store(true, std::memory_order_relaxed);
}

// --- Running ----------------------------------------------------------------------------------

void EncoderScheduler::Impl::Execute(EncodeBatch* batch, size_t runner, Priority priority,
                                     EncoderOutput output, Clock::time_point sealed) {
  Moments moments;
  moments.sealed = sealed;
  moments.forward = Now();
  RunRows(batch, 0, batch->rows(), runner, output);
  moments.done = Now();
  Observe(*batch, priority, moments);
  batch->ForEachSegment([&](EncodeJob* job, size_t begin, size_t end) {
    CheckRows(*batch, job, begin, end);
    FinishRows(job, static_cast<uint32_t>(end - begin), &moments);
  });
}

void EncoderScheduler::Impl::RunRows(EncodeBatch* batch, size_t begin, size_t end, size_t runner,
                                     EncoderOutput output) {
  const PackedBatch view = batch->View(begin, end);
  metrics.tokens_computed.Add(view.tokens());
  Status status = runners[runner]->Run(view, output, batch->Sinks(begin, end));
  if (status.ok()) return;
  metrics.batch_failures.Add();
  const EncodeJob* const first = batch->owner(begin);
  if (batch->owner(end - 1) == first) return Fail(batch->owner(begin), std::move(status));
  // One of them is at fault, maybe: each gets another chance without the others.
  batch->ForEachSegment([&](EncodeJob* job, size_t from, size_t to) {
    const Clock::time_point now = Now();
    if (IsDead(*job, now)) return MarkDead(job, now, to - from);
    RunRows(batch, from, to, runner, output);
  });
}

void EncoderScheduler::Impl::CheckRows(const EncodeBatch& batch, EncodeJob* job, size_t begin,
                                       size_t end) {
  if (job->progress.failed.load(std::memory_order_relaxed)) return;
  const auto sinks = batch.Sinks(begin, end);
  for (size_t row = begin; row < end; ++row) {
    const size_t values = job->output == EncoderOutput::kTokens ? batch.length(row) : 1;
    if (AllFinite({sinks[row - begin], values * static_cast<size_t>(job->width)})) {
      metrics.tokens_useful.Add(batch.length(row));
      continue;
    }
    return Fail(job, Status::Internal("the model gives values that are not finite (NaN or "
                                      "infinity) for this input"));
  }
}

void EncoderScheduler::Impl::Observe(const EncodeBatch& batch, Priority priority,
                                     const Moments& moments) {
  const double took_s = Seconds(moments.done - moments.forward);
  const auto tokens = static_cast<double>(batch.tokens());
  const auto rows = static_cast<double>(batch.rows());
  metrics.lanes[static_cast<size_t>(priority)].batches->Add();
  metrics.batch_tokens.Observe(tokens);
  metrics.batch_sequences.Observe(rows);
  metrics.batch_fill.Observe(tokens / limits.tokens);
  metrics.batch_duration.Observe(took_s);
  const double batches_per_s = static_cast<double>(runners.size()) / std::max(took_s, 1e-9);
  Average(tokens * batches_per_s, &tokens_per_s);
  Average(rows * batches_per_s, &rows_per_s);
  if (options.idle_release_s <= 0) return;
  last_run_ns.store(Nanoseconds(moments.done), std::memory_order_relaxed);
  // The executor that sleeps for ever is to sleep for a time again.
  if (released.load(std::memory_order_relaxed) && released.exchange(false)) work_ready.NotifyAll();
}

void EncoderScheduler::Impl::FinishRows(EncodeJob* job, uint32_t rows, const Moments* moments) {
  // The trace first: after the subtraction the job may be gone. If the rows open are these, no
  // other thread has any and they are the last.
  RequestTrace* const trace = job->context.trace.get();
  const bool last = job->progress.rows_open.load(std::memory_order_acquire) == rows;
  if (trace != nullptr && moments != nullptr) {
    trace->Batched(moments->sealed, moments->forward, moments->done, last);
  }
  // acq_rel: the last one sees what all others wrote to the job.
  if (job->progress.rows_open.fetch_sub(rows, std::memory_order_acq_rel) == rows) Complete(job);
}

void EncoderScheduler::Impl::Complete(EncodeJob* taken) {
  std::unique_ptr<EncodeJob> job(taken);
  if (RequestTrace* const trace = job->context.trace.get()) trace->Enter(Stage::kComplete, Now());
  const auto tokens = static_cast<int64_t>(job->ids.size());
  const auto rows = static_cast<int64_t>(job->rows());
  SchedulerMetrics::Lane& series = metrics.lanes[static_cast<size_t>(job->context.priority)];
  series.queue_tokens->Add(-tokens);
  series.queue_rows->Add(-rows);
  series.queue_requests->Add(-1);
  Withdraw(tokens, rows);  // first: `done` may submit the next
  const auto done = std::move(job->done);
  Status status = std::move(job->progress.status);
  done(std::move(job), std::move(status));
}

}  // namespace penstock

// The side of the scheduler that forms and runs batches: executor threads, leaders and Step().
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "common/exception_status.h"
#include "common/log.h"
#include "metrics/stages.h"
#include "sched/scheduler_impl.h"

namespace penstock {
namespace {

// A long backlog is searched for dead jobs as a whole this often; its oldest before each batch.
constexpr int64_t kSweepNs = 20'000'000;
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

}  // namespace

// --- When to run ------------------------------------------------------------------------------

bool EncoderScheduler::Impl::Lane::HasWork() const {
  return std::any_of(kinds.begin(), kinds.end(),
                     [](const Queue& queue) { return queue.HasWork(); });
}

EncoderScheduler::Impl::RunnerHold::RunnerHold(Impl* impl)
    : impl_(impl), runner_(impl->free_runners.TryAcquire()) {
  // Of several releases at once only the first wakes somebody (event_count.h): who was woken, or
  // was faster, passes it on while a runner is free.
  if (held() && impl_->runner_free.HasWaiters() && impl_->free_runners.AnyFree()) {
    impl_->runner_free.NotifyOne();
  }
}

EncoderScheduler::Impl::RunnerHold::~RunnerHold() {
  if (!held()) return;
  impl_->free_runners.Release(runner_);
  impl_->runner_free.NotifyOne();
}

EncoderScheduler::Impl::Permit::Permit(Impl* impl, Priority priority) : impl_(impl) {
  if (priority != Priority::kBulk || impl->runners.size() == 1) return;
  uint32_t running = impl->bulk_running.load(std::memory_order_seq_cst);
  do {
    held_ = running + 1 < impl->runners.size();
  } while (held_ && !impl->bulk_running.compare_exchange_weak(running, running + 1,
                                                              std::memory_order_seq_cst));
  counted_ = held_;
}

EncoderScheduler::Impl::Permit::~Permit() {
  if (counted_) impl_->bulk_running.fetch_sub(1, std::memory_order_seq_cst);
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
  pthread_setname_np(pthread_self(), ("executor-" + std::to_string(index)).c_str());
  runners[index]->PlaceExecutor();
  while (AwaitWork(index)) {
    try {
      const RunnerHold hold(this);
      if (!hold.held()) continue;
      while (RunOnce(hold.runner())) {
      }
    } catch (...) {  // all that can throw is caught nearer to the job it is about
      LogException("an executor");
    }
    // To wake up costs 15 to 20 µs: it pays to look about as long before going to sleep. Without
    // the runner, which a leader may want.
    for (int looks = 0; looks < SystemSync::kYieldsBeforeSleep && !HasWork(); ++looks) {
      SystemSync::Yield();
    }
  }
}

bool EncoderScheduler::Impl::AwaitWork(size_t index) {
  while (true) {
    const EventCount::Key key = work_ready.PrepareWait();
    if (stopping.load(std::memory_order_seq_cst) && admission.empty()) {
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
  if (!admission.empty() ||
      Nanoseconds(Now()) < last_run_ns.load(std::memory_order_relaxed) + idle_ns) {
    return;
  }
  released.store(true, std::memory_order_seq_cst);
  try {
    for (const auto& runner : runners) runner->ReleaseMemory();
  } catch (...) {
    LogException("releasing memory");
  }
}

bool EncoderScheduler::Impl::Lingers(Clock::time_point now) {
  if (options.linger_us == 0 || stopping.load(std::memory_order_relaxed)) return false;
  // Rows under way count as well; then this model has several runners, and need not wait.
  if (admission.tokens() >= limits.tokens || admission.rows() >= limits.rows) {
    return false;
  }
  int64_t from = 0;
  const int64_t now_ns = Nanoseconds(now);
  if (linger_from_ns.compare_exchange_strong(from, now_ns)) from = now_ns;
  return now_ns < from + int64_t{options.linger_us} * 1000;
}

// --- What to run ------------------------------------------------------------------------------

bool EncoderScheduler::Impl::Pick(Choice* choice) {
  const bool interactive = lane(Priority::kInteractive).HasWork();
  const bool bulk_waits = lane(Priority::kBulk).HasWork();
  const bool bulk = bulk_waits && BulkMayRun();
  if (!interactive && !bulk) return false;
  choice->priority = bulk ? Priority::kBulk : Priority::kInteractive;
  if (interactive && bulk) choice->priority = bulk_share.Choose(&choice->turn);
  if (!interactive || !bulk_waits) bulk_share.Forget();
  Lane& from = lane(choice->priority);
  const uint32_t first = from.next_kind.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kOutputKinds; ++i) {
    const size_t kind = (first + i) % kOutputKinds;
    if (!from.kinds[kind].HasWork()) continue;
    from.next_kind.store(static_cast<uint32_t>(kind + 1), std::memory_order_relaxed);
    choice->output = static_cast<EncoderOutput>(kind);
    choice->queue = &from.kinds[kind];
    return true;
  }
  bulk_share.Ended(choice->turn, choice->priority, 0);
  return false;  // another executor took it
}

bool EncoderScheduler::Impl::RunOnce(size_t runner) {
  const Clock::time_point now = Now();
  if (options.linger_us > 0 && HasWork() && Lingers(now)) return false;
  Choice choice;
  if (!Pick(&choice)) return false;
  linger_from_ns.store(0, std::memory_order_relaxed);
  if (choice.priority == Priority::kInteractive) SeeInteractive(now);
  SweepSometimes(now);
  SweepBacklog(choice.queue, now, limits.rows);
  const Permit permit(this, choice.priority);
  const bool ran = permit.held() && RunBatch(choice, runner);
  bulk_share.Ended(choice.turn, choice.priority, ran ? Nanoseconds(Now()) - Nanoseconds(now) : 0);
  return permit.held();
}

bool EncoderScheduler::Impl::RunBatch(const Choice& choice, size_t runner) {
  Queue* const queue = choice.queue;
  BatchRing::Claimed claimed;
  bool from_ring = false;
  if (queue->ring != nullptr) {
    const std::lock_guard lock(queue->claim_mutex);
    from_ring = queue->ring->Claim(&claimed);
  }
  EncodeBatch& batch = from_ring ? queue->slots[claimed.slot] : own_batches[runner];
  const Clock::time_point sealed = Now();
  if (from_ring) {
    batch.Seal(claimed.rows, claimed.units);
    batch.ForEachSegment([&](EncodeJob* job, size_t, size_t) {
      metrics.queue_duration.Observe(Seconds(sealed - job->progress.submitted));
    });
    DropDead(&batch, runner, sealed);
  } else {
    batch.Clear();
  }
  FillUp(choice, sealed, &batch);
  if (runners.size() > 1 && HasWork()) work_ready.NotifyOne();
  const bool any = batch.rows() > 0;
  if (any) Execute(&batch, runner, choice.priority, choice.output, sealed);
  if (from_ring) queue->ring->Complete(claimed);
  return any;
}

void EncoderScheduler::Impl::FillUp(const Choice& choice, Clock::time_point now,
                                    EncodeBatch* batch) {
  EncodeJob* const homeless =
      choice.queue->backlog.Fill(batch, LimitsOf(choice.priority, now), [&](const EncodeJob& job) {
        metrics.queue_duration.Observe(Seconds(now - job.progress.submitted));
      });
  if (homeless == nullptr) return;
  Fail(homeless, MakeStatus(StatusCode::kResourceExhausted, "out of memory").WithRetryAfter(1));
  FinishRows(homeless, static_cast<uint32_t>(homeless->rows()) - homeless->progress.next_row,
             nullptr);
}

// --- The dead ---------------------------------------------------------------------------------

bool EncoderScheduler::Impl::IsDead(const EncodeJob& job, Clock::time_point now) const {
  return job.progress.failed.load(std::memory_order_relaxed) || job.context.cancelled() ||
         job.context.deadline <= now;
}

void EncoderScheduler::Impl::MarkDead(EncodeJob* job, Clock::time_point now, size_t rows) {
  if (job->context.cancelled()) {
    metrics.CountDropped(StatusCode::kCancelled, rows);
    Fail(job, MakeStatus(StatusCode::kCancelled, "the client left"));
  } else if (job->context.deadline <= now) {
    metrics.CountDropped(StatusCode::kDeadlineExceeded, rows);
    Fail(job, MakeStatus(StatusCode::kDeadlineExceeded,
                         "the request's time ran out while it waited for the model"));
  }
}

void EncoderScheduler::Impl::DropDead(EncodeBatch* batch, size_t runner, Clock::time_point now) {
  std::vector<DeadRows>& dead = dead_rows[runner];  // has room for all rows of a batch
  dead.clear();
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

void EncoderScheduler::Impl::DiscountSometimes(Clock::time_point now) {
  int64_t last = discounted_ns.load(std::memory_order_relaxed);
  const int64_t now_ns = Nanoseconds(now);
  if (now_ns < last + kSweepNs || !discounted_ns.compare_exchange_strong(last, now_ns)) return;
  for (Lane& from : lanes) {
    for (Queue& queue : from.kinds) {
      if (queue.ring == nullptr) continue;
      // Who is in a batch nobody has claimed is alive.
      const std::lock_guard lock(queue.claim_mutex);
      queue.ring->ForEachWaiting([&](uint32_t slot, uint32_t row) {
        EncodeJob* const job = queue.slots[slot].owner(row);
        if (!job->progress.discounted && IsDead(*job, now)) admission.Discount(job);
      });
    }
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

Status EncoderScheduler::Impl::RunModel(EncodeBatch* batch, size_t begin, size_t end, size_t runner,
                                        EncoderOutput output) {
  try {
    const PackedBatch view = batch->View(begin, end);
    metrics.tokens_computed.Add(view.tokens());
    return runners[runner]->Run(view, output, batch->Sinks(begin, end));
  } catch (...) {
    return ExceptionStatus();
  }
}

void EncoderScheduler::Impl::RunRows(EncodeBatch* batch, size_t begin, size_t end, size_t runner,
                                     EncoderOutput output) {
  Status status = RunModel(batch, begin, end, runner, output);
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
    return Fail(job, MakeStatus(StatusCode::kInternal,
                                "the model gives values that are not finite (NaN or infinity) for "
                                "this input"));
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
  admission.Drained({static_cast<int64_t>(batch.tokens()), static_cast<int64_t>(batch.rows())},
                    took_s, runners.size());
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
  CountOut(*job);  // first: `done` may submit the next
  const auto done = std::move(job->done);
  Status status = std::move(job->progress.status);
  try {
    done(std::move(job), std::move(status));
  } catch (...) {
    LogException("the callback of a job");
  }
}

}  // namespace penstock

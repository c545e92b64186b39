#include "sched/encoder_queues.h"

#include <cmath>

#include "log/exception_status.h"
#include "sched/clock_math.h"

namespace penstock::sched {
namespace {

// A long backlog is searched for dead jobs as a whole this often; its oldest before each batch.
constexpr int64_t kSweepNs = 20'000'000;

// Token outputs are rare and large: they all go through the backlog.
std::array<bool, program::kEncoderOutputs> Rings(
    std::array<bool, program::kEncoderOutputs> offered) {
  offered[static_cast<size_t>(program::EncoderOutput::kTokens)] = false;
  return offered;
}

// A ring's batches are closed by the limits of any load: bulk has one only if these keep a batch
// short enough for the time while interactive work is about.
std::array<bool, program::kEncoderOutputs> BulkRings(
    const BatchLimits& limits, const BatchLimits& bulk_limits,
    const std::array<bool, program::kEncoderOutputs>& offered) {
  if (std::isinf(bulk_limits.seconds)) return Rings(offered);
  const double work = limits.work == UINT64_MAX ? 0 : static_cast<double>(limits.work);
  const bool short_enough = bulk_limits.times.Seconds(limits.tokens, work) <= bulk_limits.seconds;
  return short_enough ? Rings(offered) : std::array<bool, program::kEncoderOutputs>{};
}

// True once in kSweepNs, for one thread.
bool IsDue(Clock::time_point now, std::atomic<int64_t>* last_ns) {
  const int64_t now_ns = Nanoseconds(now);
  int64_t last = last_ns->load(std::memory_order_relaxed);
  return now_ns >= last + kSweepNs && last_ns->compare_exchange_strong(last, now_ns);
}

}  // namespace

EncoderQueues::EncoderQueues(const BatchLimits& limits, const BatchLimits& bulk_limits,
                             const std::array<bool, program::kEncoderOutputs>& offered,
                             JobAnswers* answers, SchedulerMetrics* metrics, EventCount* work_ready)
    : limits_(limits),
      bulk_limits_(bulk_limits),
      answers_(answers),
      metrics_(metrics),
      classes_{ClassQueue(limits, Rings(offered), work_ready),
               ClassQueue(limits, BulkRings(limits, bulk_limits, offered), work_ready)} {}

void EncoderQueues::SweepBacklog(ClassQueue* queue, int kind, Clock::time_point now,
                                 size_t live_max) {
  EncodeJob* dead = queue->Sweep(
      kind, [&](const EncodeJob& job) { return JobAnswers::IsDead(job, now); }, live_max);
  while (dead != nullptr) {
    EncodeJob* const job = dead;
    dead = job->progress.next;
    const uint32_t rows = static_cast<uint32_t>(job->rows()) - job->progress.next_row;
    answers_->MarkDead(job, now, rows);
    answers_->FinishRows(job, rows, nullptr);
  }
}

void EncoderQueues::SweepSometimes(Clock::time_point now) {
  if (!IsDue(now, &swept_ns_)) return;
  for (ClassQueue& queue : classes_) {
    for (size_t kind = 0; kind < program::kEncoderOutputs; ++kind) {
      SweepBacklog(&queue, static_cast<int>(kind), now, SIZE_MAX);
    }
  }
}

void EncoderQueues::DiscountSometimes(Clock::time_point now) {
  if (!IsDue(now, &discounted_ns_)) return;
  for (ClassQueue& queue : classes_) {
    queue.ForEachInRings([&](EncodeJob* job) {
      if (!job->progress.discounted && JobAnswers::IsDead(*job, now)) answers_->Discount(job);
    });
  }
}

bool EncoderQueues::Claim(Priority priority, Clock::time_point now, EncodeBatch* own,
                          Batch* batch) {
  ClassQueue& queue = Of(priority);
  const int kind = queue.NextKind();
  if (kind < 0) return false;
  SweepSometimes(now);
  SweepBacklog(&queue, kind, now, limits_.rows);
  batch->output = static_cast<program::EncoderOutput>(kind);
  batch->from_ring = queue.Claim(kind, &batch->claimed);
  batch->rows = batch->from_ring ? batch->claimed.batch : own;
  if (!batch->from_ring) own->Clear();
  return true;
}

void EncoderQueues::ObserveQueued(const EncodeJob& job, Clock::time_point now) {
  metrics_->queue_duration.Observe(Seconds(now - job.progress.submitted));
}

void EncoderQueues::Fill(Priority priority, double seconds, Clock::time_point now, Batch* batch) {
  BatchLimits limits = limits_;
  limits.seconds = seconds;
  EncodeJob* const homeless =
      Of(priority).Fill(static_cast<int>(batch->output), batch->rows, limits, now,
                        [&](const EncodeJob& job) { ObserveQueued(job, now); });
  if (homeless == nullptr) return;
  answers_->Fail(homeless,
                 MakeStatus(StatusCode::kResourceExhausted, "out of memory").WithRetryAfter(1));
  answers_->FinishRows(
      homeless, static_cast<uint32_t>(homeless->rows()) - homeless->progress.next_row, nullptr);
}

void EncoderQueues::Complete(Priority priority, const Batch& batch) {
  if (batch.from_ring) Of(priority).Complete(static_cast<int>(batch.output), batch.claimed);
}

}  // namespace penstock::sched

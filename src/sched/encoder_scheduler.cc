#include "sched/encoder_scheduler.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "log/exception_status.h"
#include "sched/call_count.h"
#include "sched/clock_math.h"
#include "sched/encode_forward.h"
#include "sched/encoder_queues.h"

namespace penstock::sched {
namespace {

BatchLimits LimitsFrom(const EncoderSchedulerOptions& options) {
  PENSTOCK_CHECK(options.max_batch_tokens > 0 && options.max_batch_rows > 0);
  BatchLimits limits;
  limits.tokens =
      std::min(static_cast<uint32_t>(options.max_batch_tokens), batch::BatchRing::kLimitMax.units);
  limits.rows =
      std::min(static_cast<uint32_t>(options.max_batch_rows), batch::BatchRing::kLimitMax.rows);
  limits.times = options.times;
  limits.work = WorkLimit(options.times, static_cast<int32_t>(limits.tokens), options.length_max);
  return limits;
}

// The longest bulk batch: an interactive job may wait for one in each turn.
double BulkSeconds(const EncoderSchedulerOptions& options) {
  return EncoderScheduler::kBulkBatchS / options.queued_turns;
}

BatchLimits BulkLimits(const EncoderSchedulerOptions& options) {
  BatchLimits limits = LimitsFrom(options);
  if (limits.times.known()) limits.seconds = BulkSeconds(options);
  return limits;
}

ExecutorsOptions ExecutorsFrom(const EncoderSchedulerOptions& options, size_t runners) {
  ExecutorsOptions result;
  result.runners = runners;
  result.gate = options.gate;
  result.bulk_rule.bulk_every = options.bulk_every;
  if (options.times.known()) {
    result.bulk_rule.bulk_ns_max = static_cast<int64_t>(BulkSeconds(options) * 1e9);
  }
  result.linger_us = options.linger_us;
  result.idle_release_s = options.idle_release_s;
  result.manual = options.manual;
  result.now = options.now;
  return result;
}

}  // namespace

struct EncoderScheduler::Impl final : BatchSource {
  Impl(std::vector<std::unique_ptr<program::EncoderRunner>> runners,
       const EncoderSchedulerOptions& options_in, metrics::Metrics* metrics_in);

  // Counts the job in and makes room for its results; throws or fails without effect.
  Status Accept(EncodeJob* job);
  Status Submit(std::unique_ptr<EncodeJob> job);
  bool MayLead(const EncodeJob& job, uint64_t work) const;
  bool TryLead(EncodeJob* job, uint64_t work);
  void Stop();

  // For the executors.
  bool HasWork(Priority priority) const override { return queues.HasWork(priority); }
  int64_t EarliestDeadlineNs(Priority priority) const override {
    return queues.EarliestDeadlineNs(priority);
  }
  bool AllAnswered() const override { return admission.empty(); }
  bool stopping() const override { return admission.stopping(); }
  bool EnoughWaits() const override {
    // Rows under way count as well; then this model has several runners, and need not wait.
    return admission.units() >= queues.limits().tokens || admission.rows() >= queues.limits().rows;
  }
  void RunBatch(Priority priority, size_t runner, BatchTurn* turn) override;
  double FillSeconds(Priority priority, Clock::time_point now) const;
  bool LittleWaits() const;
  void PlaceExecutor(size_t runner) override { forward.runner(runner).PlaceExecutor(); }
  void ReleaseMemory() override { forward.ReleaseMemory(); }

  const EncoderSchedulerOptions options;
  SchedulerMetrics metrics;
  EventCount work_ready;  // executors without work
  Admission admission;
  JobAnswers answers;
  EncodeForward forward;
  EncoderQueues queues;
  CallCount submitters;
  std::mutex join_mutex;  // Stop() from several threads
  Executors executors;
};

EncoderScheduler::Impl::Impl(std::vector<std::unique_ptr<program::EncoderRunner>> runners,
                             const EncoderSchedulerOptions& options_in,
                             metrics::Metrics* metrics_in)
    : options(options_in),
      metrics(SchedulerMetrics::Of(metrics_in, options_in.model)),
      admission({options_in.max_queued_tokens, options_in.max_queued_rows}, &metrics, &work_ready),
      answers(&admission, &metrics, options_in.now),
      forward(std::move(runners), LimitsFrom(options_in), &answers, &admission, &metrics),
      queues(LimitsFrom(options_in), BulkLimits(options_in), forward.Offered(), &answers, &metrics,
             &work_ready),
      executors(ExecutorsFrom(options_in, forward.runners()), this, &metrics, &work_ready) {
  if (options.times.known()) {
    const BatchTimes& times = options.times;
    admission.SetCosts(times.token_s + times.fixed_s / queues.limits().tokens, times.work_s);
  }
  try {
    executors.Start();
  } catch (...) {
    Stop();
    throw;
  }
}

Status EncoderScheduler::Impl::Accept(EncodeJob* job) {
  PENSTOCK_RETURN_IF_ERROR(CheckJob(*job));
  job->width = forward.OutputWidth(job->output);
  job->progress.rows_open.store(static_cast<uint32_t>(job->rows()), std::memory_order_relaxed);
  const Clock::time_point now = job->progress.submitted = executors.Now();
  Status counted = admission.CountIn(job->context.priority, AmountOf(*job));
  if (counted.code() == StatusCode::kResourceExhausted) {
    // Dead jobs must not keep others out.
    queues.SweepSometimes(now);
    queues.DiscountSometimes(now);
    counted = admission.CountIn(job->context.priority, AmountOf(*job), queues.IsBelowShare(*job));
  }
  PENSTOCK_RETURN_IF_ERROR(std::move(counted));
  try {
    // On the caller's thread, as an executor's time is the model's; and for admitted jobs only.
    job->values.resize(job->ValueOffset(job->rows(), job->ids.size()));
  } catch (...) {
    answers.CountOut(*job);
    throw;
  }
  return Status::Ok();
}

Status EncoderScheduler::Impl::Submit(std::unique_ptr<EncodeJob> job) {
  const CallCount::Call call(&submitters);
  Status status;
  try {
    status = Accept(job.get());
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!status.ok()) {
    const bool full = status.code() == StatusCode::kResourceExhausted ||
                      status.code() == StatusCode::kPayloadTooLarge;
    if (full) metrics.queue_full.Add(job->rows());
    if (status.code() == StatusCode::kResourceExhausted) {
      admission.Ask(job->context.priority, AmountOf(*job));
    }
    return status;
  }
  admission.Ask(job->context.priority, AmountOf(*job));
  // Nothing throws from here on.
  EncodeJob* const taken = job.release();  // JobAnswers gives it back
  const Clock::time_point now = taken->progress.submitted;
  if (taken->context.priority == Priority::kInteractive) {
    executors.gate().SeeInteractive(Nanoseconds(now));
  }
  uint64_t work = 0;
  for (const int32_t length : taken->lengths) work += AttentionWork(length);
  if (TryLead(taken, work)) return Status::Ok();
  queues.SweepSometimes(now);
  queues.Put(taken, work, LittleWaits());
  return Status::Ok();
}

bool EncoderScheduler::Impl::MayLead(const EncodeJob& job, uint64_t work) const {
  if (!job.may_lead || options.manual || options.linger_us > 0 || options.lead_s_max <= 0) {
    return false;
  }
  if (options.queued_turns > 1 && executors.gate().taken() > 0) return false;
  const auto tokens = job.ids.size();
  const BatchLimits& limits = queues.limits();
  return admission.rows() == static_cast<int64_t>(job.rows()) && tokens <= limits.tokens &&
         job.rows() <= limits.rows && work <= limits.work &&
         options.times.Seconds(static_cast<double>(tokens), static_cast<double>(work)) <=
             options.lead_s_max &&
         (job.context.priority == Priority::kInteractive ||
          queues.bulk_limits().SecondsFit(tokens, work));
}

bool EncoderScheduler::Impl::TryLead(EncodeJob* job, uint64_t work) {
  if (!MayLead(*job, work)) return false;
  const Priority priority = job->context.priority;
  return executors.TryLead(priority, [&](size_t runner, BatchTurn* turn) {
    const program::EncoderOutput output = job->output;
    const Clock::time_point now = executors.Now();
    EncodeBatch& batch = forward.own_batch(runner);
    batch.Clear();
    batch.Append(job, 0, 0, job->rows(), job->ids.size());
    queues.ObserveQueued(*job, now);
    forward.DropDead(&batch, runner, now);
    if (batch.rows() == 0) return;
    metrics.led.Add();
    forward.Run(&batch, runner, priority, output, now, &executors, turn);
  });
}

void EncoderScheduler::Impl::RunBatch(Priority priority, size_t runner, BatchTurn* turn) {
  EncoderQueues::Batch batch;
  if (!queues.Claim(priority, executors.Now(), &forward.own_batch(runner), &batch)) return;
  const Clock::time_point sealed = executors.Now();
  if (batch.from_ring) {
    batch.rows->ForEachSegment(
        [&](EncodeJob* job, size_t, size_t) { queues.ObserveQueued(*job, sealed); });
    forward.DropDead(batch.rows, runner, sealed);
  }
  queues.Fill(priority, FillSeconds(priority, sealed), sealed, &batch);
  executors.PassOn();
  if (batch.rows->rows() > 0) {
    forward.Run(batch.rows, runner, priority, batch.output, sealed, &executors, turn);
  }
  queues.Complete(priority, batch);
}

// Whether about two batches wait at most, beside those that may be under way.
bool EncoderScheduler::Impl::LittleWaits() const {
  const int64_t under_way =
      options.queued_turns > 1 ? options.queued_turns : static_cast<int64_t>(forward.runners());
  const int64_t batches = under_way + 2;
  return admission.units() <= batches * queues.limits().tokens &&
         admission.rows() <= batches * queues.limits().rows;
}

// How long a batch of the class may take now.
double EncoderScheduler::Impl::FillSeconds(Priority priority, Clock::time_point now) const {
  const gate::ComputeGate& gate = executors.gate();
  const int64_t now_ns = Nanoseconds(now);
  const bool bulk = priority == Priority::kBulk;
  const bool cut = bulk ? gate.ShortBulk(now_ns) : gate.StreamSeen(now_ns);
  if (!cut) return std::numeric_limits<double>::infinity();
  return (bulk ? EncoderScheduler::kBulkBatchS : EncoderScheduler::kBesideTextS) /
         options.queued_turns / forward.slowdown();
}

void EncoderScheduler::Impl::Stop() {
  const std::lock_guard join_lock(join_mutex);
  admission.Stop();
  executors.Join();
  // Leaders, and others on their way out of Submit.
  submitters.AwaitNone();
}

EncoderScheduler::EncoderScheduler(std::vector<std::unique_ptr<program::EncoderRunner>> runners,
                                   const EncoderSchedulerOptions& options,
                                   metrics::Metrics* metrics)
    : impl_(std::make_unique<Impl>(std::move(runners), options, metrics)) {}

EncoderScheduler::~EncoderScheduler() { Stop(); }

Status EncoderScheduler::Submit(std::unique_ptr<EncodeJob> job) {
  return impl_->Submit(std::move(job));
}

bool EncoderScheduler::Step() { return impl_->executors.Step(); }

void EncoderScheduler::Stop() {
  impl_->Stop();
  while (impl_->options.manual && !impl_->admission.empty()) PENSTOCK_CHECK(Step());
}

void EncoderScheduler::CountDropped(StatusCode reason, size_t sequences) {
  impl_->metrics.CountDropped(reason, sequences);
}

void EncoderScheduler::CountRefused(Priority priority) {
  impl_->metrics.classes[static_cast<size_t>(priority)].demand.AskAverage();
}

void EncoderScheduler::RegisterMetrics(const std::string& model, metrics::Metrics* metrics) {
  SchedulerMetrics::Of(metrics, model);
}

int64_t EncoderScheduler::queued_tokens() const { return impl_->admission.units(); }
int64_t EncoderScheduler::queued_rows() const { return impl_->admission.rows(); }
const BatchLimits& EncoderScheduler::limits() const { return impl_->queues.limits(); }
const BatchTimes& EncoderScheduler::times() const { return impl_->options.times; }
size_t EncoderScheduler::replicas() const { return impl_->forward.runners(); }
uint64_t EncoderScheduler::HeldBytes() const { return impl_->forward.HeldBytes(); }
uint64_t EncoderScheduler::ReleaseMemory() { return impl_->forward.ReleaseMemory(); }

}  // namespace penstock::sched

#include "sched/encoder_scheduler.h"

#include <algorithm>

#include "common/exception_status.h"
#include "sched/scheduler_impl.h"

namespace penstock {
namespace {

// Batches of a ring: one under way, one open, the rest for bursts. What does not fit waits in the
// backlog, so more would only move the place of waiting.
constexpr size_t kRingBatches = 8;
// A job larger than 1 / kSmallParts of a batch goes to the backlog, which splits it: in the ring it
// could close a batch that is not full.
constexpr uint32_t kSmallParts = 8;
// Interactive work is about for so long after it was last seen.
constexpr int64_t kInteractiveSeenNs = 1'000'000'000;
// How exactly that is known: noted no more often, as it is a line all submitting threads share.
constexpr int64_t kInteractiveStepNs = 10'000'000;

int64_t Nanoseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

BatchLimits LimitsFrom(const EncoderSchedulerOptions& options) {
  PENSTOCK_CHECK(options.max_batch_tokens > 0 && options.max_batch_sequences > 0);
  BatchLimits limits;
  limits.tokens =
      std::min(static_cast<uint32_t>(options.max_batch_tokens), BatchRing::kLimitMax.units);
  limits.rows =
      std::min(static_cast<uint32_t>(options.max_batch_sequences), BatchRing::kLimitMax.rows);
  limits.work = WorkLimit(options.times, static_cast<int32_t>(limits.tokens), options.length_max);
  return limits;
}

BatchLimits BulkLimits(BatchLimits limits, const BatchTimes& times) {
  if (!times.known()) return limits;
  limits.seconds = EncoderScheduler::kBulkBatchS;
  limits.times = times;
  return limits;
}

// A ring's batches are closed by the limits of any load: bulk has one only if these keep a batch
// short enough for the time while interactive work is about.
bool BulkHasRing(const BatchLimits& limits, const BatchLimits& bulk_limits) {
  if (std::isinf(bulk_limits.seconds)) return true;
  const double work = limits.work == UINT64_MAX ? 0 : static_cast<double>(limits.work);
  return bulk_limits.times.Seconds(limits.tokens, work) <= bulk_limits.seconds;
}

}  // namespace

EncoderScheduler::Impl::Impl(std::vector<std::unique_ptr<EncoderRunner>> runners_in,
                             const EncoderSchedulerOptions& options_in, Metrics* metrics_in)
    : options(options_in),
      limits(LimitsFrom(options_in)),
      bulk_limits(BulkLimits(limits, options_in.times)),
      work_quantum(static_cast<double>(limits.work) / BatchRing::kLimitMax.work),
      runners(std::move(runners_in)),
      metrics(SchedulerMetrics::Of(metrics_in, options_in.model)),
      free_runners(static_cast<uint32_t>(runners.size())),
      admission({options_in.max_queued_tokens, options_in.max_queued_rows}, &metrics),
      bulk_share(options_in.bulk_every,
                 options_in.times.known() ? static_cast<int64_t>(kBulkBatchS * 1e9) : 0) {
  PENSTOCK_CHECK(!runners.empty() && runners.size() <= kReplicasMax);
  for (size_t i = 0; i < runners.size(); ++i) {
    own_batches.emplace_back(limits.tokens, limits.rows);
    dead_rows.emplace_back().reserve(limits.rows);
  }
  for (Lane& lane : lanes) {
    if (&lane == &this->lane(Priority::kBulk) && !BulkHasRing(limits, bulk_limits)) continue;
    // Token outputs are rare and large: they all go through the backlog.
    for (const EncoderOutput output : {EncoderOutput::kPooled, EncoderOutput::kLogits}) {
      if (runners[0]->OutputWidth(output) <= 0) continue;
      Queue& queue = lane.kinds[static_cast<size_t>(output)];
      queue.ring = std::make_unique<BatchRing>(
          kRingBatches, BatchCost{limits.rows, limits.tokens, BatchRing::kLimitMax.work},
          &work_ready);
      for (size_t i = 0; i < kRingBatches; ++i) {
        queue.slots.emplace_back(limits.tokens, limits.rows);
      }
    }
  }
  if (options.manual) return;
  executors.reserve(runners.size());
  try {
    for (size_t i = 0; i < runners.size(); ++i) {
      executors.emplace_back([this, i] { Executor(i); });
    }
  } catch (...) {
    JoinExecutors();
    throw;
  }
}

EncoderScheduler::Impl::~Impl() = default;

Status EncoderScheduler::Impl::Validate(const EncodeJob& job) const {
  if (job.lengths.empty()) return Status::InvalidArgument("a job needs at least one sequence");
  size_t total = 0;
  for (const int32_t length : job.lengths) {
    if (length <= 0) return Status::InvalidArgument("a sequence needs at least one token");
    total += static_cast<size_t>(length);
  }
  if (total != job.ids.size() || (!job.type_ids.empty() && job.type_ids.size() != total)) {
    return Status::InvalidArgument("the lengths of a job do not add up to its tokens");
  }
  if (!job.pool_skip.empty() && job.pool_skip.size() != job.lengths.size()) {
    return Status::InvalidArgument("a job needs one pool_skip for each sequence, or none");
  }
  return Status::Ok();
}

Status EncoderScheduler::Impl::CountIn(const EncodeJob& job) {
  Status status = admission.CountIn(job);
  const bool stops = stopping.load(std::memory_order_seq_cst);
  if (status.ok() && stops) {
    admission.CountOut(job);
    status = {StatusCode::kUnavailable, "the model is stopping"};
  }
  // A refused job is counted for a moment, and an executor that is to stop may have seen it.
  if (stops) work_ready.NotifyAll();
  return status;
}

void EncoderScheduler::Impl::CountOut(const EncodeJob& job) {
  admission.CountOut(job);
  if (stopping.load(std::memory_order_seq_cst)) work_ready.NotifyAll();
}

Status EncoderScheduler::Impl::Accept(EncodeJob* job) {
  PENSTOCK_RETURN_IF_ERROR(Validate(*job));
  job->width = runners[0]->OutputWidth(job->output);
  job->progress.rows_open.store(static_cast<uint32_t>(job->rows()), std::memory_order_relaxed);
  const Clock::time_point now = job->progress.submitted = Now();
  Status counted = CountIn(*job);
  if (counted.code() == StatusCode::kResourceExhausted) {
    // What is dead by now is not to keep others out.
    SweepSometimes(now);
    DiscountSometimes(now);
    counted = CountIn(*job);
  }
  PENSTOCK_RETURN_IF_ERROR(std::move(counted));
  try {
    // On the caller's thread, as an executor's time is the model's; and of what was admitted only.
    job->values.resize(job->ValueOffset(job->rows(), job->ids.size()));
  } catch (...) {
    CountOut(*job);
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
    return status;
  }
  // Nothing throws from here on.
  EncodeJob* const taken = job.release();  // Complete() gives it back
  const Priority priority = taken->context.priority;
  if (priority == Priority::kInteractive) SeeInteractive(taken->progress.submitted);
  uint64_t work = 0;
  for (const int32_t length : taken->lengths) work += AttentionWork(length);
  if (TryLead(taken, work)) return Status::Ok();
  SweepSometimes(taken->progress.submitted);
  Queue& queue = lane(priority).kinds[static_cast<size_t>(taken->output)];
  if (TryRing(&queue, taken, work)) return Status::Ok();
  queue.backlog.Push(taken);
  work_ready.NotifyOne();
  return Status::Ok();
}

void EncoderScheduler::Impl::SeeInteractive(Clock::time_point now) {
  const int64_t now_ns = Nanoseconds(now);
  if (now_ns - interactive_ns.load(std::memory_order_relaxed) >= kInteractiveStepNs) {
    interactive_ns.store(now_ns, std::memory_order_relaxed);
  }
}

const BatchLimits& EncoderScheduler::Impl::LimitsOf(Priority priority,
                                                    Clock::time_point now) const {
  const bool seen =
      Nanoseconds(now) - interactive_ns.load(std::memory_order_relaxed) <= kInteractiveSeenNs;
  return priority == Priority::kBulk && seen ? bulk_limits : limits;
}

bool EncoderScheduler::Impl::MayLead(const EncodeJob& job, uint64_t work) const {
  if (!job.may_lead || options.manual || options.linger_us > 0 || options.lead_s_max <= 0) {
    return false;
  }
  const auto tokens = job.ids.size();
  return admission.rows() == static_cast<int64_t>(job.rows()) && tokens <= limits.tokens &&
         job.rows() <= limits.rows && work <= limits.work &&
         options.times.Seconds(static_cast<double>(tokens), static_cast<double>(work)) <=
             options.lead_s_max &&
         (job.context.priority == Priority::kInteractive || bulk_limits.SecondsFit(tokens, work));
}

bool EncoderScheduler::Impl::TryLead(EncodeJob* job, uint64_t work) {
  if (!MayLead(*job, work)) return false;
  const Priority priority = job->context.priority;
  const EncoderOutput output = job->output;
  bool led = false;
  {
    const Permit permit(this, priority);
    const RunnerHold hold(this);
    if (permit.held() && hold.held()) {
      led = true;
      const Clock::time_point now = Now();
      EncodeBatch& batch = own_batches[hold.runner()];
      batch.Clear();
      batch.Append(job, 0, 0, job->rows(), job->ids.size());
      metrics.queue_duration.Observe(
          std::chrono::duration<double>(now - job->progress.submitted).count());
      DropDead(&batch, hold.runner(), now);
      if (batch.rows() > 0) {
        metrics.led.Add();
        Execute(&batch, hold.runner(), priority, output, now);
      }
    }
  }
  // Executors may have seen bulk work that they could not begin.
  if (priority == Priority::kBulk && runners.size() > 1 && HasWork()) work_ready.NotifyOne();
  return led;
}

bool EncoderScheduler::Impl::TryRing(Queue* queue, EncodeJob* job, uint64_t work) {
  if (queue->ring == nullptr || !queue->backlog.empty()) return false;
  BatchCost cost;
  cost.rows = static_cast<uint32_t>(std::min<size_t>(job->rows(), UINT32_MAX));
  cost.units = static_cast<uint32_t>(std::min<size_t>(job->ids.size(), UINT32_MAX));
  // Rounded down: short rows count nothing, as their attention takes no time.
  cost.work = static_cast<uint32_t>(std::min(static_cast<double>(work) / work_quantum, 4e9));
  if (cost.rows > std::max(1u, limits.rows / kSmallParts) ||
      cost.units > std::max(1u, limits.tokens / kSmallParts) ||
      cost.work > BatchRing::kLimitMax.work / kSmallParts) {
    return false;
  }
  Reservation place;
  if (queue->ring->Reserve(cost, &place) != ReserveResult::kOk) return false;
  queue->slots[place.slot].Put(place.row, place.unit, job, 0, 0, job->rows());
  queue->ring->Publish(place, nullptr);
  return true;
}

void EncoderScheduler::Impl::JoinExecutors() {
  stopping.store(true, std::memory_order_seq_cst);
  work_ready.NotifyAll();
  for (std::thread& executor : executors) {
    if (executor.joinable()) executor.join();
  }
}

void EncoderScheduler::Impl::Stop() {
  const std::lock_guard join_lock(join_mutex);
  JoinExecutors();
  // Leaders, and others on their way out of Submit.
  submitters.AwaitNone();
}

EncoderScheduler::EncoderScheduler(std::vector<std::unique_ptr<EncoderRunner>> runners,
                                   const EncoderSchedulerOptions& options, Metrics* metrics)
    : impl_(std::make_unique<Impl>(std::move(runners), options, metrics)) {}

EncoderScheduler::~EncoderScheduler() { Stop(); }

Status EncoderScheduler::Submit(std::unique_ptr<EncodeJob> job) {
  return impl_->Submit(std::move(job));
}

bool EncoderScheduler::Step() {
  PENSTOCK_CHECK(impl_->options.manual);
  const Impl::RunnerHold hold(impl_.get());
  return hold.held() && impl_->RunOnce(hold.runner());
}

void EncoderScheduler::Stop() {
  impl_->Stop();
  while (impl_->options.manual && !impl_->admission.empty()) PENSTOCK_CHECK(Step());
}

void EncoderScheduler::CountDropped(StatusCode reason, size_t sequences) {
  impl_->metrics.CountDropped(reason, sequences);
}

void EncoderScheduler::RegisterMetrics(const std::string& model, Metrics* metrics) {
  SchedulerMetrics::Of(metrics, model);
}

int64_t EncoderScheduler::queued_tokens() const { return impl_->admission.tokens(); }
int64_t EncoderScheduler::queued_rows() const { return impl_->admission.rows(); }
const BatchLimits& EncoderScheduler::limits() const { return impl_->limits; }
const BatchTimes& EncoderScheduler::times() const { return impl_->options.times; }
size_t EncoderScheduler::replicas() const { return impl_->runners.size(); }

uint64_t EncoderScheduler::HeldBytes() const {
  uint64_t bytes = 0;
  for (const auto& runner : impl_->runners) bytes += runner->HeldBytes();
  return bytes;
}

uint64_t EncoderScheduler::ReleaseMemory() {
  uint64_t bytes = 0;
  for (const auto& runner : impl_->runners) bytes += runner->ReleaseMemory();
  return bytes;
}

}  // namespace penstock

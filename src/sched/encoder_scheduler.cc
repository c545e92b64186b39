#include "sched/encoder_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sched/scheduler_impl.h"

namespace penstock {
namespace {

// Batches of a ring: one under way, one open, the rest for bursts. What does not fit waits in the
// backlog, so more would only move the place of waiting.
constexpr size_t kRingBatches = 8;
// A job larger than 1 / kSmallParts of a batch goes to the backlog, which splits it: in the ring it
// could close a batch that is not full.
constexpr uint32_t kSmallParts = 8;
// A wait longer than this is not worth promising: the load will have changed.
constexpr double kRetryAfterMaxS = 60;

BatchLimits LimitsOf(const EncoderSchedulerOptions& options) {
  PENSTOCK_CHECK(options.max_batch_tokens > 0 && options.max_batch_sequences > 0);
  BatchLimits limits;
  limits.tokens =
      std::min(static_cast<uint32_t>(options.max_batch_tokens), BatchRing::kLimitMax.units);
  limits.rows =
      std::min(static_cast<uint32_t>(options.max_batch_sequences), BatchRing::kLimitMax.rows);
  limits.work = WorkLimit(options.times, static_cast<int32_t>(limits.tokens), options.length_max);
  return limits;
}

}  // namespace

EncoderScheduler::Impl::Impl(std::vector<std::unique_ptr<EncoderRunner>> runners_in,
                             const EncoderSchedulerOptions& options_in, Metrics* metrics_in)
    : options(options_in),
      limits(LimitsOf(options_in)),
      work_quantum(static_cast<double>(limits.work) / BatchRing::kLimitMax.work),
      runners(std::move(runners_in)),
      metrics(SchedulerMetrics::Of(metrics_in, options_in.model)),
      free_runners(static_cast<uint32_t>(runners.size())) {
  PENSTOCK_CHECK(!runners.empty() && runners.size() <= kReplicasMax);
  for (size_t i = 0; i < runners.size(); ++i) own_batches.emplace_back(limits.tokens, limits.rows);
  for (Lane& lane : lanes) {
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
  for (size_t i = 0; i < runners.size(); ++i) {
    executors.emplace_back([this, i] { Executor(i); });
  }
}

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

Status EncoderScheduler::Impl::QueueFull(int64_t tokens, int64_t rows) const {
  const auto wait_s = [](int64_t over, const std::atomic<double>& per_s) {
    const double rate = per_s.load(std::memory_order_relaxed);
    return over > 0 && rate > 0 ? static_cast<double>(over) / rate : 0;
  };
  const int64_t tokens_over = queued_tokens.load() + tokens - options.max_queued_tokens;
  const int64_t rows_over = queued_rows.load() + rows - options.max_queued_rows;
  const double wait = std::max(wait_s(tokens_over, tokens_per_s), wait_s(rows_over, rows_per_s));
  return Status(StatusCode::kResourceExhausted,
                fmt::format("the queue is full: {} tokens in {} sequences wait, the request has {} "
                            "in {}, the limit is {} in {} (--max-queued-tokens, --max-queued-rows)",
                            queued_tokens.load(), queued_rows.load(), tokens, rows,
                            options.max_queued_tokens, options.max_queued_rows))
      .WithRetryAfter(static_cast<int>(std::ceil(std::clamp(wait, 1.0, kRetryAfterMaxS))));
}

// Counts the job in, or refuses it.
Status EncoderScheduler::Impl::Admit(const EncodeJob& job, Priority priority) {
  const auto tokens = static_cast<int64_t>(job.ids.size());
  const auto rows = static_cast<int64_t>(job.rows());
  if (tokens > options.max_queued_tokens || rows > options.max_queued_rows) {
    metrics.queue_full.Add(job.rows());
    return {StatusCode::kPayloadTooLarge,
            fmt::format("the request has {} tokens in {} sequences; the limit is {} in {} "
                        "(--max-queued-tokens, --max-queued-rows)",
                        tokens, rows, options.max_queued_tokens, options.max_queued_rows)};
  }
  int64_t before = queued_rows.load(std::memory_order_relaxed);
  do {
    if (before + rows > options.max_queued_rows) {
      metrics.queue_full.Add(job.rows());
      return QueueFull(tokens, rows);
    }
  } while (!queued_rows.compare_exchange_weak(before, before + rows, std::memory_order_seq_cst));
  before = queued_tokens.load(std::memory_order_relaxed);
  do {
    if (before + tokens > options.max_queued_tokens) {
      const Status full = QueueFull(tokens, 0);
      Withdraw(0, rows);
      metrics.queue_full.Add(job.rows());
      return full;
    }
  } while (
      !queued_tokens.compare_exchange_weak(before, before + tokens, std::memory_order_relaxed));
  if (stopping.load(std::memory_order_seq_cst)) {
    Withdraw(tokens, rows);
    return {StatusCode::kUnavailable, "the model is stopping"};
  }
  SchedulerMetrics::Lane& series = metrics.lanes[static_cast<size_t>(priority)];
  series.queue_tokens->Add(tokens);
  series.queue_rows->Add(rows);
  series.queue_requests->Add(1);
  return Status::Ok();
}

// Rows come off last: executors that are to stop wait until none is left.
void EncoderScheduler::Impl::Withdraw(int64_t tokens, int64_t rows) {
  queued_tokens.fetch_sub(tokens, std::memory_order_relaxed);
  queued_rows.fetch_sub(rows, std::memory_order_seq_cst);
  if (stopping.load(std::memory_order_seq_cst)) work_ready.NotifyAll();
}

Status EncoderScheduler::Impl::Submit(std::unique_ptr<EncodeJob> job) {
  PENSTOCK_RETURN_IF_ERROR(Validate(*job));
  const Priority priority = job->context.priority;
  // Allocated here, on the caller's thread: an executor's time is the model's.
  job->width = runners[0]->OutputWidth(job->output);
  job->values.resize(job->ValueOffset(job->rows(), job->ids.size()));
  job->progress.rows_open.store(static_cast<uint32_t>(job->rows()), std::memory_order_relaxed);
  job->progress.submitted = Now();
  uint64_t work = 0;
  for (const int32_t length : job->lengths) work += AttentionWork(length);
  PENSTOCK_RETURN_IF_ERROR(Admit(*job, priority));

  EncodeJob* const taken = job.release();  // Complete() gives it back
  if (TryLead(taken, work)) return Status::Ok();
  SweepSometimes(taken->progress.submitted);
  Queue& queue = lane(priority).kinds[static_cast<size_t>(taken->output)];
  if (TryRing(&queue, taken, work)) return Status::Ok();
  queue.backlog.Push(taken);
  work_ready.NotifyOne();
  return Status::Ok();
}

bool EncoderScheduler::Impl::MayLead(const EncodeJob& job, uint64_t work) const {
  if (!job.may_lead || options.manual || options.linger_us > 0 || options.lead_s_max <= 0) {
    return false;
  }
  const auto tokens = job.ids.size();
  return queued_rows.load(std::memory_order_relaxed) == static_cast<int64_t>(job.rows()) &&
         tokens <= limits.tokens && job.rows() <= limits.rows && work <= limits.work &&
         options.times.Seconds(static_cast<double>(tokens), static_cast<double>(work)) <=
             options.lead_s_max;
}

bool EncoderScheduler::Impl::TryLead(EncodeJob* job, uint64_t work) {
  if (!MayLead(*job, work)) return false;
  const int runner = free_runners.TryAcquire();
  if (runner < 0) return false;
  const Clock::time_point now = Now();
  const Priority priority = job->context.priority;
  EncodeBatch& batch = own_batches[static_cast<size_t>(runner)];
  batch.Clear();
  batch.Append(job, 0, 0, job->rows(), job->ids.size());
  metrics.queue_duration.Observe(
      std::chrono::duration<double>(now - job->progress.submitted).count());
  DropDead(&batch, now);
  if (batch.rows() > 0) {
    metrics.led.Add();
    Execute(&batch, static_cast<size_t>(runner), priority, job->output, now);
  }
  free_runners.Release(runner);
  runner_free.NotifyOne();
  return true;
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

void EncoderScheduler::Impl::Stop() {
  const std::lock_guard join_lock(join_mutex);
  stopping.store(true, std::memory_order_seq_cst);
  work_ready.NotifyAll();
  for (std::thread& executor : executors) {
    if (executor.joinable()) executor.join();
  }
  // A leader is no thread of ours: its job is through before it gives the runner back.
  std::vector<int> held;
  for (SpinWait wait; held.size() < runners.size();) {
    const int runner = free_runners.TryAcquire();
    if (runner < 0) wait.Once();
    if (runner >= 0) held.push_back(runner);
  }
  for (const int runner : held) free_runners.Release(runner);
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
  const int runner = impl_->free_runners.TryAcquire();
  if (runner < 0) return false;
  const bool ran = impl_->RunOnce(static_cast<size_t>(runner));
  impl_->free_runners.Release(runner);
  return ran;
}

void EncoderScheduler::Stop() {
  impl_->Stop();
  while (impl_->options.manual && impl_->queued_rows.load() > 0) PENSTOCK_CHECK(Step());
}

void EncoderScheduler::CountDropped(StatusCode reason, size_t sequences) {
  impl_->metrics.CountDropped(reason, sequences);
}

void EncoderScheduler::RegisterMetrics(const std::string& model, Metrics* metrics) {
  SchedulerMetrics::Of(metrics, model);
}

int64_t EncoderScheduler::queued_tokens() const { return impl_->queued_tokens.load(); }
int64_t EncoderScheduler::queued_rows() const { return impl_->queued_rows.load(); }
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

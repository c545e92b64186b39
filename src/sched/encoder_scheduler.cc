#include "sched/encoder_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "batch/batch_buffer.h"

namespace penstock {
namespace {

// A wait longer than this is not worth promising: the load will have changed.
constexpr double kRetryAfterMaxS = 60;

struct SchedulerMetrics {
  SchedulerMetrics(Metrics* m, const std::string& model)
      : label(MetricLabel("model", model)),
        queue_tokens(
            m->AddGauge("penstock_queue_tokens", "Tokens accepted and not yet answered.", label)),
        queue_requests(m->AddGauge("penstock_queue_requests",
                                   "Requests accepted by the scheduler and not yet answered.",
                                   label)),
        batch_tokens(m->AddHistogram(
            "penstock_batch_tokens", "Tokens in a batch.",
            {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}, label)),
        batch_sequences(m->AddHistogram("penstock_batch_sequences", "Sequences in a batch.",
                                        {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, label)),
        batch_duration(m->AddHistogram("penstock_batch_duration_seconds",
                                       "Time the model worked on a batch.", DurationBounds(),
                                       label)),
        queue_duration(m->AddHistogram("penstock_queue_duration_seconds",
                                       "Time from submission until the first row was batched.",
                                       DurationBounds(), label)),
        batch_failures(m->AddCounter("penstock_batch_failures_total",
                                     "Batches that the model refused or failed.", label)),
        cancelled(Dropped(m, "cancelled")),
        expired(Dropped(m, "expired")),
        queue_full(Dropped(m, "queue_full")) {}

  Counter& Dropped(Metrics* m, const char* reason) {
    return m->AddCounter("penstock_dropped_total",
                         "Sequences that were dropped before they reached the model.",
                         label + "," + MetricLabel("reason", reason));
  }

  std::string label;
  Gauge& queue_tokens;
  Gauge& queue_requests;
  Histogram& batch_tokens;
  Histogram& batch_sequences;
  Histogram& batch_duration;
  Histogram& queue_duration;
  Counter& batch_failures;
  Counter& cancelled;
  Counter& expired;
  Counter& queue_full;
};

// A job in the queue and how far it has come. Executor thread only.
struct Active {
  std::unique_ptr<EncodeJob> job;
  Clock::time_point submitted;
  size_t next_row = 0;    // first sequence not yet batched
  size_t next_token = 0;  // where it begins in job->ids
  size_t next_value = 0;  // where its result goes in job->values
  Status status;          // first failure

  size_t rows_left() const { return job->lengths.size() - next_row; }
  int32_t next_length() const { return job->lengths[next_row]; }
};

// Consecutive sequences of a batch that belong to one job.
struct Segment {
  Active* active;
  size_t begin;  // sequences of the batch
  size_t end;
};

bool AllFinite(std::span<const float> values) {
  // x - x is 0 for a finite x, NaN otherwise; a sum of them is 0 or NaN. Vectorises.
  float sum = 0;
  for (const float x : values) sum += x - x;
  return sum == 0;
}

}  // namespace

struct EncoderScheduler::Impl {
  Impl(std::unique_ptr<EncoderRunner> runner_in, const EncoderSchedulerOptions& options_in,
       Metrics* metrics_in)
      : options(options_in), runner(std::move(runner_in)), metrics(metrics_in, options.model) {
    batch.Reserve(options.max_batch_tokens, options.max_batch_sequences);
    executor = std::thread([this] { Run(); });
  }

  Status Submit(std::unique_ptr<EncodeJob> job);
  Status Validate(const EncodeJob& job) const;
  Status QueueFull(int64_t tokens);  // mutex held
  void Run();
  void TakeIncoming(bool wait);
  void DropDead();
  void Seal();
  void AddRows(Active* a, size_t rows);
  void Execute();
  void RunSegments(std::span<const Segment> part, const PackedBatch& packed);
  void KeepResults(std::span<const Segment> part, const PackedBatch& packed);
  void CompleteFinished();
  void Complete(Active* a);

  const EncoderSchedulerOptions options;
  const std::unique_ptr<EncoderRunner> runner;
  SchedulerMetrics metrics;

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<Active> incoming;  // guarded by mutex
  int64_t queued_tokens = 0;    // guarded by mutex: of every job not yet completed
  double tokens_per_s = 0;      // guarded by mutex: moving average, 0 = not measured
  bool stopping = false;        // guarded by mutex
  std::mutex join_mutex;        // Stop() from several threads

  // The executor's own. A deque: segments point at its elements.
  std::deque<Active> active;
  BatchBuffer batch;
  EncoderOutput batch_output = EncoderOutput::kPooled;
  std::vector<Segment> segments;
  struct Taken {
    size_t rows = 0;
    size_t tokens = 0;
  };
  std::vector<Taken> taken;  // by Seal(), one entry a job in `active`
  std::vector<float> out;
  std::thread executor;
};

Status EncoderScheduler::Impl::Validate(const EncodeJob& job) const {
  if (job.lengths.empty()) return Status::InvalidArgument("a job needs at least one sequence");
  size_t total = 0;
  for (const int32_t length : job.lengths) {
    if (length <= 0) return Status::InvalidArgument("a sequence needs at least one token");
    total += length;
  }
  if (total != job.ids.size() || (!job.type_ids.empty() && job.type_ids.size() != total)) {
    return Status::InvalidArgument("the lengths of a job do not add up to its tokens");
  }
  if (!job.pool_skip.empty() && job.pool_skip.size() != job.lengths.size()) {
    return Status::InvalidArgument("a job needs one pool_skip for each sequence, or none");
  }
  return Status::Ok();
}

Status EncoderScheduler::Impl::QueueFull(int64_t tokens) {
  int retry_after_s = 1;
  if (tokens_per_s > 0) {
    const double wait_s = (queued_tokens + tokens - options.max_queued_tokens) / tokens_per_s;
    retry_after_s = static_cast<int>(std::ceil(std::clamp(wait_s, 1.0, kRetryAfterMaxS)));
  }
  return Status(StatusCode::kResourceExhausted,
                fmt::format("the queue is full: {} tokens wait, the request has {}, the limit is "
                            "{} (--max-queued-tokens)",
                            queued_tokens, tokens, options.max_queued_tokens))
      .WithRetryAfter(retry_after_s);
}

Status EncoderScheduler::Impl::Submit(std::unique_ptr<EncodeJob> job) {
  PENSTOCK_RETURN_IF_ERROR(Validate(*job));
  const int64_t tokens = static_cast<int64_t>(job->ids.size());
  const size_t rows = job->lengths.size();
  if (tokens > options.max_queued_tokens) {
    metrics.queue_full.Add(rows);
    return {StatusCode::kPayloadTooLarge,
            fmt::format("the request has {} tokens; the limit is {} (--max-queued-tokens)", tokens,
                        options.max_queued_tokens)};
  }
  // Allocated here, on the caller's thread: the executor's time is the model's.
  job->width = runner->OutputWidth(job->output);
  const size_t out_rows = job->output == EncoderOutput::kTokens ? job->ids.size() : rows;
  job->values.resize(out_rows * job->width);
  {
    const std::lock_guard lock(mutex);
    if (stopping) return {StatusCode::kUnavailable, "the model is stopping"};
    if (queued_tokens + tokens > options.max_queued_tokens) {
      metrics.queue_full.Add(rows);
      return QueueFull(tokens);
    }
    queued_tokens += tokens;
    metrics.queue_tokens.Add(tokens);
    metrics.queue_requests.Add(1);
    incoming.push_back({std::move(job), Clock::now()});
  }
  wake.notify_one();
  return Status::Ok();
}

void EncoderScheduler::Impl::Run() {
  while (true) {
    TakeIncoming(active.empty());
    if (active.empty()) return;  // stopping, and nothing is left
    DropDead();
    if (active.empty()) continue;
    Seal();
    Execute();
    CompleteFinished();
  }
}

// Moves what was submitted to the executor's own queue; `wait`s for it, or for Stop().
void EncoderScheduler::Impl::TakeIncoming(bool wait) {
  std::unique_lock lock(mutex);
  if (wait) wake.wait(lock, [this] { return !incoming.empty() || stopping; });
  while (!incoming.empty()) {
    active.push_back(std::move(incoming.front()));
    incoming.pop_front();
  }
}

void EncoderScheduler::Impl::DropDead() {
  const auto now = Clock::now();
  for (Active& a : active) {
    if (a.job->context.cancelled()) {
      metrics.cancelled.Add(a.rows_left());
      a.status = Status(StatusCode::kCancelled, "the client left");
    } else if (a.job->context.deadline <= now) {
      metrics.expired.Add(a.rows_left());
      a.status = Status(StatusCode::kDeadlineExceeded,
                        "the request's time ran out while it waited for the model");
    }
  }
  CompleteFinished();
}

// Fills the batch from the jobs that want the same output as the oldest. How many rows each gives
// is settled first, for a job's rows must lie side by side: the oldest gives one row whatever its
// length, so that nothing starves; then each up to an even share; then the oldest what is left.
void EncoderScheduler::Impl::Seal() {
  batch.Clear();
  segments.clear();
  batch_output = active.front().job->output;
  const auto same_output = [this](const Active& a) { return a.job->output == batch_output; };
  const size_t jobs = std::count_if(active.begin(), active.end(), same_output);
  const size_t tokens_max = options.max_batch_tokens;
  const size_t rows_max = options.max_batch_sequences;

  taken.assign(active.size(), {});
  size_t tokens = active.front().next_length();
  size_t rows = 1;
  taken[0] = {1, tokens};
  const auto take_up_to = [&](size_t job_tokens_max) {
    for (size_t i = 0; i < active.size() && rows < rows_max; ++i) {
      if (!same_output(active[i])) continue;
      const std::vector<int32_t>& lengths = active[i].job->lengths;
      for (size_t row = active[i].next_row + taken[i].rows; row < lengths.size(); ++row) {
        const size_t length = lengths[row];
        if (rows == rows_max || tokens + length > tokens_max ||
            taken[i].tokens + length > job_tokens_max) {
          break;
        }
        ++taken[i].rows, ++rows;
        taken[i].tokens += length, tokens += length;
      }
    }
  };
  take_up_to(tokens_max / jobs);
  take_up_to(tokens_max);
  for (size_t i = 0; i < active.size(); ++i) {
    if (taken[i].rows > 0) AddRows(&active[i], taken[i].rows);
  }
}

void EncoderScheduler::Impl::AddRows(Active* a, size_t rows) {
  if (a->next_row == 0) {
    metrics.queue_duration.Observe(
        std::chrono::duration<double>(Clock::now() - a->submitted).count());
  }
  const size_t begin = batch.sequences();
  for (size_t i = 0; i < rows; ++i) {
    const size_t length = a->next_length();
    const auto ids = std::span(a->job->ids).subspan(a->next_token, length);
    batch.Append(ids,
                 a->job->type_ids.empty()
                     ? std::span<const int32_t>()
                     : std::span(a->job->type_ids).subspan(a->next_token, length),
                 a->job->pool_skip.empty() ? 0 : a->job->pool_skip[a->next_row]);
    a->next_token += length;
    ++a->next_row;
  }
  segments.push_back({a, begin, batch.sequences()});
}

void EncoderScheduler::Impl::Execute() {
  const auto start = Clock::now();
  RunSegments(segments, batch.View());
  const double took_s = std::chrono::duration<double>(Clock::now() - start).count();
  metrics.batch_tokens.Observe(batch.tokens());
  metrics.batch_sequences.Observe(batch.sequences());
  metrics.batch_duration.Observe(took_s);
  const double rate = batch.tokens() / std::max(took_s, 1e-9);
  const std::lock_guard lock(mutex);
  tokens_per_s = tokens_per_s == 0 ? rate : 0.8 * tokens_per_s + 0.2 * rate;
}

void EncoderScheduler::Impl::RunSegments(std::span<const Segment> part, const PackedBatch& packed) {
  const int32_t width = runner->OutputWidth(batch_output);
  const size_t rows = batch_output == EncoderOutput::kTokens ? packed.tokens() : packed.sequences();
  out.resize(rows * width);
  const Status status = runner->Run(packed, batch_output, out);
  if (status.ok()) return KeepResults(part, packed);
  metrics.batch_failures.Add();
  if (part.size() == 1) {
    part[0].active->status = status;
    return;
  }
  // One of them is at fault, maybe: each gets another chance without the others.
  for (const Segment& segment : part) {
    RunSegments({&segment, 1}, batch.View(segment.begin, segment.end));
  }
}

void EncoderScheduler::Impl::KeepResults(std::span<const Segment> part, const PackedBatch& packed) {
  const size_t width = runner->OutputWidth(batch_output);
  size_t from = 0;
  for (const Segment& segment : part) {
    Active& a = *segment.active;
    size_t rows = segment.end - segment.begin;
    if (batch_output == EncoderOutput::kTokens) {
      const size_t first = segment.begin - part.front().begin;
      rows = packed.offsets[first + rows] - packed.offsets[first];
    }
    const auto values = std::span(out).subspan(from, rows * width);
    from += values.size();
    if (!AllFinite(values)) {
      a.status = Status::Internal(
          "the model gives values that are not finite (NaN or infinity) for this input");
      continue;
    }
    std::memcpy(a.job->values.data() + a.next_value, values.data(), values.size_bytes());
    a.next_value += values.size();
  }
}

// Gives back the jobs that failed or have no rows left.
void EncoderScheduler::Impl::CompleteFinished() {
  for (Active& a : active) {
    if (!a.status.ok() || a.rows_left() == 0) Complete(&a);
  }
  std::erase_if(active, [](const Active& a) { return a.job == nullptr; });
}

void EncoderScheduler::Impl::Complete(Active* a) {
  const int64_t tokens = static_cast<int64_t>(a->job->ids.size());
  {
    const std::lock_guard lock(mutex);
    queued_tokens -= tokens;
  }
  metrics.queue_tokens.Add(-tokens);
  metrics.queue_requests.Add(-1);
  const auto done = std::move(a->job->done);
  done(std::move(a->job), std::move(a->status));
  a->job = nullptr;
}

EncoderScheduler::EncoderScheduler(std::unique_ptr<EncoderRunner> runner,
                                   const EncoderSchedulerOptions& options, Metrics* metrics)
    : impl_(std::make_unique<Impl>(std::move(runner), options, metrics)) {}

EncoderScheduler::~EncoderScheduler() { Stop(); }

Status EncoderScheduler::Submit(std::unique_ptr<EncodeJob> job) {
  return impl_->Submit(std::move(job));
}

void EncoderScheduler::Stop() {
  const std::lock_guard join_lock(impl_->join_mutex);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_one();
  if (impl_->executor.joinable()) impl_->executor.join();
}

void EncoderScheduler::CountDropped(StatusCode reason, size_t sequences) {
  if (reason == StatusCode::kCancelled) impl_->metrics.cancelled.Add(sequences);
  if (reason == StatusCode::kDeadlineExceeded) impl_->metrics.expired.Add(sequences);
  if (reason == StatusCode::kResourceExhausted) impl_->metrics.queue_full.Add(sequences);
}

void EncoderScheduler::RegisterMetrics(const std::string& model, Metrics* metrics) {
  SchedulerMetrics(metrics, model);
}

int64_t EncoderScheduler::queued_tokens() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queued_tokens;
}

uint64_t EncoderScheduler::HeldBytes() const { return impl_->runner->HeldBytes(); }
uint64_t EncoderScheduler::ReleaseMemory() { return impl_->runner->ReleaseMemory(); }

}  // namespace penstock

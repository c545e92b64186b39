#include "sched/encode_forward.h"

#include <algorithm>
#include <span>
#include <utility>

#include "log/exception_status.h"
#include "sched/clock_math.h"

namespace penstock::sched {
namespace {

bool AllFinite(std::span<const float> values) {
  // x - x is 0 for a finite x, NaN otherwise; a sum of them is 0 or NaN. Vectorises.
  float sum = 0;
  for (const float x : values) sum += x - x;
  return sum == 0;
}

// Where to cut rows into two parts: between two jobs, about in the middle; one job anywhere.
size_t Middle(const EncodeBatch& batch, size_t begin, size_t end) {
  const size_t half = begin + (end - begin) / 2;
  const auto between = [&](size_t row) { return batch.owner(row) != batch.owner(row - 1); };
  for (size_t row = half; row < end; ++row) {
    if (between(row)) return row;
  }
  for (size_t row = half; row > begin + 1; --row) {
    if (between(row - 1)) return row - 1;
  }
  return half;
}

}  // namespace

// What the runner asks about rows that begin at `begin`.
class EncodeForward::Watch final : public program::BatchPause {
 public:
  Watch(const Running& running, size_t begin, JobAnswers* answers)
      : running_(running), begin_(begin), answers_(answers) {}
  bool Pause() override { return running_.turn->Pause(); }
  bool Wanted(size_t sequence) override {
    EncodeJob* const job = running_.batch->owner(begin_ + sequence);
    const Clock::time_point now = running_.executors->Now();
    if (!JobAnswers::IsDead(*job, now)) return true;
    answers_->MarkDead(job, now, 1);
    return false;
  }

 private:
  const Running& running_;
  const size_t begin_;
  JobAnswers* const answers_;
};

EncodeForward::EncodeForward(std::vector<std::unique_ptr<program::EncoderRunner>> runners,
                             const BatchLimits& limits, JobAnswers* answers, Admission* admission,
                             SchedulerMetrics* metrics)
    : limits_(limits),
      runners_(std::move(runners)),
      answers_(answers),
      admission_(admission),
      metrics_(metrics) {
  for (size_t i = 0; i < runners_.size(); ++i) {
    own_batches_.emplace_back(limits.tokens, limits.rows);
    dead_rows_.emplace_back().reserve(limits.rows);
  }
}

std::array<bool, program::kEncoderOutputs> EncodeForward::Offered() const {
  std::array<bool, program::kEncoderOutputs> offered{};
  for (size_t i = 0; i < program::kEncoderOutputs; ++i) {
    offered[i] = OutputWidth(static_cast<program::EncoderOutput>(i)) > 0;
  }
  return offered;
}

uint64_t EncodeForward::HeldBytes() const {
  uint64_t bytes = 0;
  for (const auto& runner : runners_) bytes += runner->HeldBytes();
  return bytes;
}

uint64_t EncodeForward::ReleaseMemory() {
  uint64_t bytes = 0;
  for (const auto& runner : runners_) bytes += runner->ReleaseMemory();
  return bytes;
}

void EncodeForward::DropDead(EncodeBatch* batch, size_t runner, Clock::time_point now) {
  std::vector<DeadRows>& dead = dead_rows_[runner];  // has room for all rows of a batch
  dead.clear();
  batch->ForEachSegment([&](EncodeJob* job, size_t begin, size_t end) {
    if (!JobAnswers::IsDead(*job, now)) return;
    dead.push_back({job, static_cast<uint32_t>(end - begin)});
    answers_->MarkDead(job, now, end - begin);
  });
  if (dead.empty()) return;
  // Not by `failed`: a job that failed after the loop above still has rows to finish. Only members
  // of `dead` are removed.
  batch->Remove([&](const EncodeJob* job) {
    return std::any_of(dead.begin(), dead.end(), [&](const DeadRows& d) { return d.job == job; });
  });
  for (const DeadRows& d : dead) answers_->FinishRows(d.job, d.rows, nullptr);
}

void EncodeForward::Run(EncodeBatch* batch, size_t runner, Priority priority,
                        program::EncoderOutput output, Clock::time_point sealed,
                        Executors* executors, BatchTurn* turn) {
  BatchTimestamps timestamps;
  timestamps.sealed = sealed;
  timestamps.forward = executors->Now();
  Running running = {batch, runner, output, executors, turn};
  RunRows(&running, 0, batch->rows());
  timestamps.done = turn->ForwardDone();
  executors->RanAt(timestamps.done);
  Observe(running, priority, timestamps);
  batch->ForEachSegment([&](EncodeJob* job, size_t begin, size_t end) {
    CheckRows(*batch, job, begin, end);
    answers_->FinishRows(job, static_cast<uint32_t>(end - begin), &timestamps);
  });
}

Status EncodeForward::RunModel(Running* running, size_t begin, size_t end) {
  program::EncoderRunner& runner = *runners_[running->runner];
  Watch watch(*running, begin, answers_);
  runner.SetPause(&watch);
  Status status;
  try {
    const program::PackedBatch view = running->batch->View(begin, end);
    metrics_->tokens_computed.Add(view.tokens());
    status = runner.Run(view, running->output, running->batch->Sinks(begin, end));
    const double device_s = status.ok() ? runner.device_seconds() : 0;
    running->device_s += device_s;
    running->turn->AddDeviceTime(device_s);
  } catch (...) {
    status = ExceptionStatus();
  }
  runner.SetPause(nullptr);
  return status;
}

void EncodeForward::RunAlive(Running* running, size_t begin, size_t end) {
  const EncodeBatch& batch = *running->batch;
  const auto end_of_job = [&](size_t row) {
    const EncodeJob* const job = batch.owner(row);
    while (row < end && batch.owner(row) == job) ++row;
    return row;
  };
  for (size_t row = begin; row < end;) {
    const Clock::time_point now = running->executors->Now();
    const size_t alive = row;
    while (row < end && !JobAnswers::IsDead(*batch.owner(row), now)) row = end_of_job(row);
    if (alive < row) {
      RunRows(running, alive, row);  // others may die meanwhile
      continue;
    }
    EncodeJob* const dead = batch.owner(row);
    row = end_of_job(row);
    answers_->MarkDead(dead, now, row - alive);
  }
}

void EncodeForward::RunRows(Running* running, size_t begin, size_t end) {
  Status status = RunModel(running, begin, end);
  if (status.ok()) return;
  metrics_->batch_failures.Add();
  EncodeJob* const first = running->batch->owner(begin);
  const bool of_one = running->batch->owner(end - 1) == first;
  // Half of one job's rows take less memory, but are at fault as all are.
  if (of_one && (status.code() != StatusCode::kResourceExhausted || end - begin == 1)) {
    return answers_->Fail(first, std::move(status));
  }
  // Perhaps only one job is at fault. Others need not wait for all of these runs.
  const size_t middle = Middle(*running->batch, begin, end);
  for (const auto& [from, to] : {std::pair(begin, middle), std::pair(middle, end)}) {
    (void)running->turn->Pause();
    RunAlive(running, from, to);
  }
}

void EncodeForward::CheckRows(const EncodeBatch& batch, EncodeJob* job, size_t begin, size_t end) {
  if (job->progress.failed.load(std::memory_order_relaxed)) return;
  const auto sinks = batch.Sinks(begin, end);
  for (size_t row = begin; row < end; ++row) {
    const size_t values = job->output == program::EncoderOutput::kTokens ? batch.length(row) : 1;
    if (AllFinite({sinks[row - begin], values * static_cast<size_t>(job->width)})) {
      metrics_->tokens_useful.Add(batch.length(row));
      continue;
    }
    return answers_->Fail(
        job, MakeStatus(StatusCode::kInternal,
                        "the model gives values that are not finite (NaN or infinity) for this "
                        "input"));
  }
}

void EncodeForward::Observe(const Running& running, Priority priority,
                            const BatchTimestamps& timestamps) {
  const EncodeBatch& batch = *running.batch;
  const bool on_device = running.device_s > 0;
  const double took_s =
      on_device ? running.device_s : Seconds(timestamps.done - timestamps.forward);
  const auto tokens = static_cast<double>(batch.tokens());
  const auto rows = static_cast<double>(batch.rows());
  metrics_->classes[static_cast<size_t>(priority)].batches->Add();
  metrics_->batch_tokens.Observe(tokens);
  metrics_->batch_sequences.Observe(rows);
  metrics_->batch_fill.Observe(tokens / limits_.tokens);
  metrics_->batch_duration.Observe(took_s);
  ObserveSlowdown(batch, took_s);
  admission_->Drained({static_cast<int64_t>(batch.tokens()), static_cast<int64_t>(batch.rows())},
                      took_s, on_device ? 1 : runners_.size());
}

void EncodeForward::ObserveSlowdown(const EncodeBatch& batch, double took_s) {
  constexpr double kNewest = 0.1, kMost = 4;
  const double expected_s =
      limits_.times.Seconds(static_cast<double>(batch.tokens()), static_cast<double>(batch.work()));
  if (expected_s <= 0) return;  // times were not measured
  const double ratio = std::clamp(took_s / expected_s, 1.0, kMost);
  slowdown_.store((1 - kNewest) * slowdown() + kNewest * ratio, std::memory_order_relaxed);
}

}  // namespace penstock::sched

#include "bench/policy_sim.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "sched/encode_batch.h"
#include "sched/encoder_scheduler.h"

namespace penstock {
namespace {

// --- The others: one line of rows -------------------------------------------------------------

struct Row {
  size_t job;
  int32_t length;
  double arrival_s;
};

// How many of the waiting rows are to go now, and, if none, when to look again at the latest.
struct Decision {
  size_t rows = 0;
  double again_s = 0;
};

PolicyOutcome SimulateLine(
    const BatchTimes& times, const std::vector<PolicyJob>& jobs,
    const std::function<Decision(size_t waiting, double oldest_s, double now_s)>& decide) {
  std::vector<Row> rows;
  std::vector<size_t> open(jobs.size());
  for (size_t job = 0; job < jobs.size(); ++job) {
    open[job] = jobs[job].lengths.size();
    for (const int32_t length : jobs[job].lengths)
      rows.push_back({job, length, jobs[job].arrival_s});
  }
  PolicyOutcome outcome;
  outcome.latency_s.resize(jobs.size());
  size_t arrived = 0;  // rows [next, arrived) wait
  double now_s = 0;
  for (size_t next = 0; next < rows.size();) {
    while (arrived < rows.size() && rows[arrived].arrival_s <= now_s) ++arrived;
    if (next == arrived) {
      now_s = rows[arrived].arrival_s;
      continue;
    }
    const Decision decision = decide(arrived - next, rows[next].arrival_s, now_s);
    if (decision.rows == 0) {
      const double event_s = arrived < rows.size() ? rows[arrived].arrival_s : decision.again_s;
      now_s = std::min(decision.again_s, event_s);
      continue;
    }
    double tokens = 0;
    double work = 0;
    const size_t end = next + decision.rows;
    for (size_t i = next; i < end; ++i) {
      tokens += rows[i].length;
      work += static_cast<double>(AttentionWork(rows[i].length));
    }
    now_s += times.Seconds(tokens, work);
    for (; next < end; ++next) {
      const size_t job = rows[next].job;
      if (--open[job] == 0) outcome.latency_s[job] = now_s - jobs[job].arrival_s;
    }
    ++outcome.batches;
  }
  outcome.end_s = now_s;
  return outcome;
}

// --- Ours: the real scheduler -----------------------------------------------------------------

class SimulatedModel {
 public:
  SimulatedModel(const OurPolicy& policy, const BatchTimes& times,
                 const std::vector<PolicyJob>& jobs)
      : times_(times), jobs_(jobs) {
    EncoderSchedulerOptions options;
    options.max_batch_tokens = policy.max_batch_tokens;
    options.length_max = policy.length_max;
    options.times = times;
    options.max_queued_tokens = INT64_MAX / 2;
    options.max_queued_rows = INT64_MAX / 2;
    options.manual = true;
    options.now = [this] { return Now(); };
    options.model = "simulated";
    std::vector<std::unique_ptr<EncoderRunner>> runners;
    runners.push_back(std::make_unique<Runner>(this));
    scheduler_ = std::make_unique<EncoderScheduler>(std::move(runners), options, &metrics_);
  }

  Expected<PolicyOutcome> Run() {
    outcome_.latency_s.resize(jobs_.size());
    while (status_.ok() && answered_ < jobs_.size()) {
      if (scheduler_->Step()) continue;
      PENSTOCK_CHECK(next_ < jobs_.size());
      AdvanceTo(std::max(now_s_, jobs_[next_].arrival_s));
    }
    if (!status_.ok()) return status_;
    outcome_.end_s = now_s_;
    return std::move(outcome_);
  }

 private:
  // What comes while a batch is worked on is submitted while it is worked on.
  class Runner final : public EncoderRunner {
   public:
    explicit Runner(SimulatedModel* model) : model_(model) {}
    int32_t OutputWidth(EncoderOutput output) const override {
      return output == EncoderOutput::kPooled ? 1 : 0;
    }
    Status Run(const PackedBatch& batch, EncoderOutput, std::span<float* const>) override {
      double work = 0;
      for (size_t s = 0; s < batch.sequences(); ++s) {
        work += static_cast<double>(AttentionWork(batch.length(s)));
      }
      ++model_->outcome_.batches;
      model_->AdvanceTo(model_->now_s_ +
                        model_->times_.Seconds(static_cast<double>(batch.tokens()), work));
      return Status::Ok();
    }

   private:
    SimulatedModel* const model_;
  };

  Clock::time_point Now() const {
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 + now_s_)));
  }

  void AdvanceTo(double until_s) {
    for (; next_ < jobs_.size() && jobs_[next_].arrival_s <= until_s; ++next_) {
      now_s_ = std::max(now_s_, jobs_[next_].arrival_s);
      Submit(next_);
    }
    now_s_ = until_s;
  }

  void Submit(size_t index) {
    const PolicyJob& from = jobs_[index];
    auto job = std::make_unique<EncodeJob>();
    job->lengths = from.lengths;
    size_t tokens = 0;
    for (const int32_t length : from.lengths) tokens += static_cast<size_t>(length);
    job->ids.resize(tokens);
    job->context.priority = from.priority;
    job->done = [this, index](std::unique_ptr<EncodeJob>, Status status) {
      if (!status.ok()) status_ = std::move(status);
      outcome_.latency_s[index] = now_s_ - jobs_[index].arrival_s;
      ++answered_;
    };
    if (Status status = scheduler_->Submit(std::move(job)); !status.ok()) status_ = status;
  }

  const BatchTimes times_;
  const std::vector<PolicyJob>& jobs_;
  Metrics metrics_;
  Status status_;
  double now_s_ = 0;
  size_t next_ = 0;
  size_t answered_ = 0;
  PolicyOutcome outcome_;
  std::unique_ptr<EncoderScheduler> scheduler_;
};

}  // namespace

PolicyOutcome Simulate(const FixedBatchPolicy& policy, const BatchTimes& times,
                       const std::vector<PolicyJob>& jobs) {
  return SimulateLine(times, jobs, [&](size_t waiting, double oldest_s, double now_s) -> Decision {
    const double due_s = oldest_s + policy.timeout_s;
    if (waiting >= policy.rows || now_s >= due_s) return {std::min(waiting, policy.rows), 0};
    return {0, due_s};
  });
}

PolicyOutcome Simulate(const PreferredSizesPolicy& policy, const BatchTimes& times,
                       const std::vector<PolicyJob>& jobs) {
  return SimulateLine(times, jobs, [&](size_t waiting, double oldest_s, double now_s) -> Decision {
    for (auto size = policy.sizes.rbegin(); size != policy.sizes.rend(); ++size) {
      if (waiting >= *size) return {*size, 0};
    }
    const double due_s = oldest_s + policy.delay_s;
    if (now_s >= due_s) return {waiting, 0};
    return {0, due_s};
  });
}

Expected<PolicyOutcome> Simulate(const OurPolicy& policy, const BatchTimes& times,
                                 const std::vector<PolicyJob>& jobs) {
  return SimulatedModel(policy, times, jobs).Run();
}

}  // namespace penstock

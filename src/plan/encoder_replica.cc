#include <algorithm>
#include <random>
#include <utility>

#include "plan/replica.h"
#include "sched/encode_batch.h"
#include "sched/encoder_scheduler.h"

namespace penstock::plan {
namespace {

class EncoderReplica final : public Replica {
 public:
  EncoderReplica(const EncoderCosts& costs, Answers* answers) : costs_(costs), answers_(answers) {
    sched::EncoderSchedulerOptions options;
    options.max_batch_tokens = costs.batch_tokens;
    options.length_max = costs.length_max;
    options.times = costs.batch;
    options.manual = true;
    options.now = [this] { return Moment(clock_s_); };
    options.model = "simulated";
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    runners.push_back(std::make_unique<Runner>(this));
    scheduler_ = std::make_unique<sched::EncoderScheduler>(std::move(runners), options, &metrics_);
  }

  Status Submit(const Request& request) override {
    clock_s_ = request.at_s;
    std::unique_ptr<sched::EncodeJob> job = NewJob();
    int32_t tokens = 0;
    for (const int32_t words : request.lengths) {
      const auto length =
          std::clamp(static_cast<int32_t>(words + costs_.added_tokens), 1, costs_.length_max);
      job->lengths.push_back(length);
      tokens += length;
    }
    job->ids.resize(static_cast<size_t>(tokens));
    job->context.priority = request.priority;
    // With what a request takes beside its batch.
    const double asked_s = request.at_s -
                           (outstanding_ > 0 ? costs_.outside_busy_s : costs_.outside_s) -
                           costs_.outside_token_s * tokens;
    const bool measured = request.at_s >= answers_->from_s;
    job->done = [this, asked_s, measured](std::unique_ptr<sched::EncodeJob> back, const Status&) {
      ++ended_;
      if (measured && back->context.priority == Priority::kInteractive) {
        answers_->whole.Add(1000 * (clock_s_ - asked_s));
      }
      used_.push_back(std::move(back));
    };
    const Status taken = scheduler_->Submit(std::move(job));
    if (!taken.ok()) return taken;
    if (outstanding_++ > 0) late_s_ += costs_.request_s;
    return taken;
  }

  double Step(double now_s) override {
    clock_s_ = now_s;
    // Its turn may be handed over in the first round and taken in the second.
    if (!scheduler_->Step()) scheduler_->Step();
    return clock_s_;
  }

 private:
  class Runner final : public program::EncoderRunner {
   public:
    explicit Runner(EncoderReplica* replica) : replica_(replica) {}
    int32_t OutputWidth(program::EncoderOutput output) const override {
      return output == program::EncoderOutput::kPooled ? 1 : 0;
    }
    Status Run(const program::PackedBatch& batch, program::EncoderOutput,
               std::span<float* const>) override {
      double work = 0;
      for (size_t s = 0; s < batch.sequences(); ++s) {
        work += static_cast<double>(sched::AttentionWork(batch.length(s)));
      }
      replica_->Pass(static_cast<double>(batch.tokens()), work);
      return Status::Ok();
    }

   private:
    EncoderReplica* const replica_;
  };

  void Pass(double tokens, double work) {
    double took_s = costs_.batch.Seconds(tokens, work) + late_s_;
    late_s_ = 0;
    if (costs_.noise > 0) took_s *= noise_(random_);
    took_s +=
        clock_s_ <= busy_until_s_ ? costs_.gap_s : costs_.cold_s + costs_.cold_token_s * tokens;
    clock_s_ += took_s;
    busy_until_s_ = clock_s_;
    busy_s_ += took_s;
  }

  // A job whose memory was used before.
  std::unique_ptr<sched::EncodeJob> NewJob() {
    auto job = std::make_unique<sched::EncodeJob>();
    if (used_.empty()) return job;
    const std::unique_ptr<sched::EncodeJob> used = std::move(used_.back());
    used_.pop_back();
    job->ids = std::move(used->ids);
    job->lengths = std::move(used->lengths);
    job->lengths.clear();
    return job;
  }

  const EncoderCosts costs_;
  Answers* const answers_;
  metrics::Metrics metrics_;
  double clock_s_ = 0;
  double busy_until_s_ = -1;
  std::mt19937_64 random_{1};
  // Its mean is 1.
  std::lognormal_distribution<double> noise_{-costs_.noise * costs_.noise / 2, costs_.noise};
  double late_s_ = 0;  // added to the next batch by requests that came
  std::vector<std::unique_ptr<sched::EncodeJob>> used_;
  std::unique_ptr<sched::EncoderScheduler> scheduler_;
};

}  // namespace

std::unique_ptr<Replica> NewEncoderReplica(const EncoderCosts& costs, Answers* answers) {
  return std::make_unique<EncoderReplica>(costs, answers);
}

}  // namespace penstock::plan

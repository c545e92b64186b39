#include "lab/policy_sim.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "sched/encode_batch.h"
#include "sched/encoder_scheduler.h"

namespace penstock::lab {
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
    const sched::BatchTimes& times, const std::vector<PolicyJob>& jobs,
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
      work += static_cast<double>(sched::AttentionWork(rows[i].length));
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

// Models that share a processor, one batch of theirs at a time.
class SimulatedProcessor {
 public:
  explicit SimulatedProcessor(const std::vector<EngineLoad>& loads) {
    for (const EngineLoad& load : loads) {
      engines_.push_back(std::make_unique<Engine>(load));
      Engine* const engine = engines_.back().get();
      sched::EncoderSchedulerOptions options;
      options.max_batch_tokens = load.policy.max_batch_tokens;
      options.length_max = load.policy.length_max;
      options.times = load.times;
      options.max_queued_tokens = INT64_MAX / 2;
      options.max_queued_rows = INT64_MAX / 2;
      options.manual = true;
      options.now = [this] { return Now(); };
      options.gate = &gate_;
      options.model = "simulated-" + std::to_string(engines_.size());
      std::vector<std::unique_ptr<program::EncoderRunner>> runners;
      runners.push_back(std::make_unique<Runner>(this, engine));
      engine->scheduler =
          std::make_unique<sched::EncoderScheduler>(std::move(runners), options, &metrics_);
    }
  }

  // Until all is answered, or that moment.
  Expected<std::vector<EngineOutcome>> Run(double until_s) {
    while (status_.ok() && now_s_ < until_s && !AllAnswered()) {
      if (StepAny()) continue;
      const double next_s = NextArrival();
      PENSTOCK_CHECK(next_s < INFINITY);
      AdvanceTo(std::max(now_s_, next_s), nullptr);
    }
    if (!status_.ok()) return status_;
    std::vector<EngineOutcome> outcomes;
    for (const auto& engine : engines_) {
      engine->outcome.jobs.end_s = now_s_;
      outcomes.push_back(engine->outcome);
      engine->next = engine->load.jobs.size();
    }
    while (StepAny()) {  // all submitted jobs are answered before a scheduler ends
    }
    return outcomes;
  }

 private:
  struct Engine {
    explicit Engine(const EngineLoad& load_in) : load(load_in) {
      outcome.jobs.latency_s.resize(load.jobs.size());
      outcome.own_batch_s.resize(load.jobs.size());
    }
    const EngineLoad& load;
    size_t next = 0;  // job to come
    size_t answered = 0;
    EngineOutcome outcome;
    std::unique_ptr<sched::EncoderScheduler> scheduler;
  };
  // Jobs that arrive while a batch runs are submitted while it runs.
  class Runner final : public program::EncoderRunner {
   public:
    Runner(SimulatedProcessor* processor, Engine* engine)
        : processor_(processor), engine_(engine) {}
    int32_t OutputWidth(program::EncoderOutput output) const override {
      return output == program::EncoderOutput::kPooled ? 1 : 0;
    }
    Status Run(const program::PackedBatch& batch, program::EncoderOutput,
               std::span<float* const>) override {
      double work = 0;
      for (size_t s = 0; s < batch.sequences(); ++s) {
        work += static_cast<double>(sched::AttentionWork(batch.length(s)));
      }
      const double took_s = engine_->load.times.Seconds(static_cast<double>(batch.tokens()), work);
      EngineOutcome& outcome = engine_->outcome;
      ++outcome.jobs.batches;
      outcome.busy_s += took_s;
      for (size_t s = 0; s < batch.sequences(); ++s) {
        double& own_s =
            outcome
                .own_batch_s[static_cast<size_t>(batch.ids[static_cast<size_t>(batch.offsets[s])])];
        own_s = std::max(own_s, took_s);
      }
      processor_->AdvanceTo(processor_->now_s_ + took_s, engine_);
      return Status::Ok();
    }

   private:
    SimulatedProcessor* const processor_;
    Engine* const engine_;
  };

  Clock::time_point Now() const {
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 + now_s_)));
  }

  bool AllAnswered() const {
    return std::all_of(engines_.begin(), engines_.end(), [](const auto& engine) {
      return engine->answered == engine->load.jobs.size();
    });
  }
  double NextArrival() const {
    double next_s = INFINITY;
    for (const auto& engine : engines_) next_s = std::min(next_s, ArrivalOf(*engine));
    return next_s;
  }

  // Each model has a thread that asks for the processor. Two rounds: a model that gives it up in
  // the first may hand it to one that was asked before.
  bool StepAny() {
    bool ran = false;
    for (int round = 0; round < 2 && !ran; ++round) {
      for (const auto& engine : engines_) ran = engine->scheduler->Step() || ran;
    }
    return ran;
  }

  // Submits the jobs that arrive until then, while `running` has the processor.
  void AdvanceTo(double until_s, const Engine* running) {
    while (true) {
      const auto first = std::min_element(
          engines_.begin(), engines_.end(),
          [](const auto& a, const auto& b) { return ArrivalOf(*a) < ArrivalOf(*b); });
      const double arrival_s = ArrivalOf(**first);
      if (arrival_s > until_s) break;
      now_s_ = std::max(now_s_, arrival_s);
      Submit(first->get());
      // Its thread gets into line at once.
      if (running != nullptr && first->get() != running) (*first)->scheduler->Step();
    }
    now_s_ = until_s;
  }
  static double ArrivalOf(const Engine& engine) {
    return engine.next == engine.load.jobs.size() ? INFINITY
                                                  : engine.load.jobs[engine.next].arrival_s;
  }

  void Submit(Engine* engine) {
    const size_t index = engine->next++;
    const PolicyJob& from = engine->load.jobs[index];
    auto job = std::make_unique<sched::EncodeJob>();
    job->lengths = from.lengths;
    size_t tokens = 0;
    for (const int32_t length : from.lengths) tokens += static_cast<size_t>(length);
    job->ids.assign(tokens, static_cast<int32_t>(index));
    job->context.priority = from.priority;
    job->done = [this, engine, index](std::unique_ptr<sched::EncodeJob>, Status status) {
      if (!status.ok()) status_ = std::move(status);
      engine->outcome.jobs.latency_s[index] = now_s_ - engine->load.jobs[index].arrival_s;
      ++engine->answered;
    };
    if (Status status = engine->scheduler->Submit(std::move(job)); !status.ok()) status_ = status;
  }

  gate::ComputeGate gate_;
  metrics::Metrics metrics_;
  Status status_;
  double now_s_ = 0;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace

PolicyOutcome Simulate(const FixedBatchPolicy& policy, const sched::BatchTimes& times,
                       const std::vector<PolicyJob>& jobs) {
  return SimulateLine(times, jobs, [&](size_t waiting, double oldest_s, double now_s) -> Decision {
    const double due_s = oldest_s + policy.timeout_s;
    if (waiting >= policy.rows || now_s >= due_s) return {std::min(waiting, policy.rows), 0};
    return {0, due_s};
  });
}

PolicyOutcome Simulate(const PreferredSizesPolicy& policy, const sched::BatchTimes& times,
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

Expected<PolicyOutcome> Simulate(const OurPolicy& policy, const sched::BatchTimes& times,
                                 const std::vector<PolicyJob>& jobs) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<EngineOutcome> outcomes,
                            SimulateShared({{policy, times, jobs}}));
  return std::move(outcomes.front().jobs);
}

Expected<std::vector<EngineOutcome>> SimulateShared(const std::vector<EngineLoad>& engines,
                                                    double until_s) {
  return SimulatedProcessor(engines).Run(until_s);
}

}  // namespace penstock::lab

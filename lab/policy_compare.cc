#include "lab/policy_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "load/table.h"
#include "program/backend.h"
#include "sched/encode_batch.h"

namespace penstock::lab {
namespace {

constexpr int kBurstMax = 63;
constexpr size_t kBulkRows = 256;
// A policy keeps up if its last answer comes at most this share of the time after the last arrival.
constexpr double kLateMax = 0.02;

const char* ArrivalsName(Arrivals arrivals) {
  switch (arrivals) {
    case Arrivals::kPoisson:
      return "poisson";
    case Arrivals::kBursty:
      return "bursty";
    case Arrivals::kMixed:
      return "mixed";
  }
  return "";
}

struct Lengths {
  explicit Lengths(const PolicyBenchOptions& options)
      : max(options.length_max), draw(std::log(options.length_median), options.length_sigma) {}
  int32_t Next(std::mt19937_64* random) {
    return std::clamp(static_cast<int32_t>(std::lround(draw(*random))), std::min(4, max), max);
  }
  int32_t max;
  std::lognormal_distribution<double> draw;
};

// Means over lengths: what a token costs with its attention.
struct LengthMeans {
  double tokens = 0;
  double work = 0;
};

LengthMeans MeanLengths(const PolicyBenchOptions& options) {
  std::mt19937_64 random(options.seed);
  Lengths lengths(options);
  constexpr int kDraws = 20'000;
  LengthMeans means;
  for (int i = 0; i < kDraws; ++i) {
    const int32_t length = lengths.Next(&random);
    means.tokens += length / static_cast<double>(kDraws);
    means.work += static_cast<double>(sched::AttentionWork(length)) / kDraws;
  }
  return means;
}

struct Measured {
  std::string policy;
  double p50_ms = 0, p95_ms = 0, p99_ms = 0;
  double rows_per_s = 0;
  double rows_per_batch = 0;
  bool keeps_up = false;
};

double Percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * sorted.size()))];
}

Measured Summarise(std::string policy, const std::vector<PolicyJob>& jobs,
                   const PolicyOutcome& outcome) {
  Measured measured;
  measured.policy = std::move(policy);
  std::vector<double> interactive;
  size_t rows = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    rows += jobs[i].lengths.size();
    if (jobs[i].priority == Priority::kInteractive) interactive.push_back(outcome.latency_s[i]);
  }
  std::sort(interactive.begin(), interactive.end());
  measured.p50_ms = 1000 * Percentile(interactive, 0.5);
  measured.p95_ms = 1000 * Percentile(interactive, 0.95);
  measured.p99_ms = 1000 * Percentile(interactive, 0.99);
  measured.rows_per_s = static_cast<double>(rows) / outcome.end_s;
  measured.rows_per_batch = static_cast<double>(rows) / static_cast<double>(outcome.batches);
  const double last_s = jobs.back().arrival_s;
  measured.keeps_up = outcome.end_s - last_s <= kLateMax * last_s;
  return measured;
}

// Ours first.
Expected<std::vector<Measured>> MeasureAll(const PolicyBenchOptions& options, const OurPolicy& ours,
                                           const std::vector<PolicyJob>& jobs) {
  std::vector<Measured> all;
  PENSTOCK_ASSIGN_OR_RETURN(const PolicyOutcome our, Simulate(ours, options.times, jobs));
  all.push_back(Summarise(fmt::format("penstock, {} tokens", ours.max_batch_tokens), jobs, our));
  for (const size_t rows : {32, 64, 96}) {
    for (const double timeout_ms : {5, 50}) {
      const FixedBatchPolicy fixed{rows, timeout_ms / 1000};
      all.push_back(Summarise(fmt::format("fixed {}, timeout {} ms", rows, timeout_ms), jobs,
                              Simulate(fixed, options.times, jobs)));
    }
  }
  for (const double delay_ms : {0, 1, 5}) {
    const PreferredSizesPolicy preferred{{8, 16, 32, 64}, delay_ms / 1000};
    all.push_back(Summarise(fmt::format("preferred 8-64, delay {} ms", delay_ms), jobs,
                            Simulate(preferred, options.times, jobs)));
  }
  return all;
}

}  // namespace

std::vector<PolicyJob> MakeArrivals(Arrivals arrivals, double tokens_per_s, double seconds,
                                    const PolicyBenchOptions& options) {
  std::mt19937_64 random(options.seed);
  Lengths lengths(options);
  const double row_tokens = MeanLengths(options).tokens;
  std::vector<PolicyJob> jobs;
  const auto add = [&](double rows_per_s, size_t rows, int burst_max, Priority priority) {
    const double jobs_per_moment = (1 + burst_max) / 2.0;
    std::exponential_distribution<double> gap(rows_per_s / static_cast<double>(rows) /
                                              jobs_per_moment);
    std::uniform_int_distribution<int> burst(1, burst_max);
    for (double at = gap(random); at < seconds; at += gap(random)) {
      for (int i = burst(random); i > 0; --i) {
        PolicyJob job{at, priority, {}};
        for (size_t row = 0; row < rows; ++row) job.lengths.push_back(lengths.Next(&random));
        jobs.push_back(std::move(job));
      }
    }
  };
  const double rows_per_s = tokens_per_s / row_tokens;
  const bool mixed = arrivals == Arrivals::kMixed;
  add(mixed ? rows_per_s / 2 : rows_per_s, 1, arrivals == Arrivals::kBursty ? kBurstMax : 1,
      Priority::kInteractive);
  if (mixed) add(rows_per_s / 2, kBulkRows, 1, Priority::kBulk);
  std::stable_sort(jobs.begin(), jobs.end(), [](const PolicyJob& a, const PolicyJob& b) {
    return a.arrival_s < b.arrival_s;
  });
  return jobs;
}

Status RunPolicyBench(const PolicyBenchOptions& options, load::BenchRecords* records) {
  const LengthMeans means = MeanLengths(options);
  OurPolicy ours;
  ours.length_max = options.length_max;
  ours.max_batch_tokens = sched::KneeTokens(options.times, std::min(32, options.length_max),
                                            program::BackendSizes().batch_tokens);
  const double rows = ours.max_batch_tokens / means.tokens;
  const double tokens_per_s =
      ours.max_batch_tokens / options.times.Seconds(ours.max_batch_tokens, rows * means.work);
  fmt::print(
      "A batch takes {:.1f} us + {:.3f} us a token + {:.3f} ns a squared length; the other "
      "policies "
      "pay no padding either.\nRows of {:.0f} tokens on average (log-normal); load 1 is {:.0f} "
      "rows/s.\n",
      options.times.fixed_s * 1e6, options.times.token_s * 1e6, options.times.work_s * 1e9,
      means.tokens, tokens_per_s / means.tokens);
  double worst = 0;
  for (const Arrivals arrivals : {Arrivals::kPoisson, Arrivals::kBursty, Arrivals::kMixed}) {
    for (const double load : options.loads) {
      const std::vector<PolicyJob> jobs =
          MakeArrivals(arrivals, load * tokens_per_s, options.simulated_s, options);
      if (jobs.empty())
        return Status::InvalidArgument("no job arrives in that time", "simulated-s");
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Measured> all, MeasureAll(options, ours, jobs));
      const std::string cell = fmt::format("{} load={}", ArrivalsName(arrivals), load);
      fmt::print("\n{}{}\n", cell,
                 arrivals == Arrivals::kMixed ? " (latencies of the interactive jobs)" : "");
      load::BenchTable table({"policy", "p50 ms", "p95 ms", "p99 ms", "rows/s", "rows/batch", ""});
      double best_other = INFINITY;
      for (const Measured& one : all) {
        table.AddRow({one.policy, load::ShortNumber(one.p50_ms), load::ShortNumber(one.p95_ms),
                      load::ShortNumber(one.p99_ms), load::ShortNumber(one.rows_per_s),
                      load::ShortNumber(one.rows_per_batch), one.keeps_up ? "" : "falls behind"});
        records->Add("policy.p95_ms", one.p95_ms, "ms", cell + " " + one.policy);
        if (&one != &all[0] && one.keeps_up) best_other = std::min(best_other, one.p95_ms);
      }
      table.Print();
      // A cell that ours does not keep up with, and another does, would be a loss without bound.
      const bool lost = !all[0].keeps_up && best_other < INFINITY;
      worst = std::max(worst, lost ? INFINITY : all[0].p95_ms / best_other);
    }
  }
  fmt::print("\np95 of penstock / best other, worst of the table: {:.3f}\n", worst);
  records->Add("policy.worst_p95_ratio_vs_best_other", worst, "1");
  return Status::Ok();
}

}  // namespace penstock::lab

#include "lab/policy_sim.h"

#include <gtest/gtest.h>

#include "lab/policy_compare.h"
#include "lab/policy_shared.h"

namespace penstock::lab {
namespace {

constexpr sched::BatchTimes kTimes = {.fixed_s = 1e-3, .token_s = 1e-5, .work_s = 0};

TEST(PolicySim, FixedBatchesGoWhenFullOrLate) {
  std::vector<PolicyJob> jobs;
  for (int i = 0; i < 5; ++i) jobs.push_back({0.001 * i, Priority::kInteractive, {100}});
  // Three at 2 ms (4 ms long); the other two are late at 3 + 10 ms (3 ms long).
  const PolicyOutcome outcome = Simulate(FixedBatchPolicy{3, 0.010}, kTimes, jobs);
  EXPECT_EQ(outcome.batches, 2u);
  EXPECT_NEAR(outcome.latency_s[0], 0.006, 1e-9);
  EXPECT_NEAR(outcome.latency_s[2], 0.004, 1e-9);
  EXPECT_NEAR(outcome.latency_s[3], 0.013, 1e-9);
  EXPECT_NEAR(outcome.end_s, 0.016, 1e-9);
}

TEST(PolicySim, PreferredSizesTakeTheLargestThatFills) {
  std::vector<PolicyJob> jobs(1, {0, Priority::kInteractive, std::vector<int32_t>(7, 100)});
  const PolicyOutcome outcome = Simulate(PreferredSizesPolicy{{2, 4}, 0.005}, kTimes, jobs);
  // 4 at once (5 ms), 2 (3 ms), and the last alone: it has waited for more than 5 ms.
  EXPECT_EQ(outcome.batches, 3u);
  EXPECT_NEAR(outcome.latency_s[0], 0.005 + 0.003 + 0.002, 1e-9);
}

TEST(PolicySim, OursIsTheSchedulerItself) {
  std::vector<PolicyJob> jobs;
  jobs.push_back({0.0, Priority::kInteractive, {100}});
  jobs.push_back({0.001, Priority::kInteractive, {100}});
  jobs.push_back({0.0015, Priority::kInteractive, {100}});
  auto outcome = Simulate(OurPolicy{}, kTimes, jobs);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  // The first at once and alone, the others together when it is over.
  EXPECT_EQ(outcome->batches, 2u);
  EXPECT_NEAR(outcome->latency_s[0], 0.002, 1e-6);
  EXPECT_NEAR(outcome->latency_s[1], 0.004, 1e-6);
  EXPECT_NEAR(outcome->latency_s[2], 0.0035, 1e-6);
}

TEST(PolicyBench, ArrivalsHaveTheRateTheyShould) {
  PolicyBenchOptions options;
  for (const Arrivals arrivals : {Arrivals::kPoisson, Arrivals::kBursty, Arrivals::kMixed}) {
    const std::vector<PolicyJob> jobs = MakeArrivals(arrivals, 50'000, 100, options);
    double tokens = 0;
    double before = 0;
    for (const PolicyJob& job : jobs) {
      EXPECT_GE(job.arrival_s, before);
      before = job.arrival_s;
      for (const int32_t length : job.lengths) tokens += length;
    }
    EXPECT_NEAR(tokens / 100, 50'000, 5'000);
  }
}

TEST(PolicyBench, RecordsTheWorstRatio) {
  PolicyBenchOptions options;
  options.times = kTimes;
  options.simulated_s = 3;
  options.loads = {0.5};
  load::BenchRecords records;
  testing::internal::CaptureStdout();
  const Status status = RunPolicyBench(options, &records);
  const std::string table = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_NE(table.find("bursty load=0.5"), std::string::npos);
  EXPECT_NE(records.ToJsonLines().find("policy.worst_p95_ratio_vs_best_other"), std::string::npos);
}

TEST(PolicyBench, TwoModelsOnOneProcessor) {
  PolicyBenchOptions options;
  options.times = {.fixed_s = 165e-6, .token_s = 194e-6, .work_s = 111e-9};
  options.simulated_s = 20;
  load::BenchRecords records;
  testing::internal::CaptureStdout();
  const Status status = RunSharedPolicyBench(options, &records);
  const std::string table = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_NE(table.find("interactive load=0.1, bulk"), std::string::npos);
  const std::string lines = records.ToJsonLines();
  const auto value = [&](const std::string& name) {
    const size_t at = lines.find("\"name\":\"" + name + "\"");
    EXPECT_NE(at, std::string::npos) << name << " in " << lines;
    return std::stod(lines.substr(lines.find("\"value\":", at) + 8));
  };
  EXPECT_LE(value("policy.gate_interactive_p95_over_bound"), 1);
  EXPECT_GE(value("policy.gate_interactive_p95_over_bound"), 0.1);
  EXPECT_NEAR(value("policy.gate_bulk_share"), 1.0 / 9, 0.02);
  EXPECT_LE(value("policy.gate_share_error"), 0.025);
}

}  // namespace
}  // namespace penstock::lab

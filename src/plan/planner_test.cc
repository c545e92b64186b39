#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace penstock::plan {
namespace {

using testing::HasSubstr;

Costs Plain() {
  Costs costs;
  costs.encoder = EncoderCosts{.batch = {1e-3, 1e-4, 0}, .batch_tokens = 1000};
  return costs;
}

PlanOptions Options(double rate, const std::string& slo) {
  PlanOptions options;
  options.workload.rate = rate;
  options.workload.lengths.kind = load::LengthSpec::Kind::kFixed;
  options.workload.lengths.min = options.workload.lengths.max = 100;
  options.objectives = {*Objective::Parse(slo, false)};
  return options;
}

TEST(Objective, Parses) {
  EXPECT_EQ(Objective::Parse("p95=50ms", false)->Text(), "p95 within 50 ms");
  EXPECT_EQ(Objective::Parse("p99.9=0.2s", false)->Text(), "p99.9 within 200 ms");
  EXPECT_EQ(Objective::Parse("p95=1s", true)->Text(), "ttft p95 within 1000 ms");
  EXPECT_EQ(Objective::Parse("itl.p50=20ms", true)->Text(), "itl p50 within 20 ms");
  EXPECT_EQ(Objective::Parse("e2el.p95=10s", true)->of, Objective::Of::kWhole);
  for (const char* wrong : {"", "p95", "p95=", "p95=50", "p0=1s", "p100=1s", "95=50ms", "p95=-1s",
                            "p95=50ms ", "ttft.p95=50ms", "p95=50m"}) {
    const auto parsed = Objective::Parse(wrong, false);
    EXPECT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.status().field(), "slo");
    EXPECT_THAT(parsed.status().message(), HasSubstr(std::string("'") + wrong + "'"));
  }
}

TEST(Planner, FindsTheSmallestNumber) {
  const auto planner = Planner::Make(Plain(), Options(500, "p95=40ms"));
  ASSERT_TRUE(planner.ok()) << planner.status().ToString();
  EXPECT_NEAR(planner->DemandSeconds(), 0.0101, 1e-4);
  const auto plan = planner->Find(2);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_NEAR(plan->perfect, 6, 0.5);
  EXPECT_GE(plan->chosen.replicas, plan->perfect);
  EXPECT_LE(plan->chosen.replicas, 9);
  EXPECT_TRUE(plan->chosen.keeps());
  EXPECT_FALSE(planner->At(plan->chosen.replicas - 1, 500)->keeps());
  ASSERT_EQ(plan->fewer.size(), 2u);
  EXPECT_EQ(plan->fewer[1].replicas, plan->chosen.replicas - 2);
  EXPECT_GT(plan->fewer[1].busy_share, plan->chosen.busy_share);
  EXPECT_GE(plan->headroom, 1);
  EXPECT_FALSE(plan->over.keeps());
  EXPECT_GT(plan->over.rate, plan->headroom * 500);
  EXPECT_LE(plan->chosen.lowest_ms[0], plan->chosen.highest_ms[0]);
}

TEST(Planner, AGivenNumberThatIsTooSmall) {
  const auto planner = Planner::Make(Plain(), Options(500, "p95=40ms"));
  ASSERT_TRUE(planner.ok());
  const auto plan = planner->Of(4, 1);
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->chosen.keeps());
  EXPECT_LT(plan->headroom, 0.85);
  EXPECT_GT(plan->headroom, 0.4);
}

TEST(Planner, AnObjectiveThatNothingKeeps) {
  const auto planner = Planner::Make(Plain(), Options(500, "p95=2ms"));
  ASSERT_TRUE(planner.ok());
  const auto plan = planner->Find(1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().field(), "slo");
  EXPECT_THAT(plan.status().message(), HasSubstr("p95 within 2 ms"));
}

// Fleets beyond the slice are as good as those within it.
TEST(Planner, WhatCannotBePlannedIsSaid) {
  const auto message = [](const PlanOptions& options) {
    const auto planner = Planner::Make(Plain(), options);
    EXPECT_TRUE(planner.ok());
    return planner->Find(1).status().message();
  };
  EXPECT_THAT(message(Options(1e9, "p95=40ms")), HasSubstr("that are always busy"));
  PlanOptions bulk = Options(10, "p95=40ms");
  bulk.workload.bulk_share = 1;
  EXPECT_THAT(message(bulk), HasSubstr("no interactive request"));
  PlanOptions huge = Options(0.01, "p95=40ms");
  huge.workload.texts = 20'000;
  EXPECT_THAT(message(huge), HasSubstr("more than a queue holds"));
}

// A load that one replica has no trouble with.
TEST(Planner, NoLimitIsNotMadeUp) {
  const auto planner = Planner::Make(Plain(), Options(0.01, "p95=40ms"));
  ASSERT_TRUE(planner.ok());
  const auto plan = planner->Find(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->chosen.replicas, 1);
  EXPECT_TRUE(plan->over.keeps());
  EXPECT_GT(plan->headroom, 10);
}

TEST(Planner, LargeFleets) {
  const auto planner = Planner::Make(Plain(), Options(20'000, "p95=40ms"));
  ASSERT_TRUE(planner.ok());
  const auto plan = planner->Find(0);
  ASSERT_TRUE(plan.ok());
  EXPECT_GE(plan->chosen.replicas, plan->perfect);
  EXPECT_LE(plan->chosen.replicas, 1.15 * plan->perfect);
  EXPECT_GT(plan->perfect, 200);
}

TEST(Planner, CostsAndRequestsGoTogether) {
  PlanOptions options = Options(1, "p95=40ms");
  options.workload.chat = true;
  EXPECT_THAT(Planner::Make(Plain(), options).status().message(), HasSubstr("--lengths"));
  Costs chat;
  chat.decoder =
      DecoderCosts{.step = {0.01, 0.012, 0.01, 0.0005, 0}, .context = 512, .cache_blocks = 64};
  EXPECT_THAT(Planner::Make(chat, Options(1, "p95=40ms")).status().message(),
              HasSubstr("--prompts"));
}

}  // namespace
}  // namespace penstock::plan

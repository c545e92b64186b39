// Fleets on the simulated clock, held to what queueing theory says of simple ones.
#include "plan/fleet.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace penstock::plan {
namespace {

load::LengthSpec Fixed(int32_t tokens) {
  load::LengthSpec lengths;
  lengths.kind = load::LengthSpec::Kind::kFixed;
  lengths.min = lengths.max = tokens;
  return lengths;
}

// A text of 100 tokens takes 10 ms; nothing else takes time.
Costs Plain(int32_t batch_tokens) {
  Costs costs;
  costs.encoder = EncoderCosts{.batch = {0, 1e-4, 0}, .batch_tokens = batch_tokens};
  return costs;
}

Workload At(double rate) {
  Workload workload;
  workload.rate = rate;
  workload.lengths = Fixed(100);
  return workload;
}

FleetOutcome RunFleet(const Costs& costs, const Workload& workload, const FleetRun& run,
                      const ChatModel* chat = nullptr) {
  auto outcome = SimulateFleet(costs, chat, workload, run);
  EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
  return *std::move(outcome);
}

// Batches of one text: M/D/1, whose mean wait is rho * service / (2 (1 - rho)).
TEST(Fleet, OneReplicaIsTheQueueOfTheBooks) {
  for (const double rho : {0.3, 0.5, 0.7, 0.85}) {
    const FleetOutcome outcome =
        RunFleet(Plain(100), At(100 * rho), {.warmup_s = 50, .seconds = 4000});
    const double expected_ms = 10 + 10 * rho / (2 * (1 - rho));
    EXPECT_NEAR(outcome.answers.whole.mean_ms(), expected_ms, 0.05 * expected_ms) << rho;
    EXPECT_NEAR(outcome.busy_share, rho, 0.01);
    EXPECT_EQ(outcome.answers.refused, 0u);
    EXPECT_EQ(outcome.answers.whole.count(), outcome.answers.requests);
  }
}

// What batches cost once is shared by all that wait: the queue does not grow at a rate that single
// ones could not keep.
TEST(Fleet, BatchesShareTheirFixedCost) {
  Costs costs = Plain(1000);
  costs.encoder->batch = {0.009, 1e-5, 0};  // 10 ms alone, 19 ms for ten
  const FleetOutcome outcome = RunFleet(costs, At(300), {.warmup_s = 5, .seconds = 100});
  EXPECT_LT(outcome.answers.whole.PercentileMs(0.99), 100);
  EXPECT_GT(outcome.busy_share, 0.9);
}

TEST(Fleet, WhatARequestTakesBesideItsBatchIsAdded) {
  Costs costs = Plain(100);
  costs.encoder->outside_s = 0.005;
  costs.encoder->outside_token_s = 1e-5;
  costs.encoder->cold_s = 0.002;
  const FleetOutcome outcome = RunFleet(costs, At(0.5), {.seconds = 200});
  EXPECT_NEAR(outcome.answers.whole.PercentileMs(0.5), 10 + 5 + 1 + 2, 0.2);
}

TEST(Fleet, RoutingByLoadBeatsRoutingBlindly) {
  Workload workload = At(250);
  workload.lengths = {};  // log-normal
  workload.lengths.mean = 100;
  workload.lengths.max = 500;
  const auto p95 = [&workload](Routing routing) {
    return RunFleet(Plain(100), workload,
                    {.replicas = 4, .routing = routing, .warmup_s = 5, .seconds = 200})
        .answers.whole.PercentileMs(0.95);
  };
  const double least = p95(Routing::kLeast);
  EXPECT_LT(least, p95(Routing::kRoundRobin));
  EXPECT_LT(p95(Routing::kRoundRobin), p95(Routing::kRandom));
  EXPECT_LT(1.5 * least, p95(Routing::kRandom));
}

TEST(Fleet, EqualSeedsGiveEqualRuns) {
  const FleetRun run{.replicas = 3, .routing = Routing::kRandom, .seconds = 50, .seed = 5};
  EXPECT_EQ(RunFleet(Plain(300), At(200), run).answers.whole.mean_ms(),
            RunFleet(Plain(300), At(200), run).answers.whole.mean_ms());
}

TEST(Fleet, MoreThanTheQueueHoldsIsRefused) {
  const FleetOutcome outcome = RunFleet(Plain(100), At(2000), {.seconds = 30});
  EXPECT_GT(outcome.answers.refused, 0u);
  EXPECT_EQ(outcome.answers.whole.count() + outcome.answers.refused, outcome.answers.requests);
}

TEST(Fleet, BulkWorkWaitsForOthers) {
  Workload workload = At(90);
  workload.bulk_share = 0.5;
  const FleetOutcome outcome = RunFleet(Plain(100), workload, {.warmup_s = 5, .seconds = 300});
  EXPECT_LT(outcome.answers.whole.PercentileMs(0.95), 50) << "of interactive requests";
  EXPECT_LT(outcome.answers.whole.count(), outcome.answers.requests * 6 / 10);
}

// A million requests a second, as a large fleet has them. How fast it is simulated is printed.
TEST(Fleet, SixtyFourReplicasAtAMillionRequests) {
  Costs costs = Plain(4096);
  costs.encoder->batch = {1e-4, 5e-7, 0};
  Workload workload = At(1e6);
  workload.lengths = Fixed(64);
  const auto begin = std::chrono::steady_clock::now();
  const FleetOutcome outcome =
      RunFleet(costs, workload, {.replicas = 64, .warmup_s = 0.1, .seconds = 1});
  const double took_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  GTEST_LOG_(INFO) << outcome.answers.requests / 0.9 / took_s
                   << " requests a second were simulated";
  EXPECT_NEAR(static_cast<double>(outcome.answers.requests), 9e5, 1e4);
  EXPECT_EQ(outcome.answers.refused, 0u);
  EXPECT_LT(outcome.answers.whole.PercentileMs(0.95), 10);
}

// --- Text ------------------------------------------------------------------------------------

Costs Chat() {
  Costs costs;
  costs.decoder = DecoderCosts{.step = {0.010, 0.012, 0.010, 0.0005, 0},
                               .outside_s = 0.001,
                               .context = 2048,
                               .sequences = 16,
                               .cache_blocks = 512};
  return costs;
}

Workload Chats(double rate, int32_t prompt, int32_t output) {
  Workload workload;
  workload.chat = true;
  workload.rate = rate;
  workload.prompts = Fixed(prompt);
  workload.outputs = Fixed(output);
  workload.context = 2048;
  return workload;
}

TEST(ChatFleet, ATextAloneTakesItsSteps) {
  const auto model = ChatModel::Make(2048);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const FleetOutcome outcome =
      RunFleet(Chat(), Chats(0.1, 100, 20), {.seconds = 300}, model->get());
  EXPECT_GT(outcome.answers.requests, 10u);
  EXPECT_NEAR(outcome.answers.first_token.PercentileMs(0.5), 1 + 10 + 50, 1);
  EXPECT_NEAR(outcome.answers.between_tokens.PercentileMs(0.5), 10, 0.2);
  EXPECT_NEAR(outcome.answers.whole.PercentileMs(0.5), 61 + 19 * 10, 3);
  EXPECT_EQ(outcome.answers.whole.count(), outcome.answers.requests);
}

// The words of the template are in the cache but for the first prompt; each row of which logits are
// wanted adds to its step.
TEST(ChatFleet, TemplatesAreCachedAndLogitsTakeTime) {
  const auto model = ChatModel::Make(2048);
  ASSERT_TRUE(model.ok());
  Costs costs = Chat();
  costs.decoder->template_tokens = 64;
  costs.decoder->pick_s = 0.004;
  const FleetOutcome outcome = RunFleet(costs, Chats(0.1, 100, 20), {.seconds = 300}, model->get());
  EXPECT_NEAR(outcome.answers.first_token.PercentileMs(0.5), 1 + 10 + 18 + 4, 1);
  EXPECT_NEAR(outcome.answers.between_tokens.PercentileMs(0.5), 14, 0.3);
}

// Conversations that stay with their replica find their beginning in its cache.
TEST(ChatFleet, AffinitySavesPrompts) {
  const auto model = ChatModel::Make(2048);
  ASSERT_TRUE(model.ok());
  Workload workload = Chats(20, 64, 4);
  workload.turns = 8;
  const auto busy = [&](Routing routing) {
    return RunFleet(Chat(), workload,
                    {.replicas = 4, .routing = routing, .warmup_s = 5, .seconds = 60}, model->get())
        .busy_share;
  };
  EXPECT_LT(busy(Routing::kAffinity), 0.85 * busy(Routing::kRandom));
}

TEST(ChatFleet, ASmallCacheMakesTextsBeginAnew) {
  const auto model = ChatModel::Make(2048);
  ASSERT_TRUE(model.ok());
  Costs costs = Chat();
  costs.decoder->cache_blocks = 64;
  const FleetOutcome outcome = RunFleet(costs, Chats(3, 400, 200), {.seconds = 30}, model->get());
  EXPECT_GT(outcome.cache_peak, 0.9);
  EXPECT_GT(outcome.preemptions, 0u);
  EXPECT_EQ(outcome.answers.whole.count() + outcome.answers.refused, outcome.answers.requests);
}

}  // namespace
}  // namespace penstock::plan

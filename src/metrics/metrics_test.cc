#include "metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "metrics/demand.h"

namespace penstock::metrics {
namespace {

using testing::HasSubstr;

TEST(Metrics, RendersEveryFamilyOnceWithHelpAndType) {
  Metrics metrics;
  Counter& ok = metrics.AddCounter("requests_total", "Requests.", R"(code="200")");
  metrics.AddGauge("queue", "Waiting.").Set(-3);
  // Registered after another family, yet printed beside its own.
  metrics.AddCounter("requests_total", "Requests.", R"(code="500")");
  ok.Add();
  ok.Add(4);
  EXPECT_EQ(metrics.Render(),
            "# HELP requests_total Requests.\n"
            "# TYPE requests_total counter\n"
            "requests_total{code=\"200\"} 5\n"
            "requests_total{code=\"500\"} 0\n"
            "# HELP queue Waiting.\n"
            "# TYPE queue gauge\n"
            "queue -3\n");
}

TEST(Metrics, WhatIsPrintedOnceUsedIsNotThereBefore) {
  Metrics metrics;
  const auto shown = Metrics::Shown::kOnceUsed;
  Counter& a = metrics.AddCounter("a_total", "A.", R"(code="200")", shown);
  metrics.AddCounter("a_total", "A.", R"(code="500")", shown);
  Histogram& h = metrics.AddHistogram("h", "H.", {1}, R"(route="x")", shown);
  metrics.AddHistogram("h", "H.", {1}, R"(route="y")", shown);
  EXPECT_EQ(metrics.Render(), "");  // no header of a family without series, either
  a.Add();
  h.Observe(7);  // above the last bound
  EXPECT_EQ(metrics.Render(),
            "# HELP a_total A.\n# TYPE a_total counter\na_total{code=\"200\"} 1\n"
            "# HELP h H.\n# TYPE h histogram\nh_bucket{route=\"x\",le=\"1\"} 0\n"
            "h_bucket{route=\"x\",le=\"+Inf\"} 1\nh_sum{route=\"x\"} 7\nh_count{route=\"x\"} 1\n");
}

TEST(Metrics, SameNameAndLabelsGiveTheSameObject) {
  Metrics metrics;
  Counter& a = metrics.AddCounter("a_total", "A.", R"(x="1")");
  for (int i = 0; i < 1000; ++i) {
    metrics.AddCounter("b_total", "B.", MetricLabel("i", std::to_string(i)));
  }
  EXPECT_EQ(&a, &metrics.AddCounter("a_total", "A.", R"(x="1")"));
  EXPECT_NE(&a, &metrics.AddCounter("a_total", "A.", R"(x="2")"));
}

TEST(Metrics, LabelsAndHelpAreEscaped) {
  EXPECT_EQ(MetricLabel("model", "a\\b\"c\nd"), R"(model="a\\b\"c\nd")");
  Metrics metrics;
  metrics.AddGauge("g", "one\ntwo \\ three");
  EXPECT_THAT(metrics.Render(), HasSubstr("# HELP g one\\ntwo \\\\ three\n"));
}

TEST(Metrics, HistogramIsCumulativeWithLabels) {
  Metrics metrics;
  Histogram& h = metrics.AddHistogram("d_seconds", "D.", {0.5, 1, 2.5}, R"(m="x")");
  for (const double v : {0.5, 0.6, 1.0, 2.0, 100.0}) h.Observe(v);
  EXPECT_EQ(h.bucket(0), 1u);
  EXPECT_EQ(h.bucket(1), 2u);
  EXPECT_THAT(metrics.Render(), HasSubstr("d_seconds_bucket{m=\"x\",le=\"0.5\"} 1\n"
                                          "d_seconds_bucket{m=\"x\",le=\"1\"} 3\n"
                                          "d_seconds_bucket{m=\"x\",le=\"2.5\"} 4\n"
                                          "d_seconds_bucket{m=\"x\",le=\"+Inf\"} 5\n"
                                          "d_seconds_sum{m=\"x\"} 104.1\n"
                                          "d_seconds_count{m=\"x\"} 5\n"));
}

TEST(Metrics, DurationsArePrintedInSecondsWithExactBounds) {
  Metrics metrics;
  DurationHistogram& h = metrics.AddDurations("d_seconds", "D.", R"(stage="x")");
  for (const int64_t ns : {1000, 1023, 1024, 2'000'000'000}) h.Record(ns);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("# TYPE d_seconds histogram\n"
                              "d_seconds_bucket{stage=\"x\",le=\"1.024e-06\"} 2\n"
                              "d_seconds_bucket{stage=\"x\",le=\"2.048e-06\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("le=\"1.073741824\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("le=\"2.147483648\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("d_seconds_bucket{stage=\"x\",le=\"+Inf\"} 4\n"
                              "d_seconds_sum{stage=\"x\"} 2.000003047\n"
                              "d_seconds_count{stage=\"x\"} 4\n"));
}

TEST(Metrics, FunctionsAreAskedWhenPrinted) {
  Metrics metrics;
  double value = 1.5;
  metrics.AddFunction("f", "F.", Metrics::Kind::kGauge, [&value] { return value; });
  EXPECT_THAT(metrics.Render(), HasSubstr("# TYPE f gauge\nf 1.5\n"));
  value = 3;
  EXPECT_THAT(metrics.Render(), HasSubstr("\nf 3\n"));
  metrics.AddFunction("f", "F.", Metrics::Kind::kGauge, [] { return 7.0; });
  EXPECT_THAT(metrics.Render(), HasSubstr("\nf 7\n"));
}

TEST(Metrics, NanDoesNotPoisonTheSum) {
  Histogram h({1});
  h.Observe(std::numeric_limits<double>::quiet_NaN());
  h.Observe(0.25);
  EXPECT_EQ(h.sum(), 0.25);
  EXPECT_EQ(h.bucket(1), 1u);
}

TEST(MetricsDeathTest, RefusesBadBounds) {
  EXPECT_DEATH(Histogram({2, 1}), "");
  EXPECT_DEATH(Histogram({1, 1}), "");
  EXPECT_DEATH(Histogram(std::vector<double>(Histogram::kBoundsMax + 1)), "");
}

TEST(MetricsDeathTest, ANameHasOneType) {
  Metrics metrics;
  metrics.AddCounter("x", "X.");
  EXPECT_DEATH(metrics.AddGauge("x", "X."), "");
}

TEST(Metrics, UpdatesFromManyThreadsAreNotLost) {
  Metrics metrics;
  Counter& counter = metrics.AddCounter("c_total", "C.");
  Histogram& histogram = metrics.AddHistogram("h", "H.", {1, 2});
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        counter.Add();
        histogram.Observe(i % 3 + 0.5);
      }
    });
  }
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(metrics.Render().empty());
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), uint64_t{kThreads} * kRounds);
  uint64_t seen = histogram.bucket(0) + histogram.bucket(1) + histogram.bucket(2);
  EXPECT_EQ(seen, uint64_t{kThreads} * kRounds);
  double expected = 0;
  for (int i = 0; i < kRounds; ++i) expected += i % 3 + 0.5;
  EXPECT_EQ(histogram.sum(), expected * kThreads);  // halves add exactly
}

TEST(SecondsMetric, IsPrintedInSeconds) {
  Metrics metrics;
  SecondsMetric& asked = metrics.AddSeconds("a_seconds_total", "A.", Metrics::Kind::kCounter);
  SecondsMetric& queue = metrics.AddSeconds("q_seconds", "Q.", Metrics::Kind::kGauge);
  asked.Add(1.5);
  asked.Add(0.25);
  asked.Add(std::nan(""));
  queue.Add(3);
  queue.Add(-3);
  const std::string text = metrics.Render();
  EXPECT_NE(text.find("# TYPE a_seconds_total counter\na_seconds_total 1.75\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE q_seconds gauge\nq_seconds 0\n"), std::string::npos) << text;
}

TEST(Demand, CountsWhatWasRefusedUnreadAsTheAverage) {
  Metrics metrics;
  const DemandSeries series = DemandSeries::Of(&metrics, "m", "bulk");
  series.AskAverage();  // nothing is known
  EXPECT_EQ(series.asked->value(), 0);
  series.Ask(3);
  series.Ask(3);
  series.AskAverage();
  EXPECT_DOUBLE_EQ(series.asked->value(), 8);
  EXPECT_EQ(series.jobs->value(), 4u);
  EXPECT_EQ(DemandSeries::Of(&metrics, "m", "bulk").asked, series.asked);
}

TEST(RouterGauges, PrintsValuesAsTheyAre) {
  Metrics metrics;
  RouterGauges& router = metrics.router();
  EXPECT_EQ(router.Render(), "");
  Gauge& waiting = metrics.AddGauge("w", "W.");
  Gauge& used = metrics.AddGauge("u", "U.");
  Gauge& blocks = metrics.AddGauge("b", "B.");
  SecondsMetric& queue = metrics.AddSeconds("q", "Q.", Metrics::Kind::kGauge);
  using Family = RouterGauges::Family;
  router.Add(Family::kKvBlockSize, R"(model="m")", int64_t{32});
  router.Add(Family::kKvUsage, R"(model="m")", RouterGauges::Ratio{&used, &blocks});
  router.Add(Family::kQueueSeconds, R"(model="m")", &queue);
  for (int i = 0; i < 2; ++i) router.Add(Family::kGenerateWaiting, R"(model="m")", &waiting);
  const std::string idle =
      "# TYPE penstock_generate_waiting gauge\npenstock_generate_waiting{model=\"m\"} 0\n"
      "# TYPE penstock_kv_usage_ratio gauge\npenstock_kv_usage_ratio{model=\"m\"} 0\n"
      "# TYPE penstock_kv_block_size gauge\npenstock_kv_block_size{model=\"m\"} 32\n"
      "# TYPE penstock_queue_seconds gauge\npenstock_queue_seconds{model=\"m\"} 0\n";
  EXPECT_EQ(router.Render(), idle);
  waiting.Set(7);
  used.Set(3);
  blocks.Set(12);
  queue.Add(0.5);
  const std::string text = router.Render();
  for (const char* line : {"waiting{model=\"m\"} 7\n", "ratio{model=\"m\"} 0.25\n",
                           "queue_seconds{model=\"m\"} 0.5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(RouterGauges, TotalsAreSumsOrTheLargest) {
  Metrics metrics;
  RouterGauges& router = metrics.router();
  using Family = RouterGauges::Family;
  EXPECT_EQ(router.Total(Family::kQueueSeconds), 0);
  for (const double seconds : {0.5, 2.0, 1.0}) {
    const std::string label = MetricLabel("model", std::to_string(seconds));
    SecondsMetric& queue = metrics.AddSeconds("q", "Q.", Metrics::Kind::kGauge, label);
    queue.Add(seconds);
    router.Add(Family::kQueueSeconds, label, &queue);
    Gauge& waiting = metrics.AddGauge("w", "W.", label);
    waiting.Set(3);
    router.Add(Family::kGenerateWaiting, label, &waiting);
  }
  EXPECT_EQ(router.Total(Family::kQueueSeconds), 2);
  EXPECT_EQ(router.Total(Family::kGenerateWaiting), 9);
}

TEST(RouterGauges, StaysWithinItsBytes) {
  Metrics metrics;
  std::vector<std::string> models;
  for (int i = 0; i < 100; ++i) {
    models.push_back(MetricLabel("model", "owner/model-" + std::to_string(i)));
    Gauge& gauge = metrics.AddGauge("g", "G.", models.back());
    gauge.Set(std::numeric_limits<int64_t>::min());  // the longest number
    for (const auto family :
         {RouterGauges::Family::kGenerateWaiting, RouterGauges::Family::kKvBlocks}) {
      metrics.router().Add(family, models.back(), &gauge);
    }
    const std::string text = metrics.router().Render();
    ASSERT_LE(text.size(), RouterGauges::kBytesMax);
    ASSERT_TRUE(text.ends_with("\n"));
    // All series of each model that is in it are there.
    for (const std::string& model : models) {
      const size_t first = text.find(model);
      ASSERT_EQ(first == std::string::npos, text.find(model, first + 1) == std::string::npos);
    }
    ASSERT_NE(text.find(models[0]), std::string::npos);
  }
}

// A router asks while models come.
TEST(RouterGauges, IsReadWhileItGrows) {
  Metrics metrics;
  Gauge& gauge = metrics.AddGauge("g", "G.");
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const std::string text = metrics.router().Render();
      EXPECT_TRUE(text.empty() || text.ends_with(" 0\n")) << text;
    }
  });
  for (int i = 0; i < 1000; ++i) {
    metrics.router().Add(static_cast<RouterGauges::Family>(i % RouterGauges::kFamilies),
                         MetricLabel("model", std::to_string(i)), &gauge);
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace penstock::metrics

#include "metrics/metric_aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "metrics/metrics.h"

namespace penstock::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(VllmAliases, NamesAndLabels) {
  Metrics metrics;
  const std::string label = MetricLabel("model", "a \"b\" c");
  metrics.AddGauge("penstock_generate_running", "Help.", label).Set(3);
  metrics.AddCounter("penstock_generate_prompt_tokens_total", "Help.", label).Add(100);
  metrics.AddCounter("penstock_generate_cached_tokens_total", "Help.", label).Add(28);
  metrics.AddCounter("penstock_batches_total", "Help.", label).Add(7);
  metrics.AddGauge("penstock_kv_block_size", "Help.", label).Set(32);
  metrics.AddGauge("penstock_kv_blocks", "Help.", label).Set(64);
  const std::string text = VllmAliases(metrics.Render());
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:num_requests_running gauge\n"
                              "vllm:num_requests_running{model_name=\"a \\\"b\\\" c\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("vllm:prompt_tokens_total{model_name=\"a \\\"b\\\" c\"} 128\n"));
  EXPECT_THAT(text, HasSubstr("vllm:prefix_cache_hits_total{model_name=\"a \\\"b\\\" c\"} 28\n"));
  EXPECT_THAT(text, HasSubstr("vllm:cache_config_info{block_size=\"32\",num_gpu_blocks=\"64\","
                              "model_name=\"a \\\"b\\\" c\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("penstock")));
  EXPECT_THAT(text, Not(HasSubstr("waiting"))) << "it is not in the text";
}

TEST(VllmAliases, Histograms) {
  Metrics metrics;
  metrics
      .AddHistogram("penstock_generate_first_token_seconds", "Help.", {0.5, 1},
                    MetricLabel("model", "m"))
      .Observe(0.75);
  EXPECT_EQ(VllmAliases(metrics.Render()),
            "# HELP vllm:time_to_first_token_seconds Time to the first token.\n"
            "# TYPE vllm:time_to_first_token_seconds histogram\n"
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.5\"} 0\n"
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"1\"} 1\n"
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 1\n"
            "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 0.75\n"
            "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 1\n");
}

TEST(VllmAliases, SeveralModelsAndSeriesWithoutLabels) {
  EXPECT_EQ(VllmAliases("penstock_generate_waiting{model=\"a\"} 1\n"
                        "penstock_generate_waiting{model=\"b\"} 2\n"),
            "# HELP vllm:num_requests_waiting Requests that wait.\n"
            "# TYPE vllm:num_requests_waiting gauge\n"
            "vllm:num_requests_waiting{model_name=\"a\"} 1\n"
            "vllm:num_requests_waiting{model_name=\"b\"} 2\n");
  EXPECT_EQ(VllmAliases(""), "");
  EXPECT_EQ(VllmAliases("penstock_generate_waiting oops\n"), "");
}

}  // namespace
}  // namespace penstock::metrics

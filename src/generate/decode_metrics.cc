#include "generate/decode_metrics.h"

namespace penstock {

DecodeMetrics DecodeMetrics::Of(Metrics* metrics, const std::string& model) {
  const std::string label = MetricLabel("model", model);
  const auto counter = [&](const char* name, const char* help) -> Counter& {
    return metrics->AddCounter(name, help, label);
  };
  const auto gauge = [&](const char* name, const char* help) -> Gauge& {
    return metrics->AddGauge(name, help, label);
  };
  const auto duration = [&](const char* name, const char* help) -> Histogram& {
    return metrics->AddHistogram(name, help, DurationBounds(), label);
  };
  return {
      counter("penstock_generate_prompt_tokens_total",
              "Tokens of prompts that were computed, again after a preemption included."),
      counter("penstock_generate_cached_tokens_total",
              "Tokens of prompts whose keys and values were cached already."),
      counter("penstock_generate_tokens_total", "Tokens that were generated."),
      counter("penstock_generate_preemptions_total",
              "Sequences that gave up their cache for older ones, to be computed again."),
      counter("penstock_kv_evictions_total", "Blocks of cached prefixes that were given up."),
      gauge("penstock_generate_running", "Sequences that take part in steps."),
      gauge("penstock_generate_waiting", "Sequences that wait for a place or for memory."),
      gauge("penstock_kv_blocks", "Blocks of the cache of keys and values, of 32 tokens each."),
      gauge("penstock_kv_blocks_used", "Blocks that sequences hold."),
      gauge("penstock_kv_blocks_cached", "Blocks that no sequence holds, with a known prefix."),
      duration("penstock_generate_step_duration_seconds", "Time of a step of the model."),
      metrics->AddHistogram("penstock_generate_step_rows", "Tokens that a step computed.",
                            {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, label),
      duration("penstock_generate_sample_duration_seconds",
               "Time to choose the tokens of a step and to hand them on."),
      duration("penstock_generate_first_token_seconds",
               "Time from a request's arrival at the scheduler to its first token."),
      duration("penstock_generate_inter_token_seconds", "Time between two tokens of a sequence."),
  };
}

}  // namespace penstock

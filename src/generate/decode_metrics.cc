#include "generate/decode_metrics.h"

#include <algorithm>
#include <iterator>

namespace penstock::generate {
namespace {

uint64_t CountOf(const metrics::Histogram& histogram) {
  uint64_t count = 0;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) count += histogram.bucket(i);
  return count;
}

// What routers choose a replica by.
void AddForRouters(const DecodeMetrics& series, const std::string& label,
                   metrics::Metrics* metrics) {
  using Family = metrics::RouterGauges::Family;
  const DecodeMetrics::Group& first = series.groups.front();
  const metrics::RouterGauges::Ratio usage{first.used, first.blocks};
  metrics->AddFunction(
      "penstock_kv_usage_ratio", "Part of the cache's blocks that sequences hold.",
      metrics::Metrics::Kind::kGauge,
      [usage] { return metrics::RatioOf(*usage.part, *usage.whole); }, label);
  metrics->AddFunction(
      "penstock_kv_block_size", "Tokens of a block of the cache.", metrics::Metrics::Kind::kGauge,
      [] { return double{kKvBlockTokens}; }, label);
  metrics::RouterGauges& router = metrics->router();
  router.Add(Family::kGenerateWaiting, label, &series.waiting);
  router.Add(Family::kGenerateRunning, label, &series.running);
  router.Add(Family::kKvUsage, label, usage);
  router.Add(Family::kKvBlockSize, label, int64_t{kKvBlockTokens});
  router.Add(Family::kKvBlocks, label, first.blocks);
}

// The gauges of a group: those there are already, if a group of its kind has some.
DecodeMetrics::Group AddGroup(CacheKind kind, metrics::Metrics* metrics, const std::string& label) {
  constexpr const char* kHelp[] = {
      "Blocks of the cache of keys and values, of 32 tokens each.",
      "Blocks of the cache of the layers with a window; 0: no layer has one.",
      "Blocks of the cache of recurrent layers, of a state each.",
  };
  static_assert(std::size(kHelp) == kCacheKinds);
  const bool first = kind == CacheKind::kFull;
  const std::string these = first ? "Blocks" : "Of these, blocks";
  const auto gauge = [&](std::string_view count, const std::string& help) {
    return &metrics->AddGauge("penstock_kv_" + CacheCountName(kind, count), help, label);
  };
  return {kind, gauge("blocks", kHelp[static_cast<size_t>(kind)]),
          gauge("blocks_used", these + " that sequences hold."),
          gauge("blocks_cached", these + " that no sequence holds, with a known prefix.")};
}

// Of each group, and of kinds that every model shows.
std::vector<DecodeMetrics::Group> AddGroups(std::span<const CacheGroup> groups,
                                            metrics::Metrics* metrics, const std::string& label) {
  std::vector<DecodeMetrics::Group> added;
  for (const CacheGroup& group : groups) added.push_back(AddGroup(group.kind, metrics, label));
  for (const CacheKind kind : {CacheKind::kFull, CacheKind::kWindow}) {
    if (std::ranges::find(added, kind, &DecodeMetrics::Group::kind) != added.end()) continue;
    added.push_back(AddGroup(kind, metrics, label));
  }
  return added;
}

}  // namespace

DecodeTotals DecodeTotals::Since(const DecodeTotals& earlier) const {
  // A model that was unloaded meanwhile has done nothing.
  const auto less = [](auto now, auto before) { return now - std::min(now, before); };
  DecodeTotals since;
  since.steps = less(steps, earlier.steps);
  since.computed_tokens = less(computed_tokens, earlier.computed_tokens);
  since.prompt_tokens = less(prompt_tokens, earlier.prompt_tokens);
  since.cached_tokens = less(cached_tokens, earlier.cached_tokens);
  since.generated_tokens = less(generated_tokens, earlier.generated_tokens);
  since.drafted_tokens = less(drafted_tokens, earlier.drafted_tokens);
  since.accepted_tokens = less(accepted_tokens, earlier.accepted_tokens);
  since.busy_s = less(busy_s, earlier.busy_s);
  since.first_tokens = less(first_tokens, earlier.first_tokens);
  since.first_token_s = less(first_token_s, earlier.first_token_s);
  since.gaps = less(gaps, earlier.gaps);
  since.gap_s = less(gap_s, earlier.gap_s);
  return since;
}

DecodeTotals DecodeMetrics::Read() const {
  DecodeTotals totals;
  totals.steps = CountOf(step_duration);
  totals.computed_tokens = static_cast<uint64_t>(step_rows.sum());
  totals.prompt_tokens = prompt_tokens.value();
  totals.cached_tokens = cached_tokens.value();
  totals.generated_tokens = generated_tokens.value();
  totals.drafted_tokens = drafted_tokens.value();
  totals.accepted_tokens = accepted_tokens.value();
  totals.busy_s = step_duration.sum();
  totals.first_tokens = CountOf(first_token);
  totals.first_token_s = first_token.sum();
  totals.gaps = CountOf(inter_token);
  totals.gap_s = inter_token.sum();
  return totals;
}

std::string CacheCountName(CacheKind kind, std::string_view count) {
  const std::string name(count);
  return kind == CacheKind::kFull ? name
                                  : kCacheKindNames[static_cast<size_t>(kind)] + ("_" + name);
}

DecodeMetrics DecodeMetrics::Of(metrics::Metrics* metrics, const std::string& model,
                                std::span<const CacheGroup> groups) {
  const std::string label = metrics::MetricLabel("model", model);
  const auto counter = [&](const char* name, const char* help) -> metrics::Counter& {
    return metrics->AddCounter(name, help, label);
  };
  const auto gauge = [&](const char* name, const char* help) -> metrics::Gauge& {
    return metrics->AddGauge(name, help, label);
  };
  const auto duration = [&](const char* name, const char* help) -> metrics::Histogram& {
    return metrics->AddHistogram(name, help, metrics::DurationBounds(), label);
  };
  DecodeMetrics made{
      counter("penstock_generate_prompt_tokens_total",
              "Tokens of prompts that were computed, again after a preemption included."),
      counter("penstock_generate_cached_tokens_total",
              "Tokens of prompts whose keys and values were cached already."),
      counter("penstock_generate_tokens_total", "Tokens that were generated."),
      counter("penstock_generate_drafted_tokens_total",
              "Tokens that were guessed, and computed in a step with the one before."),
      counter("penstock_generate_accepted_tokens_total",
              "Guessed tokens that came true: each saves a step."),
      counter("penstock_generate_preemptions_total",
              "Sequences that gave up their cache for older ones, to be computed again."),
      counter("penstock_kv_evictions_total", "Blocks of cached prefixes that were given up."),
      gauge("penstock_generate_running", "Sequences that take part in steps."),
      gauge("penstock_generate_waiting", "Sequences that wait for a place or for memory."),
      AddGroups(groups, metrics, label),
      duration("penstock_generate_step_duration_seconds", "Time of a step of the model."),
      metrics->AddHistogram("penstock_generate_step_rows", "Tokens that a step computed.",
                            {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, label),
      duration("penstock_generate_sample_duration_seconds",
               "Time to choose the tokens of a step and to hand them on."),
      duration("penstock_generate_first_token_seconds",
               "Time from a request's arrival at the scheduler to its first token."),
      duration("penstock_generate_inter_token_seconds", "Time between two tokens of a sequence."),
  };
  AddForRouters(made, label, metrics);
  return made;
}

}  // namespace penstock::generate

#include "metrics/metric_aliases.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <vector>

namespace penstock::metrics {
namespace {

// A family of vLLM. Its series are the sums of those of ours that have the same labels.
struct Alias {
  std::string_view name, type, help;
  std::vector<std::string_view> ours;
};

const std::vector<Alias>& Aliases() {
  static const auto* const kAliases = new std::vector<Alias>{
      {"num_requests_running",
       "gauge",
       "Requests in the batch that runs.",
       {"penstock_generate_running"}},
      {"num_requests_waiting", "gauge", "Requests that wait.", {"penstock_generate_waiting"}},
      {"kv_cache_usage_perc",
       "gauge",
       "Part of the cache's blocks that is used, 1 being all.",
       {"penstock_kv_usage_ratio"}},
      {"num_preemptions_total",
       "counter",
       "Sequences that gave up their cache.",
       {"penstock_generate_preemptions_total"}},
      // Ours tell computed tokens and cached ones apart.
      {"prompt_tokens_total",
       "counter",
       "Tokens of prompts.",
       {"penstock_generate_prompt_tokens_total", "penstock_generate_cached_tokens_total"}},
      {"generation_tokens_total",
       "counter",
       "Tokens that were generated.",
       {"penstock_generate_tokens_total"}},
      {"prefix_cache_queries_total",
       "counter",
       "Tokens that were looked for in the cache.",
       {"penstock_generate_prompt_tokens_total", "penstock_generate_cached_tokens_total"}},
      {"prefix_cache_hits_total",
       "counter",
       "Tokens that were found in the cache.",
       {"penstock_generate_cached_tokens_total"}},
      {"time_to_first_token_seconds",
       "histogram",
       "Time to the first token.",
       {"penstock_generate_first_token_seconds"}},
      {"inter_token_latency_seconds",
       "histogram",
       "Time between two tokens.",
       {"penstock_generate_inter_token_seconds"}},
  };
  return *kAliases;
}

// `name{labels} value`
struct Sample {
  std::string_view name, labels;
  double value = 0;
};

std::optional<Sample> ReadSample(std::string_view line) {
  const size_t space = line.rfind(' ');
  if (line.empty() || line.front() == '#' || space == std::string_view::npos) return std::nullopt;
  Sample sample;
  const std::string_view number = line.substr(space + 1);
  const char* const end = number.data() + number.size();
  if (std::from_chars(number.data(), end, sample.value).ptr != end) return std::nullopt;
  const std::string_view series = line.substr(0, space);
  const size_t brace = series.find('{');
  sample.name = series.substr(0, brace);
  if (brace != std::string_view::npos) {
    sample.labels = series.substr(brace + 1, series.size() - brace - 2);
  }
  return sample;
}

constexpr std::string_view kModel = "model=\"";

std::string LabelsOf(std::string_view ours) {
  return ours.starts_with(kModel) ? "model_name" + std::string(ours.substr(kModel.size() - 2))
                                  : std::string(ours);
}

// The samples of a family of ours, whose names may have a histogram's endings.
class Samples {
 public:
  explicit Samples(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      if (const auto sample = ReadSample(text.substr(0, end))) all_.push_back(*sample);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  // The value of each `ending{labels}`, in the order of the text.
  std::vector<std::pair<std::string, double>> SumOf(const Alias& alias) const {
    std::vector<std::pair<std::string, double>> sums;
    std::map<std::string, size_t> places;
    for (const Sample& sample : all_) {
      const auto ending = EndingOf(alias, sample.name);
      if (!ending) continue;
      std::string series = fmt::format("{}{{{}}}", *ending, LabelsOf(sample.labels));
      const auto [place, first] = places.try_emplace(series, sums.size());
      if (first) sums.emplace_back(std::move(series), 0);
      sums[place->second].second += sample.value;
    }
    return sums;
  }
  const std::vector<Sample>& all() const { return all_; }

 private:
  static std::optional<std::string_view> EndingOf(const Alias& alias, std::string_view name) {
    for (const std::string_view ours : alias.ours) {
      if (!name.starts_with(ours)) continue;
      const std::string_view ending = name.substr(ours.size());
      if (ending.empty() || ending == "_bucket" || ending == "_sum" || ending == "_count") {
        return ending;
      }
    }
    return std::nullopt;
  }

  std::vector<Sample> all_;
};

void AppendHead(std::string_view name, std::string_view type, std::string_view help,
                std::string* out) {
  *out += fmt::format("# HELP vllm:{0} {2}\n# TYPE vllm:{0} {1}\n", name, type, help);
}

// The shape of the cache, which vLLM has as labels.
void AppendCacheConfig(const Samples& samples, std::string* out) {
  std::map<std::string_view, std::pair<double, double>> caches;  // by labels: block size, blocks
  for (const Sample& sample : samples.all()) {
    if (sample.name == "penstock_kv_block_size") caches[sample.labels].first = sample.value;
    if (sample.name == "penstock_kv_blocks") caches[sample.labels].second = sample.value;
  }
  if (caches.empty()) return;
  AppendHead("cache_config_info", "gauge", "The cache of keys and values.", out);
  for (const auto& [labels, cache] : caches) {
    *out += fmt::format("vllm:cache_config_info{{block_size=\"{}\",num_gpu_blocks=\"{}\",{}}} 1\n",
                        cache.first, cache.second, LabelsOf(labels));
  }
}

}  // namespace

std::string VllmAliases(std::string_view text) {
  const Samples samples(text);
  std::string out;
  for (const Alias& alias : Aliases()) {
    const auto sums = samples.SumOf(alias);
    if (sums.empty()) continue;
    AppendHead(alias.name, alias.type, alias.help, &out);
    for (const auto& [series, value] : sums) {
      const std::string_view shown = series.ends_with("{}")
                                         ? std::string_view(series).substr(0, series.size() - 2)
                                         : std::string_view(series);
      out += fmt::format("vllm:{}{} {}\n", alias.name, shown, value);
    }
  }
  AppendCacheConfig(samples, &out);
  return out;
}

}  // namespace penstock::metrics

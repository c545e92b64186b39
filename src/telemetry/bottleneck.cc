#include "telemetry/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock::telemetry {
namespace {

// Busy for this share of the time = saturated; the rest goes into gaps between two pieces of work.
constexpr double kSaturated = 0.9;

const char* WhyStage(metrics::Stage stage) {
  switch (stage) {
    case metrics::Stage::kReceive:
      return "clients take long to send their requests";
    case metrics::Stage::kParse:
      return "requests are large, or the io threads are behind with reading them";
    case metrics::Stage::kLoad:
      return "requests wait for models to be loaded";
    case metrics::Stage::kTokenize:
      return "texts wait for the tokenization workers";
    case metrics::Stage::kQueue:
      return "requests wait for batches before them";
    case metrics::Stage::kForm:
      return "batches take long to be laid out";
    case metrics::Stage::kForward:
      return "the model's own work, and no resource is used up";
    case metrics::Stage::kPrefill:
      return "prompts are long, or few of their tokens are cached";
    case metrics::Stage::kDecode:
      return "the model writes, and no resource is used up";
    case metrics::Stage::kComplete:
      return "results wait for the io threads";
    case metrics::Stage::kSerialise:
      return "answers are large, and printing them takes long";
    case metrics::Stage::kSend:
      return "clients take long to take their answers";
  }
  return "";
}

// At most one digit after the point, as the web page writes it: "66.2", "67".
std::string Percent(double share) { return fmt::format("{}", std::round(share * 1000) / 10); }

}  // namespace

Bottleneck FindBottleneck(const Snapshot& window) {
  Bottleneck found;
  found.window_s = window.seconds;
  const double seconds = std::max(window.seconds, 1e-9);
  const auto busiest =
      std::ranges::max_element(window.models, {}, &Snapshot::Model::replica_busy_s);
  const double model_busy =
      busiest == window.models.end() ? 0 : busiest->replica_busy_s() / seconds;
  const int64_t workers = std::max<int64_t>(window.tokenization.workers, 1);
  const double workers_busy = window.tokenization.busy_s / seconds / static_cast<double>(workers);
  const double processors_busy =
      window.processor_s / seconds / static_cast<double>(window.processors_max);
  const auto saturated = [&](std::string name, std::string why) {
    found.name = std::move(name);
    found.why = std::move(why);
    found.saturated = true;
    return found;
  };
  if (model_busy >= kSaturated) {
    const bool writes = busiest->kind == Snapshot::Model::Kind::kText;
    return saturated(
        metrics::StageName(writes ? metrics::Stage::kDecode : metrics::Stage::kForward),
        fmt::format("the model '{}' is busy {} % of the time", busiest->name,
                    Percent(std::min(model_busy, 1.0))));
  }
  if (workers_busy >= kSaturated) {
    return saturated(metrics::StageName(metrics::Stage::kTokenize),
                     fmt::format("the {} tokenization workers are busy {} % of the time", workers,
                                 Percent(std::min(workers_busy, 1.0))));
  }
  std::array<double, metrics::kStages> stage_s;
  for (size_t s = 0; s < metrics::kStages; ++s) stage_s[s] = window.stages[s].total_s();
  const auto longest = std::ranges::max_element(stage_s);
  const auto stage = static_cast<metrics::Stage>(longest - stage_s.begin());
  if (processors_busy >= kSaturated && window.requests.count() > 0) {
    return saturated("processor",
                     fmt::format("the {} processors are busy {} % of the time; requests spend most "
                                 "of their time in {}",
                                 window.processors_max, Percent(std::min(processors_busy, 1.0)),
                                 metrics::StageName(stage)));
  }
  double total_s = 0;
  for (const double s : stage_s) total_s += s;
  if (total_s <= 0) {
    found.name = "none";
    found.why = "no timed request was answered";
    return found;
  }
  found.name = metrics::StageName(stage);
  found.why =
      fmt::format("{} % of the requests' time: {}", Percent(*longest / total_s), WhyStage(stage));
  return found;
}

}  // namespace penstock::telemetry

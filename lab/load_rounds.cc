#include "lab/load_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "load/http_sweep.h"
#include "load/process_stat.h"
#include "metrics/process_stats.h"

namespace penstock::lab {
namespace {

// The median of 100 * (side / other - 1), with `sign`.
MedianOf PercentOf(const std::vector<double>& side, const std::vector<double>& other, int sign) {
  std::vector<double> percent;
  for (size_t i = 0; i < side.size(); ++i) percent.push_back(sign * 100 * (side[i] / other[i] - 1));
  return RobustMedian(std::move(percent));
}

}  // namespace

load::HttpLoad RoundLoad(const RoundOptions& options) {
  const auto texts = std::make_shared<load::TextSource>(options.lengths, 1);
  load::HttpLoad load;
  load.name = "round";
  load.concurrency = options.concurrency;
  load.next_text = [texts] { return texts->Next(); };
  return load;
}

Status RunRound(const load::HttpTarget& target, const load::HttpLoad& load, double round_s,
                double warmup_s, const std::function<double()>& other_clients_s, RoundSide* side) {
  load::LoadWindow window;
  window.warmup_s = warmup_s;
  window.duration_s = round_s;
  // This load's client runs on this thread.
  const auto server_s = [&] {
    return metrics::ProcessorSeconds() - load::ThreadCpuSeconds() - other_clients_s();
  };
  const double begin_s = server_s();
  PENSTOCK_ASSIGN_OR_RETURN(const load::HttpRunResult result,
                            load::RunHttpLoads(target, {load}, window));
  const double used_s = server_s() - begin_s;
  // The first batches of a model may take longer than a round.
  if (side == nullptr) return Status::Ok();
  const load::LoadResult& got = result.loads.front();
  if (got.ok == 0 || !got.errors.empty()) {
    return {StatusCode::kUnavailable,
            fmt::format("{} requests of a round were answered with 200; others: {}", got.ok,
                        load::ErrorsText(got))};
  }
  side->requests_per_s.push_back(static_cast<double>(got.ok) / result.seconds);
  side->processor_us.push_back(used_s * 1e6 / static_cast<double>(got.sent));
  side->latency.Merge(got.latency);
  return Status::Ok();
}

MedianOf RobustMedian(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&values](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
  };
  // In a normal distribution the quartiles are 1.35 deviations apart, and a median of n varies
  // 1.25 / sqrt(n) times as much as one value.
  const double deviation = (at(0.75) - at(0.25)) / 1.35;
  return {at(0.5), 1.96 * 1.25 * deviation / std::sqrt(static_cast<double>(values.size()))};
}

MedianOf PercentLower(const std::vector<double>& side, const std::vector<double>& other) {
  return PercentOf(side, other, -1);
}

MedianOf PercentHigher(const std::vector<double>& side, const std::vector<double>& other) {
  return PercentOf(side, other, 1);
}

}  // namespace penstock::lab

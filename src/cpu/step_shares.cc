#include "cpu/step_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace penstock::cpu {

StepShares::StepShares(size_t workers) {
  for (std::vector<double>& speeds : speeds_) speeds.assign(workers, 1);
}

void StepShares::Fill(bool many_rows, size_t active, std::vector<uint32_t>* bounds) const {
  const auto speeds = std::span(speeds_[many_rows ? 1 : 0]).first(active);
  const double whole = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  bounds->assign(active + 1, 0);
  double sum = 0;
  for (size_t i = 0; i + 1 < active; ++i) {
    sum += speeds[i];
    (*bounds)[i + 1] = static_cast<uint32_t>(std::lround(sum / whole * kWhole));
  }
  bounds->back() = kWhole;
}

bool StepShares::TimeNext(bool many_rows) { return many_rows || ++steps_ % kEvery == 0; }

void StepShares::Took(bool many_rows, std::span<const uint32_t> bounds,
                      std::span<const double> seconds) {
  const auto speeds = std::span(speeds_[many_rows ? 1 : 0]).first(seconds.size());
  double mean = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!(seconds[i] > 0) || bounds[i + 1] == bounds[i]) return;
    mean += (bounds[i + 1] - bounds[i]) / seconds[i] / static_cast<double>(seconds.size());
  }
  for (size_t i = 0; i < seconds.size(); ++i) {
    const double speed = (bounds[i + 1] - bounds[i]) / seconds[i] / mean;
    speeds[i] += kNew * (std::clamp(speed, kSlowest, kFastest) - speeds[i]);
  }
}

}  // namespace penstock::cpu

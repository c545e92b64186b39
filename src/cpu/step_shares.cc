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
  const auto [slowest, fastest] = std::ranges::minmax_element(speeds);
  const bool alike = *fastest - *slowest < kAlike * *fastest;
  const double whole =
      alike ? static_cast<double>(active) : std::accumulate(speeds.begin(), speeds.end(), 0.0);
  bounds->assign(active + 1, 0);
  double sum = 0;
  for (size_t i = 0; i + 1 < active; ++i) {
    sum += alike ? 1 : speeds[i];
    (*bounds)[i + 1] = static_cast<uint32_t>(std::lround(sum / whole * kWhole));
  }
  bounds->back() = kWhole;
}

bool StepShares::TimeNext(bool many_rows) { return many_rows || ++steps_ % kEvery == 0; }

void StepShares::Took(bool many_rows, std::span<const uint32_t> bounds,
                      std::span<const double> seconds) {
  const auto speeds = std::span(speeds_[many_rows ? 1 : 0]).first(seconds.size());
  // Measured speeds are scaled to what is kept of the same workers: those without a part in this
  // step keep theirs, and all must stay comparable.
  double measured = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!(seconds[i] > 0) || bounds[i + 1] == bounds[i]) return;
    measured += (bounds[i + 1] - bounds[i]) / seconds[i];
  }
  const double scale = std::accumulate(speeds.begin(), speeds.end(), 0.0) / measured;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const double speed = (bounds[i + 1] - bounds[i]) / seconds[i] * scale;
    speeds[i] += kNew * (std::clamp(speed, kSlowest, kFastest) - speeds[i]);
  }
}

}  // namespace penstock::cpu

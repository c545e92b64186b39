// What is asked of a model, in seconds of the processor: of all work, refused work included, so
// that whoever scales sees how much more there is than can be done.
#pragma once

#include <string>
#include <string_view>

#include "metrics/metrics.h"

namespace penstock::metrics {

// The demand for a model by a priority class. Any thread, no lock.
struct DemandSeries {
  // `priority`: "interactive" or "bulk".
  static DemandSeries Of(Metrics* metrics, const std::string& model, std::string_view priority);

  // A job that takes so long was asked for.
  void Ask(double seconds) const {
    asked->Add(seconds);
    jobs->Add();
  }
  // One that was refused before anybody knew how long it takes: as long as others so far.
  void AskAverage() const {
    const uint64_t count = jobs->value();
    Ask(count == 0 ? 0 : asked->value() / static_cast<double>(count));
  }

  SecondsMetric* asked;
  SecondsMetric* queue;
  Counter* jobs;
};

}  // namespace penstock::metrics

// What holds requests up most.
#pragma once

#include <string>

#include "telemetry/snapshot.h"

namespace penstock::telemetry {

struct Bottleneck {
  // A stage, "processor" (all of them are busy) or "none" (there was nothing to do).
  std::string name;
  std::string why;         // one sentence
  bool saturated = false;  // a resource is used up; else: where most of the time goes
  double window_s = 0;     // the time it was found from
};

// `window`: the difference of two snapshots. A saturated resource comes first (a model, the
// tokenization workers, the processors), else the stage that took most of the requests' time.
Bottleneck FindBottleneck(const Snapshot& window);

}  // namespace penstock::telemetry

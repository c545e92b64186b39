// Measures what requests cost a server (costs.h), by asking it. Nothing else may ask it meanwhile.
#pragma once

#include "base/status.h"
#include "load/http_load.h"
#include "plan/costs.h"
#include "plan/served_model.h"

namespace penstock::plan {

struct MeasureOptions {
  load::HttpTarget target;
  std::string machine;  // for Costs::machine
  double seconds = 20;  // for all measurements, about
};

// kUnavailable: requests were lost or refused.
Expected<Costs> MeasureCosts(const ServedModel& model, const MeasureOptions& options);

}  // namespace penstock::plan

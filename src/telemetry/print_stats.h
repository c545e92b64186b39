// Prints GET /v1/stats. A pure function.
#pragma once

#include <string>

#include "telemetry/collector.h"

namespace penstock::telemetry {

// `stage_timers`: whether stages are timed at all; else the stages are left out.
std::string PrintStats(const Stats& stats, bool stage_timers);

}  // namespace penstock::telemetry

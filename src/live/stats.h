// Prints GET /v1/stats. A pure function.
#pragma once

#include <string>

#include "api/stats.h"

namespace penstock::live {

// `stage_timers`: whether stages are timed at all; else the stages are left out.
std::string PrintStats(const api::Stats& stats, bool stage_timers);

}  // namespace penstock::live

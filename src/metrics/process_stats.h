// What the process uses, as the kernel tells it.
#pragma once

#include <cstdint>

#include "metrics/metrics.h"

namespace penstock {

int64_t ResidentBytes();    // 0 where the kernel does not tell
double ProcessorSeconds();  // user and system, all threads, since the start
int ProcessorsAllowed();    // that this process may run on, at least 1

// The usual process_* series, read when they are printed.
void AddProcessMetrics(Metrics* metrics);

}  // namespace penstock

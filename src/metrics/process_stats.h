// The process's use of resources, as the kernel reports it.
#pragma once

#include "metrics/metrics.h"

namespace penstock::metrics {

double ProcessorSeconds();  // user and system, all threads, since the start
int ProcessorsAllowed();    // by affinity and quota, rounded up; at least 1

// The usual process_* series, read when they are printed.
void AddProcessMetrics(Metrics* metrics);

}  // namespace penstock::metrics

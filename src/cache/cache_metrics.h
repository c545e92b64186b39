// The counters of every cache: penstock_cache_*{cache="token" | "result" | "redis"}.
#pragma once

#include <string_view>

#include "metrics/metrics.h"

namespace penstock::cache {

struct CacheMetrics {
  metrics::Counter* hits;
  metrics::Counter* misses;
  metrics::Counter* evictions;  // for want of room
  metrics::Counter* expired;    // past their time to live
  metrics::Gauge* bytes;
};

// `cache` is one of a few fixed names. Makes the series, or returns those made before.
CacheMetrics MakeCacheMetrics(std::string_view cache, metrics::Metrics* metrics);

}  // namespace penstock::cache

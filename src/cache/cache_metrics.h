// The counters of every cache: penstock_cache_*{cache="token" | "result" | "redis"}.
#pragma once

#include <string_view>

#include "metrics/metrics.h"

namespace penstock {

struct CacheMetrics {
  Counter* hits;
  Counter* misses;
  Counter* evictions;  // for want of room
  Counter* expired;    // past their time to live
  Gauge* bytes;
};

// `cache` is one of a few fixed names. Makes the series, or returns those made before.
CacheMetrics MakeCacheMetrics(std::string_view cache, Metrics* metrics);

}  // namespace penstock

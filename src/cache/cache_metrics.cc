#include "cache/cache_metrics.h"

namespace penstock::cache {

CacheMetrics MakeCacheMetrics(std::string_view cache, metrics::Metrics* metrics) {
  const std::string label = metrics::MetricLabel("cache", cache);
  CacheMetrics made{};
  made.hits = &metrics->AddCounter("penstock_cache_hits_total", "Look-ups that found it.", label);
  made.misses = &metrics->AddCounter("penstock_cache_misses_total",
                                     "Look-ups that did not find it, or found it expired.", label);
  made.evictions = &metrics->AddCounter("penstock_cache_evictions_total",
                                        "Entries that went to make room for newer ones.", label);
  made.expired = &metrics->AddCounter("penstock_cache_expired_total",
                                      "Entries that went because their time was over.", label);
  made.bytes = &metrics->AddGauge("penstock_cache_bytes", "Memory that entries take up.", label);
  return made;
}

}  // namespace penstock::cache

// The series of one model's decode scheduler, besides those of its queue
// (sched/scheduler_metrics.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/kv_block.h"
#include "metrics/metrics.h"

namespace penstock::generate {

// What a model has done since it was loaded first; read one by one, in no order.
struct DecodeTotals {
  uint64_t steps = 0;
  uint64_t computed_tokens = 0;  // of prompts and texts, in these steps
  uint64_t prompt_tokens = 0;    // of these, those of prompts
  uint64_t cached_tokens = 0;    // of prompts, not computed
  uint64_t generated_tokens = 0;
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  double busy_s = 0;  // the time of the steps
  uint64_t first_tokens = 0;
  double first_token_s = 0;  // from arrival, summed
  uint64_t gaps = 0;         // between two tokens of a text
  double gap_s = 0;          // summed

  DecodeTotals Since(const DecodeTotals& earlier) const;
};

// "blocks", "state_blocks_used", ...: what series and fields of answers call a count of the blocks
// of a group.
std::string CacheCountName(CacheKind kind, std::string_view count);

struct DecodeMetrics {
  // Of the blocks of a group of the cache.
  struct Group {
    CacheKind kind;
    metrics::Gauge* blocks;
    metrics::Gauge* used;
    metrics::Gauge* cached;
    void Set(int64_t all, int64_t used_now, int64_t cached_now) const {
      blocks->Set(all);
      used->Set(used_now);
      cached->Set(cached_now);
    }
  };

  // `model`: value of the label of that name. Groups of kinds that every model shows are there
  // whether it has such layers or not.
  static DecodeMetrics Of(metrics::Metrics* metrics, const std::string& model,
                          std::span<const CacheGroup> groups = {});

  DecodeTotals Read() const;

  metrics::Counter& prompt_tokens;  // computed, those computed again after a preemption included
  metrics::Counter& cached_tokens;  // of prompts, found in the cache
  metrics::Counter& generated_tokens;
  metrics::Counter& drafted_tokens;   // guessed
  metrics::Counter& accepted_tokens;  // guessed ones that came true: each saves a step
  metrics::Counter& preemptions;
  metrics::Counter& evictions;
  metrics::Gauge& running;
  metrics::Gauge& waiting;
  std::vector<Group> groups;  // those of Of, in their order, then what every model shows besides
  metrics::Histogram& step_duration;
  metrics::Histogram& step_rows;
  metrics::Histogram& sample_duration;
  metrics::Histogram& first_token;
  metrics::Histogram& inter_token;
};

}  // namespace penstock::generate

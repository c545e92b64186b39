// The series of one model's decode scheduler, besides those of its queue
// (sched/scheduler_metrics.h).
#pragma once

#include <string>

#include "metrics/metrics.h"

namespace penstock {

struct DecodeMetrics {
  // `model`: value of the label of that name.
  static DecodeMetrics Of(Metrics* metrics, const std::string& model);

  Counter& prompt_tokens;  // computed, those computed again after a preemption included
  Counter& cached_tokens;  // of prompts, found in the cache
  Counter& generated_tokens;
  Counter& preemptions;
  Counter& evictions;
  Gauge& running;
  Gauge& waiting;
  Gauge& blocks;
  Gauge& blocks_used;
  Gauge& blocks_cached;
  Histogram& step_duration;
  Histogram& step_rows;
  Histogram& sample_duration;
  Histogram& first_token;
  Histogram& inter_token;
};

}  // namespace penstock

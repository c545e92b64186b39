// Asks a server the requests of a workload, at their times. Blocking; of chats a second thread reads
// the counts when the time is over.
#pragma once

#include "base/status.h"
#include "load/http_load.h"
#include "plan/served_model.h"
#include "plan/workload.h"

namespace penstock::plan {

struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;  // ms
};
Percentiles PercentilesOf(const load::LatencyHistogram& times);

struct DriveOptions {
  load::HttpTarget target;
  double word_tokens = 1;  // EncoderCosts::word_tokens
  double warmup_s = 3, seconds = 30;
  uint64_t seed = 1;
};

struct Driven {
  Percentiles answers;         // of chats the first token
  Percentiles between_tokens;  // of chats
  double busy_share = 0;       // of the time, in batches or steps
  // Encoders alone:
  double outside_s = 0;   // of a request beside waiting for its batch and the batch, mean
  double row_tokens = 0;  // mean
};

// `workload` at its rate. kUnavailable: requests were lost or refused.
Expected<Driven> DriveServer(const ServedModel& model, const Workload& workload,
                             const DriveOptions& options);

}  // namespace penstock::plan

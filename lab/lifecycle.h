// How soon models come, and whether they leave nothing behind: against servers of this very
// program.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"

namespace penstock::lab {

struct LifecycleOptions {
  std::string embedder;  // references, as for --model
  std::string reranker;  // "" = left out, as the next
  std::string generator;
  int rounds = 5;    // of each time that is measured; the median counts
  int cycles = 300;  // loads and unloads under traffic, over all models; 0 = none
  int callers = 32;
  std::vector<std::string> server_flags;
};

// Prints a table; adds
//   lifecycle.ready_ms                  from the start of the process until it listens
//   lifecycle.cold_first_embedding_ms   and until its first embedding was answered
//   lifecycle.reload_ms                 an embedding by a model that was unloaded
//   lifecycle.first_token_after_eviction_ms   a text of one token, the same
//   lifecycle.loads_for_32_callers      loads that callers of one absent model cause together
//   lifecycle.cycles, lifecycle.cycles_per_s
//   lifecycle.cycles_rss_percent        resident memory after all cycles over that after the first
//                                       tenth of them, each the least of a while, less 100
//   lifecycle.failed_requests           of the traffic meanwhile
// kUnavailable: a server did not start or answer.
Status MeasureLifecycle(const LifecycleOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab

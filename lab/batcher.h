// `penstock-lab batcher`: the speed of forming batches and returning results, beside batchers
// built of common queues; and the ring alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"

namespace penstock::lab {

struct BatcherOptions {
  static constexpr uint32_t kProducersMax = 256;
  static constexpr uint32_t kRowBytesMax = 1 << 16;
  static constexpr uint32_t kBurstMax = 16;

  std::vector<uint32_t> producers = {1, 2, 8, 64};   // each 1 to kProducersMax
  std::vector<uint32_t> row_bytes = {4, 128, 4096};  // multiples of 4, up to kRowBytesMax
  std::vector<uint32_t> bursts = {1, 16};            // rows submitted in one call; 1 to kBurstMax
  int rounds = 5;        // of which the median counts; contenders take turns in each
  double seconds = 0.2;  // of one contender in one round
  double rate = 10;      // lone requests a second
  double latency_seconds = 20;
  double idle_seconds = 3;
  std::string peers_library;  // of bench/queue_peers.cc; "": the ring alone
};

// Prints the tables. Fails if a result was wrong: then no number means anything.
Status RunBatcherBench(const BatcherOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab

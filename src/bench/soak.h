// penstock bench soak: a server offered several times what it can do, by clients that do not
// behave, and what must hold all the same.
//
// A server of its own with small queues; its capacity is measured with a closed loop first. Then
// requests arrive at `overload` times that rate: single texts and bulk, some with deadlines, some
// from clients that leave before their answer. Every expectation is a row of the table; one that
// does not hold makes the run fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/http_texts.h"
#include "bench/records.h"

namespace penstock {

struct SoakOptions {
  std::string model;
  std::vector<std::string> server_flags;
  double duration_s = 60;
  double overload = 4;
  double capacity_s = 5;  // how long capacity is measured
  LengthSpec lengths;
  uint64_t seed = 1;
  double interactive_share = 0.1;  // of the texts; the rest is bulk
  int bulk_batch = 16;
  int64_t timeout_ms = 1000;  // of half the requests
  double leave_share = 0.2;   // of the clients, within leave_ms_max
  double leave_ms_max = 1000;
  // Limits of what is expected.
  double livez_ms_max = 10;          // not judged where other programs are busy
  double memory_growth_mb_max = 64;  // over the resident memory after the capacity was measured
  double deadline_over_ms_max = 250;
};

// kInternal: an expectation did not hold (the table, on stdout, says which). kUnavailable: the
// server could not be started or did not answer.
Status RunSoak(const SoakOptions& options, BenchRecords* records);

}  // namespace penstock

// Rounds of load on a server of this process, over loopback: for benchmarks that compare two ways
// of serving in turns.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "load/http_load.h"
#include "load/http_texts.h"

namespace penstock::lab {

struct RoundOptions {
  int concurrency = 8;  // clients; a request is one text
  int rounds = 20;      // of each way
  double round_s = 1;
  load::LengthSpec lengths{load::LengthSpec::Kind::kFixed, 8};
};

// The load of all rounds; each goes on with the texts where the one before stopped.
load::HttpLoad RoundLoad(const RoundOptions& options);

// What a way of serving has done, a round each.
struct RoundSide {
  std::vector<double> requests_per_s;
  std::vector<double> processor_us;  // of a request, without the clients'
  load::LatencyHistogram latency;
};

// Runs a round and adds it to *side; null: it warms up, and is forgotten. `other_clients_s`:
// processor time so far of clients on other threads. kUnavailable: a request was not answered with
// 200.
Status RunRound(const load::HttpTarget& target, const load::HttpLoad& load, double round_s,
                double warmup_s, const std::function<double()>& other_clients_s, RoundSide* side);

// The median of `values`, and half the width of the interval that holds it with 95 % probability,
// from the spread of the values (their quartiles), if they are independent.
struct MedianOf {
  double median = 0;
  double error = 0;
};
MedianOf RobustMedian(std::vector<double> values);

// By how many percent `side` is lower, or higher, than the other one: the median of the pairs.
MedianOf PercentLower(const std::vector<double>& side, const std::vector<double>& other);
MedianOf PercentHigher(const std::vector<double>& side, const std::vector<double>& other);

}  // namespace penstock::lab

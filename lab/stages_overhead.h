// penstock-lab stages: the cost of timing the stages of requests.
//
// Two HTTP servers of this process share one Service, one with stage timers and one without, and
// take turns under the same load, over loopback. So both have the same model, memory and threads,
// and other work of the machine hits both: each round is compared with its neighbour.
#pragma once

#include "base/status.h"
#include "lab/load_rounds.h"
#include "load/records.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::metrics {
class Metrics;
}  // namespace penstock::metrics

namespace penstock::lab {

// Pairs of rounds, one with timers and one without.
struct StagesOverheadOptions : RoundOptions {
  StagesOverheadOptions() {
    rounds = 60;
    round_s = 0.25;
  }
};

// Prints a table and adds the records stages.overhead_percent (of throughput lost),
// stages.processor_overhead_percent (of the server's processor time a request), both as the median
// of the pairs and with half of its 95 % interval (..._error_percent); and stages.direct_ns and
// stages.direct_percent, the cost of one request's timers measured by themselves, which noise does
// not hide.
Status RunStagesOverhead(api::Service* service, metrics::Metrics* metrics,
                         const StagesOverheadOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab

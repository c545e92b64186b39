// penstock-lab ui: what the web page costs.
//
// One server of this process is loaded over loopback in rounds. The number of watching pages
// changes from round to round: none, one, fifty. Each round with watchers is compared with the
// neighbouring round without them. The watchers' own reading is on another thread of the same
// machine, so it is a part of the throughput that is lost; in the processor time it is left out.
//
// What an event a second costs is less than the noise of any machine. So while there is load they
// come UiCostOptions::events_per_s times a second, and the difference is divided by that.
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

struct UiCostOptions : RoundOptions {
  int events_per_s = 20;
  double idle_s = 3;  // for the server without load, at an event a second
};

// Prints a table and adds the records
//   ui.cost_percent_1, _50    throughput lost, the median of the pairs; with half of its 95 %
//                             interval as ui.cost_error_percent_1, _50
//   ui.processor_percent_1, _50  added to the server's processor time a request, in the same way;
//                             with ui.processor_error_percent_1, _50
//   ui.idle_percent_0, _1, _50  processor time of the server without load, in percent of all
//                             processors: the cost by itself, which noise does not hide
//   ui.bytes, ui.gzip_bytes   of the page's files, as they are and as they are sent
//   ui.event_bytes            that a watcher gets a second
Status RunUiCost(api::Service* service, metrics::Metrics* metrics, const UiCostOptions& options,
                 load::BenchRecords* records);

}  // namespace penstock::lab

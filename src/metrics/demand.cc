#include "metrics/demand.h"

namespace penstock::metrics {

DemandSeries DemandSeries::Of(Metrics* metrics, const std::string& model,
                              std::string_view priority) {
  const std::string label =
      MetricLabel("model", model) + "," + MetricLabel("class", std::string(priority));
  DemandSeries series{
      &metrics->AddSeconds("penstock_demand_seconds_total",
                           "Processor time of all work that was asked for, also of what was "
                           "refused, by measured costs.",
                           Metrics::Kind::kCounter, label),
      &metrics->AddSeconds("penstock_queue_seconds",
                           "Processor time of the work that is taken and not yet answered.",
                           Metrics::Kind::kGauge, label),
      &metrics->AddCounter("penstock_jobs_total",
                           "Jobs that were offered to a model, also those that were refused.",
                           label)};
  metrics->router().Add(RouterGauges::Family::kQueueSeconds, label, series.queue);
  return series;
}

}  // namespace penstock::metrics

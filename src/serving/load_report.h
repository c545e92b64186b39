// The load of this server as a header of answers, for proxies and pickers that weigh replicas by it:
// Open Request Cost Aggregation (ORCA), as gRPC's A51 and Envoy have it.
#pragma once

#include "http/message.h"
#include "metrics/router_gauges.h"

namespace penstock::serving {

// Where the request has `endpoint-load-metrics-format: TEXT` or `JSON`, its answers get
// `endpoint-load-metrics` with what waits and runs now, by the names of vLLM where there is one.
// Another format adds nothing.
void AddLoadReport(const metrics::RouterGauges& gauges, http::HttpRequest* request);

}  // namespace penstock::serving

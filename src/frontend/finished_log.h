// FinishedLog: what the log says of requests that ended, for every front end: a line for each slow
// one, and one for each request where that is asked for. Any thread.
#pragma once

#include "frontend/request_log.h"
#include "frontend/slow_log.h"
#include "http/server_options.h"

namespace penstock {

class FinishedLog {
 public:
  // `metrics` must outlive it.
  FinishedLog(const ServerOptions& options, Metrics* metrics)
      : slow_log_(options.slow_request, metrics), access_log_(options.access_log) {}

  // `broken`: the server is at fault, which shows in the log whether requests are logged or not.
  void Write(const RequestRecord& record, bool broken);
  // Whether Write has anything to say: what it costs to fill a record can be saved.
  bool Wants(const HttpRequest& request, Clock::time_point now, bool broken) const;

 private:
  SlowLog slow_log_;
  const bool access_log_;
};

}  // namespace penstock

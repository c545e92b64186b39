// FinishedLog: what the log says of requests that ended, for every front end: a line for each slow
// one, and one for each request where that is asked for. Any thread.
#pragma once

#include <memory>
#include <utility>

#include "frontend/request_log.h"
#include "frontend/route_info.h"
#include "frontend/slow_log.h"

namespace penstock::frontend {

class FinishedLog {
 public:
  // `slow_log`: may be shared with other front ends.
  FinishedLog(bool access_log, std::shared_ptr<SlowLog> slow_log)
      : access_log_(access_log), slow_log_(std::move(slow_log)) {}

  const std::shared_ptr<SlowLog>& slow_log() const { return slow_log_; }

  // `broken`: the server is at fault, which shows in the log whether requests are logged or not.
  void Write(const RequestRecord& record, bool broken);
  // Whether Write has anything to say: what it costs to fill a record can be saved.
  // `route`: null: none matched.
  bool Wants(const http::HttpRequest& request, const RouteInfo* route, Clock::time_point now,
             bool broken) const;

 private:
  // What has no end of its own is not slow.
  bool IsSlow(const http::HttpRequest& request, const RouteInfo* route,
              Clock::time_point now) const {
    return (route == nullptr || !route->endless) && slow_log_->IsSlow(request, now);
  }

  const bool access_log_;
  const std::shared_ptr<SlowLog> slow_log_;
};

}  // namespace penstock::frontend

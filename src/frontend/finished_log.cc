#include "frontend/finished_log.h"

#include "log/log.h"

namespace penstock::frontend {

bool FinishedLog::Wants(const http::HttpRequest& request, const RouteInfo* route,
                        Clock::time_point now, bool broken) const {
  return access_log_ || LogEnabled(broken ? LogLevel::kError : LogLevel::kDebug) ||
         IsSlow(request, route, now);
}

void FinishedLog::Write(const RequestRecord& record, bool broken) {
  const bool json = LogIsJson();
  if (IsSlow(*record.request, record.route, record.end)) {
    slow_log_->Keep(record);
    if (const auto left_out = slow_log_->Pass(record.end)) {
      if (json) {
        LogJsonFields(LogLevel::kWarn, RequestFields("slow request", record, *left_out));
      } else {
        LogMessage(LogLevel::kWarn, SlowSentence(record, *left_out));
      }
    }
  }
  if (access_log_) {
    const LogLevel level = broken ? LogLevel::kError : LogLevel::kInfo;
    if (json) return LogAccessFields(level, RequestFields("request", record));
    return LogAccess(level, AccessSentence(record));
  }
  const LogLevel level = broken ? LogLevel::kError : LogLevel::kDebug;
  if (!LogEnabled(level)) return;
  if (json) {
    LogJsonFields(level, RequestFields("request", record));
  } else {
    LogMessage(level, AccessSentence(record));
  }
}

}  // namespace penstock::frontend

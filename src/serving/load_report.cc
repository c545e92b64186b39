#include "serving/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace penstock::serving {
namespace {

using Family = metrics::RouterGauges::Family;

struct Named {
  Family family;
  const char* name;
};
constexpr Named kNamed[] = {
    {Family::kGenerateRunning, "num_requests_running"},
    {Family::kGenerateWaiting, "num_requests_waiting"},
    {Family::kKvUsage, "kv_cache_usage_perc"},
    {Family::kQueueSeconds, "queue_seconds"},
    {Family::kInFlight, "requests_in_flight"},
};

bool EqualIgnoringCase(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

}  // namespace

void AddLoadReport(const metrics::RouterGauges& gauges, http::HttpRequest* request) {
  const std::string_view format = request->Header("endpoint-load-metrics-format");
  if (format.empty()) return;
  const bool json = EqualIgnoringCase(format, "json");
  if (!json && !EqualIgnoringCase(format, "text")) return;
  std::string report = json ? R"(JSON {"named_metrics":{)" : "TEXT ";
  for (const Named& one : kNamed) {
    const double value = gauges.Total(one.family);
    if (&one != kNamed) report += json ? "," : ", ";
    if (json) {
      fmt::format_to(std::back_inserter(report), R"("{}":{})", one.name, value);
    } else {
      fmt::format_to(std::back_inserter(report), "named_metrics.{}={}", one.name, value);
    }
  }
  if (json) report += "}}";
  request->response_headers.emplace_back("endpoint-load-metrics", std::move(report));
}

}  // namespace penstock::serving

#include "bench/stages_overhead.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/http_load.h"
#include "bench/table.h"
#include "http/server.h"

namespace penstock {
namespace {

struct Side {
  std::unique_ptr<Server> server;
  std::vector<double> requests_per_s;  // a round each
  double requests = 0;
  double processor_s = 0;  // without the client's
  LatencyHistogram latency;
};

Expected<std::unique_ptr<Server>> StartServer(Service* service, Metrics* metrics,
                                              bool stage_timers) {
  ServerOptions options;
  options.port = 0;
  options.stage_timers = stage_timers;
  options.slow_request = std::chrono::milliseconds(0);
  return Server::Start(service, metrics, options);
}

// `keep`: else it was a round to warm up.
Status RunRound(const StagesOverheadOptions& options, const HttpLoad& load, bool keep, Side* side) {
  HttpTarget target;
  target.port = side->server->port();
  LoadWindow window;
  window.warmup_s = 0.02;  // connections are opened
  window.duration_s = options.round_s;
  window.server_pid = getpid();
  PENSTOCK_ASSIGN_OR_RETURN(const HttpRunResult result, RunHttpLoads(target, {load}, window));
  const LoadResult& got = result.loads.front();
  if (got.ok == 0 || !got.errors.empty()) {
    return {StatusCode::kUnavailable, "not every request was answered with 200"};
  }
  if (!keep) return Status::Ok();
  side->requests_per_s.push_back(static_cast<double>(got.ok) / result.seconds);
  side->requests += static_cast<double>(got.ok);
  side->processor_s += result.server_cpu_s - result.client_cpu_s;
  side->latency.Merge(got.latency);
  return Status::Ok();
}

void Report(const Side& off, const Side& on, BenchRecords* records) {
  BenchTable table({"stage timers", "requests/s", "p50 ms", "p99 ms", "processor us/request"});
  for (const auto& [name, side] : {std::pair("off", &off), std::pair("on", &on)}) {
    table.AddRow({name, ShortNumber(RobustMedian(side->requests_per_s).median),
                  ShortNumber(side->latency.PercentileMs(0.5)),
                  ShortNumber(side->latency.PercentileMs(0.99)),
                  ShortNumber(side->processor_s / side->requests * 1e6)});
  }
  table.Print();
  std::vector<double> lost_percent;
  for (size_t i = 0; i < on.requests_per_s.size(); ++i) {
    lost_percent.push_back(100 * (1 - on.requests_per_s[i] / off.requests_per_s[i]));
  }
  const MedianOf lost = RobustMedian(std::move(lost_percent));
  const double processor =
      100 * ((on.processor_s / on.requests) / (off.processor_s / off.requests) - 1);
  std::printf("\nthroughput lost: %.2f %% (+- %.2f)\nprocessor time added: %.2f %%\n", lost.median,
              lost.error, processor);
  records->Add("stages.overhead_percent", lost.median, "%");
  records->Add("stages.overhead_error_percent", lost.error, "%");
  records->Add("stages.overhead_processor_percent", processor, "%");
}

}  // namespace

MedianOf RobustMedian(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&values](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
  };
  // Of a normal distribution, the quartiles are 1.35 deviations apart, and a median of n varies
  // 1.25 / sqrt(n) times as much as one value.
  const double deviation = (at(0.75) - at(0.25)) / 1.35;
  return {at(0.5), 1.96 * 1.25 * deviation / std::sqrt(static_cast<double>(values.size()))};
}

Status RunStagesOverhead(Service* service, Metrics* metrics, const StagesOverheadOptions& options,
                         BenchRecords* records) {
  Side off;
  Side on;
  PENSTOCK_ASSIGN_OR_RETURN(off.server, StartServer(service, metrics, false));
  PENSTOCK_ASSIGN_OR_RETURN(on.server, StartServer(service, metrics, true));
  const auto texts = std::make_shared<TextSource>(options.lengths, 1);
  HttpLoad load;
  load.name = "stages";
  load.concurrency = options.concurrency;
  load.next_text = [texts] { return texts->Next(); };
  constexpr int kWarmUpRounds = 4;
  for (int round = -kWarmUpRounds; round < options.rounds; ++round) {
    // On, off, off, on: what drifts hits both alike.
    Side* const first = round % 2 == 0 ? &on : &off;
    Side* const second = round % 2 == 0 ? &off : &on;
    PENSTOCK_RETURN_IF_ERROR(RunRound(options, load, round >= 0, first));
    PENSTOCK_RETURN_IF_ERROR(RunRound(options, load, round >= 0, second));
  }
  Report(off, on, records);
  return Status::Ok();
}

}  // namespace penstock

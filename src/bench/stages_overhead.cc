#include "bench/stages_overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "api/stats.h"
#include "engine/registry.h"
#include "load/http_load.h"
#include "load/http_sweep.h"
#include "load/process_stat.h"
#include "load/table.h"
#include "metrics/process_stats.h"
#include "routes/server.h"

namespace penstock {
namespace {

struct Side {
  std::unique_ptr<Server> server;
  // A round each.
  std::vector<double> requests_per_s;
  std::vector<double> processor_us;  // of a request, without the client's
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
  const double all_s = ProcessorSeconds();
  const double client_s = ThreadCpuSeconds();  // the client runs on this thread
  PENSTOCK_ASSIGN_OR_RETURN(const HttpRunResult result, RunHttpLoads(target, {load}, window));
  const double server_s = ProcessorSeconds() - all_s - (ThreadCpuSeconds() - client_s);
  // The first batches of a model may take longer than a round.
  if (!keep) return Status::Ok();
  const LoadResult& got = result.loads.front();
  if (got.ok == 0 || !got.errors.empty()) {
    return {StatusCode::kUnavailable,
            fmt::format("{} requests of a round were answered with 200; others: {}", got.ok,
                        ErrorsText(got))};
  }
  side->requests_per_s.push_back(static_cast<double>(got.ok) / result.seconds);
  side->processor_us.push_back(server_s * 1e6 / static_cast<double>(got.sent));
  side->latency.Merge(got.latency);
  return Status::Ok();
}

// The cost of a request's trace by itself: made, every stage entered, kept. The fastest of several
// tries, the rest being disturbed.
double NanosecondsOfOneTrace() {
  Metrics metrics;
  const Registry registry(nullptr, &metrics);
  const WorkerPool pool(1, 1);
  ServiceStats stats(&registry, &pool, &metrics);
  constexpr int kTraces = 20'000;
  double best_ns = 1e9;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto start = Clock::now();
    for (int i = 0; i < kTraces; ++i) {
      const auto trace = std::make_shared<RequestTrace>(Clock::now());
      for (size_t s = 1; s < kStages; ++s) trace->Enter(static_cast<Stage>(s));
      trace->Finish();
      stats.Record(*trace);
    }
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    best_ns = std::min(best_ns, took.count() / kTraces);
  }
  return best_ns;
}

void Report(const Side& off, const Side& on, BenchRecords* records) {
  BenchTable table({"stage timers", "requests/s", "p50 ms", "p99 ms", "processor us/request"});
  for (const auto& [name, side] : {std::pair("off", &off), std::pair("on", &on)}) {
    table.AddRow({name, ShortNumber(RobustMedian(side->requests_per_s).median),
                  ShortNumber(side->latency.PercentileMs(0.5)),
                  ShortNumber(side->latency.PercentileMs(0.99)),
                  ShortNumber(RobustMedian(side->processor_us).median)});
  }
  table.Print();
  std::vector<double> lost_percent;
  std::vector<double> added_percent;
  for (size_t i = 0; i < on.requests_per_s.size(); ++i) {
    lost_percent.push_back(100 * (1 - on.requests_per_s[i] / off.requests_per_s[i]));
    added_percent.push_back(100 * (on.processor_us[i] / off.processor_us[i] - 1));
  }
  const MedianOf lost = RobustMedian(std::move(lost_percent));
  const MedianOf added = RobustMedian(std::move(added_percent));
  const double direct_ns = NanosecondsOfOneTrace();
  const double direct_percent = direct_ns / 10 / RobustMedian(off.processor_us).median;
  std::printf(
      "\nthroughput lost:       %.2f %% (+- %.2f)\nprocessor time added:  %.2f %% (+- %.2f)\n"
      "the timers by themselves: %.0f ns a request, %.3f %% of its processor time\n",
      lost.median, lost.error, added.median, added.error, direct_ns, direct_percent);
  records->Add("stages.overhead_percent", lost.median, "%");
  records->Add("stages.overhead_error_percent", lost.error, "%");
  records->Add("stages.processor_overhead_percent", added.median, "%");
  records->Add("stages.processor_overhead_error_percent", added.error, "%");
  records->Add("stages.direct_ns", direct_ns, "ns");
  records->Add("stages.direct_percent", direct_percent, "%");
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
    // On, off, off, on: a drift hits both alike.
    Side* const first = round % 2 == 0 ? &on : &off;
    Side* const second = round % 2 == 0 ? &off : &on;
    PENSTOCK_RETURN_IF_ERROR(RunRound(options, load, round >= 0, first));
    PENSTOCK_RETURN_IF_ERROR(RunRound(options, load, round >= 0, second));
  }
  Report(off, on, records);
  return Status::Ok();
}

}  // namespace penstock

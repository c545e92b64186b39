#include "lab/stages_overhead.h"

#include <algorithm>
#include <memory>

#include "load/http_load.h"
#include "load/table.h"
#include "log/step_progress.h"
#include "registry/registry.h"
#include "server/server.h"
#include "telemetry/collector.h"

namespace penstock::lab {
namespace {

struct TimedSide {
  std::unique_ptr<server::Server> server;
  RoundSide rounds;
};

Expected<std::unique_ptr<server::Server>> StartServer(api::Service* service,
                                                      metrics::Metrics* metrics,
                                                      bool stage_timers) {
  http::ServerOptions options;
  options.port = 0;
  options.stage_timers = stage_timers;
  options.slow_request = std::chrono::milliseconds(0);
  return server::Server::Start(service, metrics, options);
}

// `keep`: else it was a round to warm up.
Status RunSide(const StagesOverheadOptions& options, const load::HttpLoad& load, bool keep,
               TimedSide* side) {
  load::HttpTarget target;
  target.port = side->server->port();
  constexpr double kWarmupS = 0.02;  // connections are opened
  return RunRound(
      target, load, options.round_s, kWarmupS, [] { return 0.0; }, keep ? &side->rounds : nullptr);
}

// The cost of a request's trace by itself: made, every stage entered, kept. The fastest of several
// tries, the rest being disturbed.
double NanosecondsOfOneTrace() {
  metrics::Metrics metrics;
  const registry::Registry registry(nullptr, &metrics);
  const WorkerPool pool(1, 1);
  telemetry::Collector collector(&registry, &pool, &metrics);
  constexpr int kTraces = 20'000;
  double best_ns = 1e9;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto start = Clock::now();
    for (int i = 0; i < kTraces; ++i) {
      const auto trace = std::make_shared<metrics::RequestTrace>(Clock::now());
      for (size_t s = 1; s < metrics::kStages; ++s) trace->Enter(static_cast<metrics::Stage>(s));
      trace->Finish();
      collector.Record(*trace);
    }
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    best_ns = std::min(best_ns, took.count() / kTraces);
  }
  return best_ns;
}

void Report(const TimedSide& off, const TimedSide& on, load::BenchRecords* records) {
  load::BenchTable table(
      {"stage timers", "requests/s", "p50 ms", "p99 ms", "processor us/request"});
  for (const auto& [name, side] : {std::pair("off", &off.rounds), std::pair("on", &on.rounds)}) {
    table.AddRow({name, load::ShortNumber(RobustMedian(side->requests_per_s).median),
                  load::ShortNumber(side->latency.PercentileMs(0.5)),
                  load::ShortNumber(side->latency.PercentileMs(0.99)),
                  load::ShortNumber(RobustMedian(side->processor_us).median)});
  }
  table.Print();
  const MedianOf lost = PercentLower(on.rounds.requests_per_s, off.rounds.requests_per_s);
  const MedianOf added = PercentHigher(on.rounds.processor_us, off.rounds.processor_us);
  const double direct_ns = NanosecondsOfOneTrace();
  const double direct_percent = direct_ns / 10 / RobustMedian(off.rounds.processor_us).median;
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

Status RunStagesOverhead(api::Service* service, metrics::Metrics* metrics,
                         const StagesOverheadOptions& options, load::BenchRecords* records) {
  TimedSide off;
  TimedSide on;
  PENSTOCK_ASSIGN_OR_RETURN(off.server, StartServer(service, metrics, false));
  PENSTOCK_ASSIGN_OR_RETURN(on.server, StartServer(service, metrics, true));
  const load::HttpLoad load = RoundLoad(options);
  constexpr int kWarmUpRounds = 4;
  StepProgress progress({.steps = options.rounds + kWarmUpRounds, .in_log = false});
  for (int round = -kWarmUpRounds; round < options.rounds; ++round) {
    progress.Next(round < 0 ? "warm-up" : "round");
    // On, off, off, on: a drift hits both alike.
    TimedSide* const first = round % 2 == 0 ? &on : &off;
    TimedSide* const second = round % 2 == 0 ? &off : &on;
    PENSTOCK_RETURN_IF_ERROR(RunSide(options, load, round >= 0, first));
    PENSTOCK_RETURN_IF_ERROR(RunSide(options, load, round >= 0, second));
  }
  progress.Clear();
  Report(off, on, records);
  return Status::Ok();
}

}  // namespace penstock::lab

#include "lab/ui_cost.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <thread>

#include "lab/live_watchers.h"
#include "load/http_load.h"
#include "load/process_stat.h"
#include "load/table.h"
#include "log/step_progress.h"
#include "metrics/process_stats.h"
#include "server/server.h"
#include "ui/ui_files.h"

namespace penstock::lab {
namespace {

struct Side {
  int watchers = 0;
  RoundSide rounds;
  double idle_percent = 0;
  double event_bytes = 0;  // a second, of one watcher
};

double WatcherSeconds(const LiveWatchers* watchers) {
  return watchers == nullptr ? 0 : watchers->thread_s();
}

// Null for none.
Expected<std::unique_ptr<LiveWatchers>> OpenWatchers(const load::HttpTarget& target, int count) {
  if (count == 0) return std::unique_ptr<LiveWatchers>();
  return LiveWatchers::Open(target, count);
}

Status RunSide(const load::HttpTarget& target, const UiCostOptions& options,
               const load::HttpLoad& load, bool keep, Side* side) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto watchers, OpenWatchers(target, side->watchers));
  constexpr double kSettleS = 0.05;
  return RunRound(
      target, load, options.round_s, kSettleS, [&] { return WatcherSeconds(watchers.get()); },
      keep ? &side->rounds : nullptr);
}

Status MeasureIdle(const load::HttpTarget& target, double seconds, Side* side) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto watchers, OpenWatchers(target, side->watchers));
  // The history has come; what is counted are the events.
  const uint64_t begin_bytes = watchers == nullptr ? 0 : watchers->bytes();
  const double begin_s = metrics::ProcessorSeconds() - WatcherSeconds(watchers.get());
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double used_s = metrics::ProcessorSeconds() - WatcherSeconds(watchers.get()) - begin_s;
  side->idle_percent = 100 * used_s / seconds / metrics::ProcessorsAllowed();
  if (watchers != nullptr) {
    side->event_bytes =
        static_cast<double>(watchers->bytes() - begin_bytes) / seconds / side->watchers;
  }
  return Status::Ok();
}

// The cost at one event a second.
MedianOf OfOne(MedianOf several, int events_per_s) {
  return {several.median / events_per_s, several.error / events_per_s};
}

void Report(const std::array<Side, 3>& sides, int events_per_s, load::BenchRecords* records) {
  load::BenchTable table({"watchers", "requests/s", "lost %", "+-", "processor us/request",
                          "added %", "+-", "idle %"});
  const Side& none = sides[0];
  for (const Side& side : sides) {
    const MedianOf lost =
        OfOne(PercentLower(side.rounds.requests_per_s, none.rounds.requests_per_s), events_per_s);
    const MedianOf added =
        OfOne(PercentHigher(side.rounds.processor_us, none.rounds.processor_us), events_per_s);
    const bool compared = side.watchers > 0;
    const auto shown = [&](double value) {
      return compared ? fmt::format("{:.3f}", value) : std::string();
    };
    table.AddRow(
        {std::to_string(side.watchers),
         load::ShortNumber(RobustMedian(side.rounds.requests_per_s).median), shown(lost.median),
         shown(lost.error), load::ShortNumber(RobustMedian(side.rounds.processor_us).median),
         shown(added.median), shown(added.error), fmt::format("{:.3f}", side.idle_percent)});
    const std::string watchers = std::to_string(side.watchers);
    records->Add("ui.idle_percent_" + watchers, side.idle_percent, "%");
    if (!compared) continue;
    records->Add("ui.cost_percent_" + watchers, lost.median, "%");
    records->Add("ui.cost_error_percent_" + watchers, lost.error, "%");
    records->Add("ui.processor_percent_" + watchers, added.median, "%");
    records->Add("ui.processor_error_percent_" + watchers, added.error, "%");
  }
  table.Print();
  std::printf("\nrounds have %d events a second; lost and added are of one\n", events_per_s);
  size_t bytes = 0;
  size_t gzip_bytes = 0;
  for (const ui::UiFile& file : ui::UiFiles()) {
    bytes += file.text.size();
    gzip_bytes += file.gzip.size();
  }
  std::printf("the page: %zu files, %zu bytes, %zu as sent; a watcher gets %.0f bytes a second\n",
              ui::UiFiles().size(), bytes, gzip_bytes, sides[1].event_bytes);
  records->Add("ui.bytes", static_cast<double>(bytes), "bytes");
  records->Add("ui.gzip_bytes", static_cast<double>(gzip_bytes), "bytes");
  records->Add("ui.event_bytes", sides[1].event_bytes, "bytes/s");
}

Expected<std::unique_ptr<server::Server>> StartServer(api::Service* service,
                                                      metrics::Metrics* metrics,
                                                      std::chrono::milliseconds live_interval) {
  http::ServerOptions options;
  options.port = 0;
  options.slow_request = std::chrono::milliseconds(0);
  return server::Server::Start(service, metrics, options, live_interval);
}

}  // namespace

Status RunUiCost(api::Service* service, metrics::Metrics* metrics, const UiCostOptions& options,
                 load::BenchRecords* records) {
  std::array<Side, 3> sides;
  sides[1].watchers = 1;
  sides[2].watchers = 50;
  load::HttpTarget target;
  constexpr std::chrono::milliseconds kSecond{1000};
  {
    PENSTOCK_ASSIGN_OR_RETURN(const auto server, StartServer(service, metrics, kSecond));
    target.port = server->port();
    for (Side& side : sides) {
      PENSTOCK_RETURN_IF_ERROR(MeasureIdle(target, options.idle_s, &side));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto server,
                            StartServer(service, metrics, kSecond / options.events_per_s));
  target.port = server->port();
  const load::HttpLoad load = RoundLoad(options);
  StepProgress progress({.steps = options.rounds + 1, .in_log = false});
  for (int round = -1; round < options.rounds; ++round) {
    progress.Next(round < 0 ? "warm-up" : "round");
    // There and back: a drift hits all alike.
    for (size_t i = 0; i < sides.size(); ++i) {
      Side* const side = &sides[round % 2 == 0 ? i : sides.size() - 1 - i];
      PENSTOCK_RETURN_IF_ERROR(RunSide(target, options, load, round >= 0, side));
    }
  }
  progress.Clear();
  Report(sides, options.events_per_s, records);
  return Status::Ok();
}

}  // namespace penstock::lab

#include "bench/ui_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "bench/stages_overhead.h"
#include "load/http_load.h"
#include "load/http_sweep.h"
#include "load/live_watchers.h"
#include "load/process_stat.h"
#include "load/table.h"
#include "metrics/process_stats.h"
#include "routes/server.h"
#include "ui/ui_files.h"

namespace penstock {
namespace {

struct Side {
  int watchers;
  // A round each.
  std::vector<double> requests_per_s;
  std::vector<double> processor_us;  // of a request; the server's alone
  double idle_percent = 0;
  double event_bytes = 0;  // a second, of one watcher
};

double WatcherSeconds(const LiveWatchers* watchers) {
  return watchers == nullptr ? 0 : watchers->thread_s();
}

// Null for none.
Expected<std::unique_ptr<LiveWatchers>> OpenWatchers(const HttpTarget& target, int count) {
  if (count == 0) return std::unique_ptr<LiveWatchers>();
  return LiveWatchers::Open(target, count);
}

Status RunRound(const HttpTarget& target, const UiCostOptions& options, const HttpLoad& load,
                bool keep, Side* side) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto watchers, OpenWatchers(target, side->watchers));
  LoadWindow window;
  window.warmup_s = 0.05;
  window.duration_s = options.round_s;
  const double all_s = ProcessorSeconds();
  const double clients_s = ThreadCpuSeconds() + WatcherSeconds(watchers.get());
  PENSTOCK_ASSIGN_OR_RETURN(const HttpRunResult result, RunHttpLoads(target, {load}, window));
  const double server_s = ProcessorSeconds() - all_s -
                          (ThreadCpuSeconds() + WatcherSeconds(watchers.get()) - clients_s);
  if (!keep) return Status::Ok();
  const LoadResult& got = result.loads.front();
  if (got.ok == 0 || !got.errors.empty()) {
    return {StatusCode::kUnavailable,
            fmt::format("{} requests of a round were answered with 200; others: {}", got.ok,
                        ErrorsText(got))};
  }
  side->requests_per_s.push_back(static_cast<double>(got.ok) / result.seconds);
  side->processor_us.push_back(server_s * 1e6 / static_cast<double>(got.sent));
  return Status::Ok();
}

Status MeasureIdle(const HttpTarget& target, double seconds, Side* side) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto watchers, OpenWatchers(target, side->watchers));
  // The history has come; what is counted are the events.
  const uint64_t begin_bytes = watchers == nullptr ? 0 : watchers->bytes();
  const double begin_s = ProcessorSeconds() - WatcherSeconds(watchers.get());
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double used_s = ProcessorSeconds() - WatcherSeconds(watchers.get()) - begin_s;
  side->idle_percent = 100 * used_s / seconds / ProcessorsAllowed();
  if (watchers != nullptr) {
    side->event_bytes =
        static_cast<double>(watchers->bytes() - begin_bytes) / seconds / side->watchers;
  }
  return Status::Ok();
}

void Report(const std::array<Side, 3>& sides, BenchRecords* records) {
  BenchTable table({"watchers", "requests/s", "lost %", "+-", "processor us/request", "added %",
                    "+-", "idle %"});
  const Side& none = sides[0];
  for (const Side& side : sides) {
    std::vector<double> lost_percent;
    std::vector<double> added_percent;
    for (size_t i = 0; i < side.requests_per_s.size(); ++i) {
      lost_percent.push_back(100 * (1 - side.requests_per_s[i] / none.requests_per_s[i]));
      added_percent.push_back(100 * (side.processor_us[i] / none.processor_us[i] - 1));
    }
    const MedianOf lost = RobustMedian(std::move(lost_percent));
    const MedianOf added = RobustMedian(std::move(added_percent));
    const bool compared = side.watchers > 0;
    const auto shown = [&](double value) {
      return compared ? fmt::format("{:.2f}", value) : std::string();
    };
    table.AddRow(
        {std::to_string(side.watchers), ShortNumber(RobustMedian(side.requests_per_s).median),
         shown(lost.median), shown(lost.error), ShortNumber(RobustMedian(side.processor_us).median),
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
  size_t bytes = 0;
  size_t gzip_bytes = 0;
  for (const UiFile& file : UiFiles()) {
    bytes += file.text.size();
    gzip_bytes += file.gzip.size();
  }
  std::printf("\nthe page: %zu files, %zu bytes, %zu as sent; a watcher gets %.0f bytes a second\n",
              UiFiles().size(), bytes, gzip_bytes, sides[1].event_bytes);
  records->Add("ui.bytes", static_cast<double>(bytes), "bytes");
  records->Add("ui.gzip_bytes", static_cast<double>(gzip_bytes), "bytes");
  records->Add("ui.event_bytes", sides[1].event_bytes, "bytes/s");
}

}  // namespace

Status RunUiCost(Service* service, Metrics* metrics, const UiCostOptions& options,
                 BenchRecords* records) {
  ServerOptions server_options;
  server_options.port = 0;
  server_options.slow_request = std::chrono::milliseconds(0);
  PENSTOCK_ASSIGN_OR_RETURN(const auto server, Server::Start(service, metrics, server_options));
  HttpTarget target;
  target.port = server->port();
  const auto texts = std::make_shared<TextSource>(options.lengths, 1);
  HttpLoad load;
  load.name = "ui";
  load.concurrency = options.concurrency;
  load.next_text = [texts] { return texts->Next(); };
  std::array<Side, 3> sides{{{0, {}, {}}, {1, {}, {}}, {50, {}, {}}}};
  for (Side& side : sides) {
    PENSTOCK_RETURN_IF_ERROR(MeasureIdle(target, options.idle_s, &side));
  }
  for (int round = -1; round < options.rounds; ++round) {
    // There and back: a drift hits all alike.
    for (size_t i = 0; i < sides.size(); ++i) {
      Side* const side = &sides[round % 2 == 0 ? i : sides.size() - 1 - i];
      PENSTOCK_RETURN_IF_ERROR(RunRound(target, options, load, round >= 0, side));
    }
  }
  Report(sides, records);
  return Status::Ok();
}

}  // namespace penstock

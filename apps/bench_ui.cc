// penstock bench ui: what the web page costs.
#include "bench/ui_cost.h"
#include "commands.h"
#include "round_flags.h"

namespace penstock::cli {

int RunBenchUi(const std::vector<std::string>& args) {
  CommandLine line("bench ui",
                   "Measure what the web page costs: a server over loopback under the same load,\n"
                   "in turns without watchers, with one and with fifty; and the page's bytes.",
                   "  penstock bench ui --model sentence-transformers/all-MiniLM-L6-v2\n"
                   "  penstock bench ui --model MODEL --rounds 60 --json ui.json\n");
  bench::UiCostOptions options;
  return RunRounds(&line, args, &options, "Rounds of each number of watchers.",
                   [&](runtime::LocalModels* local, load::BenchRecords* records) {
                     return bench::RunUiCost(local->service.get(), &local->metrics, options,
                                             records);
                   });
}

}  // namespace penstock::cli

// penstock-lab ui: what the web page costs.
#include "lab/commands.h"
#include "lab/round_flags.h"
#include "lab/ui_cost.h"

namespace penstock::lab {

int UiCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab ui",
      "Measure what the web page costs: a server over loopback under the same load,\n"
      "in turns without watchers, with one and with fifty; and the page's bytes.",
      "  penstock-lab ui --model sentence-transformers/all-MiniLM-L6-v2\n"
      "  penstock-lab ui --model MODEL --rounds 60 --json ui.json\n");
  UiCostOptions options;
  return RunRounds(&line, args, &options, "Rounds of each number of watchers.",
                   [&](runtime::LocalModels* local, load::BenchRecords* records) {
                     return RunUiCost(local->service.get(), &local->metrics, options, records);
                   });
}

}  // namespace penstock::lab

// penstock-lab stages: what timing the stages of requests costs.
#include "lab/commands.h"
#include "lab/round_flags.h"
#include "lab/stages_overhead.h"

namespace penstock::lab {

int StagesCommand(const std::vector<std::string>& args) {
  cli::CommandLine line("lab stages",
                        "Measure what --stage-timers costs: two servers of this process, with and\n"
                        "without, share a model and take turns under the same load over loopback.",
                        "  penstock-lab stages --model sentence-transformers/all-MiniLM-L6-v2\n"
                        "  penstock-lab stages --model MODEL --concurrency 1 --rounds 200\n");
  StagesOverheadOptions options;
  return RunRounds(&line, args, &options, "Rounds of each server; compared in pairs.",
                   [&](runtime::LocalModels* local, load::BenchRecords* records) {
                     return RunStagesOverhead(local->service.get(), &local->metrics, options,
                                              records);
                   });
}

}  // namespace penstock::lab

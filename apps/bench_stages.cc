// penstock bench stages: what timing the stages of requests costs.
#include "bench/stages_overhead.h"
#include "commands.h"
#include "round_flags.h"

namespace penstock::cli {

int RunBenchStages(const std::vector<std::string>& args) {
  CommandLine line("bench stages",
                   "Measure what --stage-timers costs: two servers of this process, with and\n"
                   "without, share a model and take turns under the same load over loopback.",
                   "  penstock bench stages --model sentence-transformers/all-MiniLM-L6-v2\n"
                   "  penstock bench stages --model MODEL --concurrency 1 --rounds 200\n");
  bench::StagesOverheadOptions options;
  return RunRounds(&line, args, &options, "Rounds of each server; compared in pairs.",
                   [&](runtime::LocalModels* local, load::BenchRecords* records) {
                     return bench::RunStagesOverhead(local->service.get(), &local->metrics, options,
                                                     records);
                   });
}

}  // namespace penstock::cli

// The flags of benchmarks that compare rounds of load: `penstock bench stages` and `bench ui`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/load_rounds.h"
#include "command_line.h"
#include "load/records.h"
#include "runtime/local_models.h"

namespace penstock::cli {

// Reads the flags into *options, loads the model and calls `run`; writes the records where --json
// says. `rounds_help`: of --rounds. The exit code.
int RunRounds(
    CommandLine* line, const std::vector<std::string>& args, bench::RoundOptions* options,
    const std::string& rounds_help,
    const std::function<Status(runtime::LocalModels* models, load::BenchRecords* records)>& run);

}  // namespace penstock::cli

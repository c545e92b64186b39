// The flags of experiments that compare rounds of load (penstock-lab stages, penstock-lab ui).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "lab/load_rounds.h"
#include "load/records.h"
#include "runtime/local_models.h"

namespace penstock::lab {

// Reads the flags into *options, loads the model and calls `run`; writes the records where --json
// says. `rounds_help`: of --rounds. The exit code.
int RunRounds(
    cli::CommandLine* line, const std::vector<std::string>& args, RoundOptions* options,
    const std::string& rounds_help,
    const std::function<Status(runtime::LocalModels* models, load::BenchRecords* records)>& run);

}  // namespace penstock::lab

// Flags of `penstock serve` for requests that do not say how they are sampled.
#pragma once

#include "cli/command_line.h"
#include "runtime/model_options.h"

namespace penstock::cli {

void AddSamplingDefaultFlags(CommandLine* line, runtime::ModelOptions* flags);

}  // namespace penstock::cli

// The flags of models that are served: which, how they are computed, when they come and go. Of
// `penstock serve` and of the library (library/options.h).
#pragma once

#include <string>

#include "cli/command_line.h"
#include "runtime/model_options.h"

namespace penstock::cli {

void AddServedModelFlags(CommandLine* line, runtime::ModelOptions* flags,
                         const std::string& log_level);
// Those of them that are for models that generate text, without how requests are sampled.
void AddTextModelFlags(CommandLine* line, runtime::ModelOptions* flags);

}  // namespace penstock::cli

// The flags that say which models are loaded and how, the same in the server and in every command.
#pragma once

#include <string>

#include "command_line.h"
#include "runtime/local_models.h"

namespace penstock {

// Adds the flags; `several` models or exactly one. Commands log from level `log_level` on.
void AddModelFlags(CommandLine* line, ModelOptions* flags, bool several,
                   const std::string& log_level);
// Sets the log up; an error names the flag.
Status ApplyLogFlags(const ModelOptions& flags);

// For commands the default model is not made for: takes it out of the help.
void DropDefaultModel(CommandLine* line);
// What such a command says where --model is missing. `what`: "reranker".
std::string ModelRequired(const std::string& what);

}  // namespace penstock

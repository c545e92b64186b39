// The flags that say which models are loaded and how, the same in the server and in every command.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "runtime/local_models.h"
#include "runtime/per_model.h"

namespace penstock::cli {

// Adds the flags; `several` models or exactly one. Commands log from level `log_level` on.
void AddModelFlags(CommandLine* line, runtime::ModelOptions* flags, bool several,
                   const std::string& log_level);
// Sets the log up; an error names the flag.
Status ApplyLogFlags(const runtime::ModelOptions& flags);

// The error of a flag's value that may differ between models, [NAME=]VALUE; empty: none.
template <typename ParseValue>
std::string CheckPerModel(const std::string& flag, const std::string& given, ParseValue parse) {
  const auto read = runtime::PerModel::Parse(flag, {given});
  if (!read.ok()) return read.status().message();
  for (const std::string& value : read->Values()) {
    if (const auto parsed = parse(value); !parsed.ok()) return parsed.status().message();
  }
  return "";
}

// What --device says.
inline constexpr char kDeviceHelp[] =
    "Where the model lies and computes: cpu, cuda or cuda:N (an NVIDIA GPU); auto = "
    "cpu.";

// Adds --device, of one model.
void AddDeviceFlag(const FlagGroup& group, std::string* device);
// Adds --auto-pull.
void AddAutoPull(FlagSet* app, bool* allowed);
// Downloads what is not in the cache of these models, or of their tokenizers alone, with the
// progress on stderr, where that is allowed. For commands, before they load.
Status FetchModels(const runtime::ModelOptions& flags, bool tokenizers = false);

// Takes the default model out of the help of commands that it does not fit.
void DropDefaultModel(CommandLine* line);
// The message of such a command without --model. `what`: "reranker".
std::string ModelRequired(const std::string& what);

}  // namespace penstock::cli

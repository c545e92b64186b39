// Flags of the commands that do a part of their work, as one of many processes.
//
// The part is named on the line, or by the engine that started the process: Kubernetes, Slurm and
// others number the processes of a job in variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "bulk/shard_plan.h"
#include "cli/command_line.h"

namespace penstock::cli {

struct ShardFlags {
  std::string shard;              // "I/N"; "" = not given
  std::optional<int64_t> shards;  // N
  bool take = false;
  bool mixed = false;
  int64_t verify = 0;  // rows to compute again
};

// `verify`: whether the command can compute rows again.
void AddShardFlags(CommandLine* line, ShardFlags* flags, bool verify);

// nullopt: the work is not cut. `variable`: a variable of the environment, nullptr if it is not
// set. kInvalidArgument, field = the flag: flags or variables that do not go together.
using Variable = std::function<const char*(const char* name)>;
Expected<std::optional<bulk::ShardChoice>> ChosenShard(const ShardFlags& flags,
                                                       const Variable& variable);

}  // namespace penstock::cli

// penstock embed as one of many processes: shards of the input into a folder of parts.
#pragma once

#include "embed_flags.h"
#include "os/interruption.h"
#include "shard_flags.h"

namespace penstock::cli {

// Makes the parts of this process, or with --verify computes rows of all parts again. Returns the
// exit code.
int EmbedShards(const EmbedFlags& flags, const CommandLine& line, Interruption* interruption,
                const bulk::ShardChoice& choice);

}  // namespace penstock::cli

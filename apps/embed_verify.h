// penstock embed --verify: whether the parts hold what the model makes of the input.
#pragma once

#include <cstdint>

#include "bulk/shard_run.h"
#include "embed_flags.h"
#include "embedder.h"

namespace penstock::cli {

// Computes `count` rows, drawn at random from all parts, again and compares every bit; tells the
// result on stderr. kInternal: a row differs, with its place; kNotFound: a part is missing.
Status VerifyParts(const EmbedFlags& flags, const Embedder& embedder, const bulk::ShardRun& run,
                   int64_t count);

}  // namespace penstock::cli

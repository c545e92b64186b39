// What makes the vectors of penstock embed: a model in this process, or a server.
#pragma once

#include <functional>
#include <string>

#include "bulk/bulk_embed.h"
#include "bulk/embed_output.h"
#include "embed_flags.h"
#include "progress_line.h"

namespace penstock::cli {

// The model that made the vectors, as far as it is known here.
struct Made {
  std::string model;
  std::string dtype;  // "" = not known
  int32_t dimensions = 0;
  int32_t max_tokens = 0;
};

struct Embedder {
  bulk::StartEmbed start;
  bulk::EmbedOutput::EmbedOne embed_one;
  std::function<void()> stop;  // as soon as possible; from any thread
  Made made;
};

// Loads the model or asks the server, as the flags say, and calls `work` with it; errors of both.
// *made is set once it is known, whatever comes of `work`.
using EmbedWork = std::function<Status(const Embedder&)>;
Status WithEmbedder(const EmbedFlags& flags, const CommandLine& line, ProgressLine* progress,
                    Made* made, const EmbedWork& work);

}  // namespace penstock::cli

// Flags of penstock embed, and what follows from them.
#pragma once

#include <optional>
#include <string>

#include "api/types.h"
#include "bulk/bulk_embed.h"
#include "bulk/matrix_file.h"
#include "cli/command_line.h"
#include "client/embed_client.h"
#include "model_flags.h"
#include "server_flags.h"
#include "shard_flags.h"
#include "text_flags.h"

namespace penstock::cli {

struct EmbedFlags {
  runtime::ModelOptions model;
  TextFlags text;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  bool normalize = false;
  Flag* normalize_flag = nullptr;  // was it given?
  bulk::Precision precision = bulk::Precision::kFloat32;
  bool bulk = false;  // accepted for older scripts
  bool resume = false;
  bool restart = false;
  std::string plot;
  ShardFlags shard;
  std::string parts = ".npy";  // the ending of shards' names
  bulk::BulkOptions bulk_options;
  ServerFlags server;
};

void AddEmbedFlags(CommandLine* line, EmbedFlags* flags);

// A request without inputs.
api::EmbedRequest NewRequest(const EmbedFlags& flags);
// The same for a server.
Expected<client::EmbedClientOptions> EmbedOptions(const EmbedFlags& flags, const CommandLine& line);

// The settings that shape the vectors, besides the model and the input. `matrix`: of an output that
// is one.
std::string SettingsText(const EmbedFlags& flags, bool matrix);

}  // namespace penstock::cli

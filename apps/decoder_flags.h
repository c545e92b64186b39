// Flags of the commands that generate text: which model, how it computes, how tokens are chosen.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "devices/devices.h"
#include "generate/text_model.h"
#include "program/backend.h"
#include "sample/sampling_options.h"

namespace penstock::cli {

struct DecoderFlags {
  std::string model;  // "": the demonstration model
  bool auto_pull = true;
  generate::TextModelOptions options;
  std::string device = devices::Devices::kAuto;
  int threads = 0;
  bool pin = true;
  std::string log_level = "warn";
};

// What --context says, with the names it has.
inline constexpr char kContextFlag[] = "-c,--context,--ctx-size,--max-model-len";
inline constexpr char kContextHelp[] =
    "Tokens of prompt and text together; 0 = as many as the model is made for and memory holds.";
void AddCacheTypeFlag(const FlagGroup& group, generate::TextModelOptions* options);
void AddDecoderFlags(CommandLine* line, DecoderFlags* flags);

// Flags of benchmarks: a decoder of random weights, and its name in records.
void AddRandomModelFlags(const FlagGroup& group, std::string* shape, std::string* mix,
                         std::string* name);

// Backend and model of the flags. The backend must outlive the model.
struct LoadedDecoder {
  static Expected<LoadedDecoder> Load(const DecoderFlags& flags);

  std::unique_ptr<program::Backend> backend;
  std::unique_ptr<generate::TextModel> model;
};

// What was given; the rest is the model's or the default.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  sample::SamplingOptions options;  // all others

  // The defaults of a model, then the flags. options.max_tokens -1: no bound.
  sample::SamplingOptions For(const sample::GenerationDefaults& defaults) const;
};

void AddSamplingFlags(CommandLine* line, SamplingFlags* flags);

}  // namespace penstock::cli

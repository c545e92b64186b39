#include "sampling_default_flags.h"

#include "runtime/per_model.h"
#include "runtime/sampling_settings.h"

namespace penstock::cli {
namespace {

// The error of a flag's value; empty: none.
std::string Check(const runtime::SamplingSetting& setting, const std::string& given) {
  const auto read = runtime::PerModel::Parse(setting.flag, {given});
  if (!read.ok()) return read.status().message();
  for (const std::string& value : read->Values()) {
    registry::ModelSpec spec;
    if (const Status set = setting.set(value, &spec); !set.ok()) return set.message();
  }
  return "";
}

}  // namespace

void AddSamplingDefaultFlags(CommandLine* line, runtime::ModelOptions* flags) {
  for (const runtime::SamplingSetting& setting : runtime::SamplingSettings()) {
    const bool whole = setting.given == &runtime::ModelOptions::top_ks;
    const bool tokens = setting.given == &runtime::ModelOptions::max_tokens_defaults;
    FlagGroup(&line->flags(), "Generation")
        .AddRepeated(std::string("--") + setting.flag, flags->*setting.given,
                     tokens  ? "TOKENS"
                     : whole ? "N"
                             : "X",
                     FlagRule([&setting](std::string& given) { return Check(setting, given); }, ""),
                     std::string(setting.help) +
                         " NAME=... is for the model of that name; may be given again.");
  }
}

}  // namespace penstock::cli

#include "model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/regular_file.h"
#include "cli/config_file.h"
#include "cli/flag_values.h"
#include "runtime/sampling_settings.h"

namespace penstock::cli {
namespace {

constexpr size_t kBytesMax = 64 << 10;

// Keys whose value is that of a flag.
constexpr std::array<std::pair<const char*, std::vector<std::string> runtime::ModelOptions::*>, 9>
    kTexts = {{{"task", &runtime::ModelOptions::tasks},
               {"context", &runtime::ModelOptions::contexts},
               {"max-batch-size", &runtime::ModelOptions::max_batch_sizes},
               {"dtype", &runtime::ModelOptions::dtypes},
               {"device", &runtime::ModelOptions::devices},
               {"int8-keep", &runtime::ModelOptions::int8_keep},
               {"pooling", &runtime::ModelOptions::poolings},
               {"chat-template", &runtime::ModelOptions::chat_templates},
               {"keep-alive", &runtime::ModelOptions::keep_alives}}};

std::string KnownKeys() {
  std::string keys;
  for (const auto& [key, list] : kTexts) keys += std::string(key) + ", ";
  for (const runtime::SamplingSetting& sampling : runtime::SamplingSettings()) {
    keys += std::string(sampling.flag) + ", ";
  }
  return keys + "aliases, preload, pin";
}

// "a" and "b" as "a,b".
std::string Joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ",") + value;
  return text;
}

Status TakeEntry(const ConfigEntry& entry, runtime::ModelOptions* options) {
  if (Joined(entry.values).empty()) {
    return Status::InvalidArgument(entry.key +
                                   " is set but empty; give it a value, or leave it out");
  }
  const auto text = std::find_if(kTexts.begin(), kTexts.end(),
                                 [&](const auto& one) { return one.first == entry.key; });
  if (text != kTexts.end()) {
    options->*(text->second) = {Joined(entry.values)};
    return Status::Ok();
  }
  for (const runtime::SamplingSetting& sampling : runtime::SamplingSettings()) {
    if (entry.key != sampling.flag) continue;
    options->*sampling.given = {Joined(entry.values)};
    return Status::Ok();
  }
  if (entry.key == "aliases") {
    for (const std::string& alias : entry.values) {
      if (alias.empty() || alias.find_first_of(",=") != std::string::npos) {
        return Status::InvalidArgument(
            fmt::format("'{}' cannot be a name: empty, or with ',' or '='", alias));
      }
      options->served_names.push_back(alias);
    }
    return Status::Ok();
  }
  if (entry.key != "preload" && entry.key != "pin") {
    return Status::InvalidArgument(
        fmt::format("unknown key '{}'; known: {}", entry.key, KnownKeys()));
  }
  const auto on = entry.list ? std::nullopt : ParseBoolean(entry.values.front());
  if (!on) return Status::InvalidArgument(entry.key + " is to be true or false");
  if (entry.key == "preload") options->preload = *on;
  if (entry.key == "pin" && *on) options->pin_models = {options->served_names.front()};
  return Status::Ok();
}

}  // namespace

Status ReadModelFile(const std::string& path, runtime::ModelOptions* options) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, kBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const ConfigFile file, ParseConfig(text, path));
  if (!file.tables.empty()) {
    return Status::InvalidArgument(
        fmt::format("{}: a model's file has keys and no tables", file.At(file.tables[0].line)));
  }
  for (const ConfigEntry& entry : file.entries) {
    const Status taken = TakeEntry(entry, options);
    if (!taken.ok()) return taken.Annotate(file.At(entry.line));
  }
  return Status::Ok();
}

}  // namespace penstock::cli

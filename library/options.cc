#include "library/options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apps/served_model_flags.h"
#include "cli/settings.h"
#include "json/json.h"

namespace penstock::library {
namespace {

// The value as it stands behind a flag.
Expected<std::string> ValueText(const JsonElement& value, const std::string& key) {
  std::string text;
  if (value.Get(&text)) return text;
  bool truth = false;
  if (value.Get(&truth)) return std::string(truth ? "true" : "false");
  if (value.is_number()) return value.Text();
  return Status::InvalidArgument("'" + key + "' must be a string, a number, true or false", key);
}

// Adds "--key=value" for each value.
Status AddArguments(const std::string& key, const JsonElement& value,
                    std::vector<std::string>* arguments) {
  JsonArray values;
  if (!value.Get(&values)) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string text, ValueText(value, key));
    arguments->push_back("--" + key + "=" + text);
    return Status::Ok();
  }
  for (const JsonElement& one : values) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string text, ValueText(one, key));
    arguments->push_back("--" + key + "=" + text);
  }
  return Status::Ok();
}

// The key that an error of the flags is about.
std::string KeyOf(const std::string& message) {
  if (!message.starts_with("--")) return "";
  const size_t end = message.find_first_of(" :=", 2);
  return message.substr(2, end == std::string::npos ? end : end - 2);
}

}  // namespace

Expected<OpenOptions> ReadOptions(std::string_view json) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(json));
  JsonObject object;
  if (!document.root().Get(&object)) {
    return Status::InvalidArgument("the options must be a JSON object");
  }
  cli::CommandLine line("library", "", "");
  OpenOptions read;
  runtime::ModelOptions& options = read.models;
  cli::AddServedModelFlags(&line, &options, "off");
  const std::vector<std::string> known = cli::FlagNames(line.flags().app());
  std::vector<std::string> arguments;
  for (const JsonField& field : object) {
    const std::string key(field.key);
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Status::InvalidArgument(
          "there is no option '" + key + "'; they are flags of penstock serve, without dashes",
          key);
    }
    if (field.value.is_null()) continue;
    read.sets_log = read.sets_log || key == "log-level" || key == "log-format";
    PENSTOCK_RETURN_IF_ERROR(AddArguments(key, field.value, &arguments));
  }
  if (const Status read = line.ParseArguments(arguments); !read.ok()) {
    return Status::InvalidArgument(read.message(), KeyOf(read.message()));
  }
  options.on_demand = true;
  if (options.keep_alives.empty()) options.keep_alives = {"-1"};
  return read;
}

}  // namespace penstock::library

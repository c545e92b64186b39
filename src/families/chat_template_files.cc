#include "families/chat_template_files.h"

#include <filesystem>
#include <utility>

#include "base/printable.h"
#include "base/regular_file.h"
#include "families/model_folder.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKey = "chat_template";
constexpr const char* kDefault = "default";

Status TooMany(const std::string& where) {
  return Status::InvalidArgument(
      where + " has more than " + std::to_string(ChatTemplates::kCountMax) + " chat templates",
      std::string(kKey));
}

// A text, or a list of objects with name and template; of a name twice the last counts.
Status ReadConfig(const JsonObject& config, ChatTemplates* templates) {
  const auto value = config.Find(kKey);
  if (!value) return Status::Ok();
  JsonArray list;
  if (!value->Get(&list)) {
    PENSTOCK_ASSIGN_OR_RETURN(templates->by_name[kDefault],
                              config.GetString(kKey, ChatTemplates::kBytesMax));
    return Status::Ok();
  }
  for (const JsonElement item : list) {
    JsonObject fields;
    if (!item.Get(&fields)) {
      return Status::InvalidArgument("'chat_template' must be a string or a list of objects",
                                     std::string(kKey));
    }
    const JsonObject entry(fields, config.PathOf(kKey) + "[]");
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, entry.GetString("name"));
    PENSTOCK_ASSIGN_OR_RETURN(templates->by_name[name],
                              entry.GetString("template", ChatTemplates::kBytesMax));
    if (templates->by_name.size() > ChatTemplates::kCountMax) return TooMany("'chat_template'");
  }
  return Status::Ok();
}

Status ReadConfigFile(const fs::path& folder, const char* file, ChatTemplates* templates) {
  if (!PathExists(folder / file)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(
      const JsonDocument document,
      JsonDocument::ParseFile((folder / file).string(), ModelFolder::kConfigBytesMax));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate(file);
  const Status read = ReadConfig(*object, templates);
  return read.ok() ? read : read.Annotate(file);
}

Status ReadFile(const fs::path& path, std::string name, ChatTemplates* templates) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string text,
                            ReadRegularFile(path.string(), ChatTemplates::kBytesMax));
  templates->by_name[std::move(name)] = std::move(text);
  return Status::Ok();
}

Status ReadAdditional(const fs::path& folder, ChatTemplates* templates) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".jinja") continue;
    PENSTOCK_RETURN_IF_ERROR(ReadFile(it->path(), it->path().stem().string(), templates));
    if (templates->by_name.size() > ChatTemplates::kCountMax) return TooMany(folder.string());
  }
  return Status::Ok();
}

}  // namespace

Expected<ChatTemplates> ChatTemplates::OfFolder(const std::string& path) {
  const fs::path folder(path);
  ChatTemplates templates;
  const fs::path own = folder / "chat_template.jinja";
  if (PathExists(own)) PENSTOCK_RETURN_IF_ERROR(ReadFile(own, kDefault, &templates));
  PENSTOCK_RETURN_IF_ERROR(ReadAdditional(folder / "additional_chat_templates", &templates));
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    if (!templates.by_name.empty()) break;
    PENSTOCK_RETURN_IF_ERROR(ReadConfigFile(folder, file, &templates));
  }
  return templates;
}

Expected<ChatTemplates> ChatTemplates::OfGguf(const files::GgufMetadata& metadata) {
  const std::string_view prefix = "tokenizer.chat_template";
  ChatTemplates templates;
  for (auto it = metadata.values().lower_bound(prefix);
       it != metadata.values().end() && it->first.starts_with(prefix); ++it) {
    const std::string key(it->first);
    std::string name = kDefault;
    if (key.size() > prefix.size()) {
      if (key[prefix.size()] != '.') continue;  // tokenizer.chat_templates: the names
      name = key.substr(prefix.size() + 1);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string_view text, metadata.GetString(key));
    if (text.size() > kBytesMax) {
      return Status::InvalidArgument("key '" + Shown(key) + "' has " + std::to_string(text.size()) +
                                         " bytes; at most " + std::to_string(kBytesMax) +
                                         " are allowed",
                                     Shown(key));
    }
    templates.by_name[name] = text;
    if (templates.by_name.size() > kCountMax) return TooMany("the file");
  }
  return templates;
}

const std::string* ChatTemplates::Choose(std::string_view name, bool has_tools) const {
  const auto find = [this](std::string_view wanted) {
    const auto it = by_name.find(wanted);
    return it == by_name.end() ? nullptr : &it->second;
  };
  if (!name.empty()) return find(name);
  const std::string* for_tools = has_tools ? find("tool_use") : nullptr;
  return for_tools != nullptr ? for_tools : find(kDefault);
}

}  // namespace penstock::families

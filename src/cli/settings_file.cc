// The file of --config: the tables and keys for this command, and the settings they give.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "cli/flag_values.h"
#include "cli/settings.h"

namespace penstock::cli {
namespace {

constexpr const char* kModels = "models";
// Keys of [models.NAME] that are true or false, and the flags that take the name.
constexpr std::array<std::pair<const char*, const char*>, 2> kModelSwitches = {
    {{"preload", "preload-model"}, {"pin", "pin-model"}}};

std::vector<std::string> Words(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string Joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

bool IsPrefix(const std::vector<std::string>& prefix, const std::vector<std::string>& of) {
  return prefix.size() <= of.size() && std::equal(prefix.begin(), prefix.end(), of.begin());
}

bool AnyHas(const std::vector<CommandFlags>& commands, const std::string& flag) {
  return std::any_of(commands.begin(), commands.end(), [&](const CommandFlags& command) {
    return std::find(command.flags.begin(), command.flags.end(), flag) != command.flags.end();
  });
}

Status Refuse(const std::string& where, const std::string& why) {
  return Status::InvalidArgument(where + ": " + why);
}

bool AllEmpty(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](const std::string& value) { return value.empty(); });
}

// Whether a --model "NAME[,ALIAS...]=REF" has `name` as its first.
bool IsNamed(const std::string& model, const std::string& name) {
  return model.starts_with(name + "=") ||
         (model.starts_with(name + ",") && model.find('=') != std::string::npos);
}

// Adds a source to a list's sources.
void AlsoFrom(const std::string& place, std::string* origin) {
  *origin += (origin->empty() ? "" : ", ") + place;
}

}  // namespace

Status Settings::ReadFile(const std::string& path, const std::vector<CommandFlags>& others) {
  PENSTOCK_ASSIGN_OR_RETURN(const ConfigFile file, ReadConfigFile(path));
  PENSTOCK_RETURN_IF_ERROR(CheckTables(file, others));
  FileValues values;
  for (const ConfigEntry& entry : file.entries) {
    PENSTOCK_RETURN_IF_ERROR(TakeEntry(file, entry, others, &values));
  }
  PENSTOCK_RETURN_IF_ERROR(TakeModels(file, &values));
  for (auto& [option, value] : values) given_.try_emplace(option, std::move(value.given));
  return Status::Ok();
}

Status Settings::CheckTables(const ConfigFile& file,
                             const std::vector<CommandFlags>& others) const {
  std::vector<std::vector<std::string>> known = {{kModels}, Words(rules_->command)};
  for (const CommandFlags& other : others) known.push_back(Words(other.command));
  for (const ConfigTable& table : file.tables) {
    if (table.path[0] == kModels && table.path.size() <= 2) continue;
    if (std::any_of(known.begin(), known.end(),
                    [&](const auto& words) { return IsPrefix(table.path, words); })) {
      continue;
    }
    std::vector<std::string> names;
    for (const auto& words : known) names.push_back(Joined(words, "."));
    const std::string name = Joined(table.path, ".");
    const std::string nearest = Nearest(name, names);
    return Refuse(
        file.At(table.line),
        fmt::format("unknown table [{}]{}; tables are named after commands, and "
                    "[models.NAME]",
                    name, nearest.empty() ? "" : fmt::format("; did you mean [{}]?", nearest)));
  }
  return Status::Ok();
}

Status Settings::TakeEntry(const ConfigFile& file, const ConfigEntry& entry,
                           const std::vector<CommandFlags>& others, FileValues* values) const {
  const std::vector<std::string> own = Words(rules_->command);
  const std::string where = file.At(entry.line);
  const std::string table =
      entry.table.empty() ? "" : fmt::format(" in [{}]", Joined(entry.table, "."));
  if (!entry.table.empty() && entry.table[0] == kModels) {
    if (entry.table.size() == 2) return Status::Ok();  // see TakeModels
    return Refuse(where, fmt::format("'{}' belongs in a table [models.NAME]", entry.key));
  }
  if (!IsPrefix(entry.table, own)) return Status::Ok();  // of another command
  const CLI::Option* const option = Find(entry.key);
  if (option == nullptr || IsAction(option)) {
    if (entry.table.size() < own.size() && AnyHas(others, entry.key)) return Status::Ok();
    std::vector<std::string> known = FlagNames(*app_);
    if (entry.table.empty()) {
      for (const CommandFlags& other : others) {
        known.insert(known.end(), other.flags.begin(), other.flags.end());
      }
    }
    return Refuse(
        where, fmt::format("unknown key '{}'{}{}", entry.key, table, DidYouMean(entry.key, known)));
  }
  FromFile read{{entry.values, fmt::format("{}: {}", where, entry.key), where}, entry.table.size()};
  // A text may be empty on purpose: a prompt that replaces the model's.
  const bool may_be_empty = BareType(option) == "TEXT" && !entry.list;
  if (!may_be_empty && AllEmpty(entry.values)) {
    return Status::InvalidArgument(read.given.source +
                                   " is set but empty; give it a value, or leave it out");
  }
  if (IsSwitch(option)) {
    const auto on = entry.list ? std::nullopt : ParseBoolean(entry.values.front());
    if (!on) return Status::InvalidArgument(read.given.source + " is to be true or false");
    read.given.values = {(option->get_flag_value(entry.key, "") != "false") == *on ? "true"
                                                                                   : "false"};
  } else if (entry.values.size() > 1 && !MayBeGivenAgain(option)) {
    return Status::InvalidArgument(read.given.source + " takes one value, not a list");
  }
  const auto [at, first] = values->try_emplace(option, read);
  if (first) return Status::Ok();
  if (at->second.depth == read.depth) {
    return Status::InvalidArgument(
        fmt::format("{} is set at {} too", read.given.source, at->second.given.origin));
  }
  if (at->second.depth < read.depth) at->second = std::move(read);
  return Status::Ok();
}

// ---- [models.NAME]

Expected<std::vector<Settings::ModelTable>> Settings::ModelTables(const ConfigFile& file) const {
  std::vector<ModelTable> tables;
  for (const ConfigTable& table : file.tables) {
    if (table.path.size() != 2 || table.path[0] != kModels) continue;
    const std::string& name = table.path[1];
    if (name.empty() || name.find_first_of(",=") != std::string::npos ||
        name.find_first_of("/.~") == 0) {
      return Refuse(file.At(table.line),
                    fmt::format("a model's name cannot be empty, hold ',' or '=', or begin with "
                                "'/', '.' or '~': [{}]",
                                Joined(table.path, ".")));
    }
    tables.push_back({name, name, "", table.line, {}});
  }
  std::vector<std::string> known = rules_->per_model;
  known.insert(known.end(), {"model", "path", "aliases"});
  for (const auto& [key, flag] : kModelSwitches) known.push_back(key);
  for (const ConfigEntry& entry : file.entries) {
    if (entry.table.size() != 2 || entry.table[0] != kModels) continue;
    ModelTable& table = *std::find_if(tables.begin(), tables.end(), [&](const ModelTable& one) {
      return one.name == entry.table[1];
    });
    const std::string source = fmt::format("{}: {}", file.At(entry.line), entry.key);
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      return Refuse(file.At(entry.line),
                    fmt::format("unknown key '{}' in [models.{}]{}; known: {}", entry.key,
                                table.name, DidYouMean(entry.key, known), Joined(known, ", ")));
    }
    if (AllEmpty(entry.values)) {
      return Status::InvalidArgument(source +
                                     " is set but empty; give it a value, or leave it out");
    }
    if (entry.key == "aliases") {
      for (const std::string& alias : entry.values) {
        if (alias.empty() || alias.find_first_of(",=") != std::string::npos) {
          return Refuse(source,
                        fmt::format("'{}' cannot be a name: empty, or with ',' or '='", alias));
        }
        table.names += "," + alias;
      }
      continue;
    }
    if (entry.key != "model" && entry.key != "path") {
      table.settings[entry.key] = entry;
      continue;
    }
    if (entry.list) return Status::InvalidArgument(source + " takes one value, not a list");
    if (!table.reference.empty()) {
      return Refuse(file.At(entry.line),
                    fmt::format("[models.{}] has 'model' and 'path'; give one", table.name));
    }
    table.reference = entry.values.front();
  }
  return tables;
}

// Settles --model: tables stand beside the file's own models; where --model is given otherwise, or
// the command takes one model, tables are what NAME may mean. Leaves the tables that are in use.
void Settings::NameModels(const ConfigFile& file, std::vector<ModelTable>* tables,
                          FileValues* values) {
  const CLI::Option* const option = Find("model");
  const auto given = given_.find(option);
  const bool from_file = given == given_.end();
  if (from_file && MayBeGivenAgain(option)) {
    FromFile& models = (*values)[option];
    for (const ModelTable& table : *tables) {
      if (table.reference.empty()) continue;
      if (models.given.values.empty()) {
        models.given.source = fmt::format("{}: [models.{}]", file.At(table.line), table.name);
      }
      AlsoFrom(file.At(table.line), &models.given.origin);
      models.given.values.push_back(table.names + "=" + table.reference);
    }
    if (models.given.values.empty()) values->erase(option);
  }
  const auto in_file = values->find(option);
  std::vector<std::string>* const models =
      !from_file ? &given->second.values
                 : (in_file == values->end() ? nullptr : &in_file->second.given.values);
  std::erase_if(*tables, [&](const ModelTable& table) {
    bool used = false;
    if (models != nullptr) {
      for (std::string& model : *models) {
        if (model == table.name && !table.reference.empty()) {
          model = table.names + "=" + table.reference;
        }
        used = used || IsNamed(model, table.name);
      }
    }
    return !used && !(table.reference.empty() && MayBeGivenAgain(option) && from_file);
  });
}

Status Settings::TakeModels(const ConfigFile& file, FileValues* values) {
  // With --url a name is the server's.
  if (Find("model") == nullptr || rules_->per_model.empty() || IsGiven("url") ||
      values->contains(Find("url"))) {
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<ModelTable> tables, ModelTables(file));
  NameModels(file, &tables, values);
  const bool several = MayBeGivenAgain(Find("model"));
  for (const ModelTable& table : tables) {
    const auto models = values->find(Find("model"));
    const bool named =
        !table.reference.empty() ||
        (models != values->end() &&
         std::any_of(models->second.given.values.begin(), models->second.given.values.end(),
                     [&](const std::string& model) { return IsNamed(model, table.name); }));
    if (several && !IsGiven("model") && !named) {
      return Refuse(
          file.At(table.line),
          fmt::format("[models.{}] has no 'model', and no model is called so", table.name));
    }
    for (const auto& [key, entry] : table.settings) {
      const auto is_key = [&name = key](const auto& one) { return one.first == name; };
      const auto* const found = std::ranges::find_if(kModelSwitches, is_key);
      const bool is_switch = found != std::end(kModelSwitches);
      const std::string flag = is_switch ? found->second : key;
      if (is_switch) {
        const auto on = entry.list ? std::nullopt : ParseBoolean(entry.values.front());
        if (!on) {
          return Status::InvalidArgument(
              fmt::format("{}: {} is to be true or false", file.At(entry.line), key));
        }
        if (!*on) continue;
      }
      const CLI::Option* const option = Find(flag);
      if (option == nullptr || given_.contains(option)) continue;
      FromFile& value = (*values)[option];
      if (value.given.values.empty()) {
        value.given.source = fmt::format("{}: {}", file.At(entry.line), flag);
      }
      AlsoFrom(file.At(entry.line), &value.given.origin);
      value.given.values.push_back(is_switch ? table.name
                                             : table.name + "=" + Joined(entry.values, ","));
    }
  }
  return Status::Ok();
}

}  // namespace penstock::cli

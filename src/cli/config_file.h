// The TOML file of --config as a list of keys, each with its table and line. Settings gives them
// their meaning.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::cli {

struct ConfigTable {
  std::vector<std::string> path;  // [models.a]: {"models", "a"}
  int line = 0;
};

struct ConfigEntry {
  std::vector<std::string> table;  // empty: before the first table
  std::string key;
  std::vector<std::string> values;  // text of numbers and booleans, too
  bool list = false;
  int line = 0;
};

struct ConfigFile {
  std::string path;
  std::vector<ConfigTable> tables;  // in the order of the file, as the entries
  std::vector<ConfigEntry> entries;

  // "penstock.toml:3"
  std::string At(int line) const;
};

// kNotFound: it cannot be read. kInvalidArgument: it is not TOML, or a value is not a string,
// number, boolean or list of those; with file and line.
Expected<ConfigFile> ReadConfigFile(const std::string& path);
// The same of a file's text. `path` is for messages.
Expected<ConfigFile> ParseConfig(const std::string& text, const std::string& path);

// As a TOML string, in quotes.
std::string TomlString(const std::string& text);

}  // namespace penstock::cli

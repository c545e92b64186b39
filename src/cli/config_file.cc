#include "cli/config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace penstock::cli {
namespace {

int LineOf(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// The text of a string, number or boolean; nullopt for other nodes.
std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& path) { file_.path = path; }

  Status ReadTable(const toml::table& table, const std::vector<std::string>& path) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (const auto* inner = node.as_table()) {
        std::vector<std::string> below = path;
        below.push_back(name);
        file_.tables.push_back({below, static_cast<int>(key.source().begin.line)});
        PENSTOCK_RETURN_IF_ERROR(ReadTable(*inner, below));
        continue;
      }
      ConfigEntry entry{path, name, {}, node.is_array(), static_cast<int>(key.source().begin.line)};
      PENSTOCK_RETURN_IF_ERROR(ReadValues(node, &entry));
      file_.entries.push_back(std::move(entry));
    }
    return Status::Ok();
  }

  // Tables come by name.
  ConfigFile Take() {
    const auto by_line = [](const auto& a, const auto& b) { return a.line < b.line; };
    std::stable_sort(file_.tables.begin(), file_.tables.end(), by_line);
    std::stable_sort(file_.entries.begin(), file_.entries.end(), by_line);
    return std::move(file_);
  }

 private:
  Status ReadValues(const toml::node& node, ConfigEntry* entry) const {
    const auto add = [&](const toml::node& item) -> Status {
      const auto text = TextOf(item);
      if (!text) {
        return Status::InvalidArgument(
            fmt::format("{}: '{}' is to be a string, a number, true or false, or a list of those",
                        file_.At(LineOf(item)), entry->key));
      }
      entry->values.push_back(*text);
      return Status::Ok();
    };
    const toml::array* const array = node.as_array();
    if (array == nullptr) return add(node);
    for (const toml::node& item : *array) PENSTOCK_RETURN_IF_ERROR(add(item));
    return Status::Ok();
  }

  ConfigFile file_;
};

}  // namespace

std::string ConfigFile::At(int line) const { return fmt::format("{}:{}", path, line); }

Expected<ConfigFile> ReadConfigFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  char part[4096];
  while (in.read(part, sizeof part) || in.gcount() > 0) {
    text.append(part, static_cast<size_t>(in.gcount()));
  }
  if (!in.eof()) {  // not opened, or a folder
    return Status::NotFound(
        fmt::format("--config: cannot read {}: {}", path, std::strerror(errno == 0 ? EIO : errno)));
  }
  return ParseConfig(text, path);
}

Expected<ConfigFile> ParseConfig(const std::string& text, const std::string& path) {
  try {
    Reader reader(path);
    PENSTOCK_RETURN_IF_ERROR(reader.ReadTable(toml::parse(text, path), {}));
    return reader.Take();
  } catch (const toml::parse_error& error) {
    return Status::InvalidArgument(
        fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

std::string TomlString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace penstock::cli

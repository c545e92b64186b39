#include "files/gguf_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/printable.h"

namespace penstock::files {
namespace {

namespace fs = std::filesystem;

// Of models that are named where there are too many.
constexpr size_t kNamesShown = 10;

// What parts of one model have in common: "llama-00002-of-00003.gguf" -> "llama-of-00003.gguf".
std::string NameOfAllParts(const std::string& name) {
  constexpr size_t kEnd = std::string_view("-00001-of-00001.gguf").size();
  if (name.size() <= kEnd) return name;
  const std::string end = name.substr(name.size() - kEnd);
  const auto digits = [&](size_t at) {
    return std::all_of(end.begin() + static_cast<long>(at), end.begin() + static_cast<long>(at + 5),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  if (end[0] != '-' || !digits(1) || end.substr(6, 4) != "-of-" || !digits(10)) return name;
  return name.substr(0, name.size() - kEnd) + end.substr(6);
}

}  // namespace

Expected<std::string> FindGguf(const std::string& path,
                               std::initializer_list<const char*> instead) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Status::NotFound("no model at " + path);
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* file : instead) {
    if (fs::exists(fs::path(path) / file, ignored)) return std::string();
  }
  std::map<std::string, std::string> models;  // the name of all parts -> the first part's
  for (auto it = fs::directory_iterator(path, ignored); it != fs::directory_iterator();
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    std::string& first = models.try_emplace(NameOfAllParts(name), name).first->second;
    first = std::min(first, name);
  }
  if (models.empty()) return std::string();
  if (models.size() == 1) return (fs::path(path) / models.begin()->second).string();
  std::string names;
  for (const auto& [all, first] : models) {
    names += (names.empty() ? "" : ", ") + first;
    if (static_cast<size_t>(std::count(names.begin(), names.end(), ',')) + 1 >= kNamesShown) break;
  }
  return Status::InvalidArgument(path + " has " + std::to_string(models.size()) + " GGUF models (" +
                                     Printable(names) + "); name the file of one",
                                 "model");
}

}  // namespace penstock::files

#include "hub/default_model.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "hub/cache.h"
#include "hub/reference.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool IsInHubCache(const ModelReference& reference) {
  const RepositoryCache cache(DefaultCacheRoot(), reference);
  const std::string commit = cache.CommitOf(reference.revision);
  return !commit.empty() && cache.Has(commit, "tokenizer.json") &&
         cache.Missing(commit, /*certain=*/true).empty();
}

// The script moves the folder into place when it is whole.
bool IsWhole(const fs::path& folder) {
  constexpr const char* kNeeded[] = {"config.json", "modules.json", "1_Pooling/config.json",
                                     "tokenizer.json", "model.safetensors"};
  return std::all_of(std::begin(kNeeded), std::end(kNeeded), [&](const char* file) {
    std::error_code ignored;
    return fs::is_regular_file(folder / file, ignored);
  });
}

}  // namespace

DefaultModel FindDefaultModel() {
  if (std::string given = Env("PENSTOCK_DEFAULT_MODEL"); !given.empty()) return {given, ""};
  ModelReference reference;
  const std::string name = kDefaultModel;
  reference.owner = name.substr(0, name.find('/'));
  reference.name = name.substr(name.find('/') + 1);
  reference.revision = "main";
  if (!IsInHubCache(reference)) {
    const std::string xdg = Env("XDG_CACHE_HOME");
    const fs::path folder = fs::path(xdg.empty() ? Env("HOME") + "/.cache" : xdg) / "penstock" /
                            "models" / (reference.owner + "--" + reference.name);
    if (IsWhole(folder)) return {folder.string(), name};
  }
  return {name, name};
}

}  // namespace penstock

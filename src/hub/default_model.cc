#include "hub/default_model.h"

#include <algorithm>
#include <filesystem>

#include "hub/cache.h"
#include "hub/environment.h"
#include "hub/reference.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

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

// Where the scripts put models.
fs::path ScriptFolder() {
  const std::string xdg = EnvText("XDG_CACHE_HOME");
  return fs::path(xdg.empty() ? EnvText("HOME") + "/.cache" : xdg) / "penstock" / "models";
}

}  // namespace

std::string ScriptFolderOf(const ModelReference& reference) {
  if (reference.local() || reference.revision != "main" || !reference.quantisation.empty() ||
      !reference.file.empty()) {
    return "";
  }
  const fs::path folder = ScriptFolder() / (reference.owner + "--" + reference.name);
  return IsWhole(folder) ? folder.string() : "";
}

DefaultModel FindDemoModel() {
  if (std::string given = EnvText("PENSTOCK_DEMO_MODEL"); !given.empty()) return {given, ""};
  const fs::path file =
      ScriptFolder() / "HuggingFaceTB--SmolLM2-135M-Instruct" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) return {file.string(), kDemoModel};
  return {kDemoReference, kDemoModel};
}

DefaultModel FindDefaultModel() {
  if (std::string given = EnvText("PENSTOCK_DEFAULT_MODEL"); !given.empty()) return {given, ""};
  ModelReference reference;
  const std::string name = kDefaultModel;
  reference.owner = name.substr(0, name.find('/'));
  reference.name = name.substr(name.find('/') + 1);
  reference.revision = "main";
  if (!IsInHubCache(reference)) {
    if (std::string folder = ScriptFolderOf(reference); !folder.empty()) return {folder, name};
  }
  return {name, name};
}

}  // namespace penstock::hub

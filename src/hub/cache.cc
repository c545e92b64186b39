#include "hub/cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/regular_file.h"
#include "hub/environment.h"
#include "hub/file_choice.h"
#include "json/json.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIndexBytesMax = 100 << 20;
constexpr size_t kRefBytesMax = 256;
constexpr std::string_view kFolderPrefix = "models--";

bool IsCommit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status Failed(const std::string& what, const fs::path& path, const std::string& reason) {
  return Status::Internal("cannot " + what + " " + path.string() + ": " + reason);
}

Status MakeParent(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  return error ? Failed("make the folder", path.parent_path(), error.message()) : Status::Ok();
}

// Whole or not at all: others may read it at any moment.
Status WriteText(const fs::path& path, const std::string& text) {
  PENSTOCK_RETURN_IF_ERROR(MakeParent(path));
  const std::string part = path.string() + ".part-" + std::to_string(::getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code error;
  if (!file) return Failed("write", path, std::strerror(errno));
  fs::rename(part, path, error);
  return error ? Failed("write", path, error.message()) : Status::Ok();
}

// Files below a folder as paths from there, by a walk that follows no link to a folder.
template <typename Visit>
void ForEachFile(const fs::path& folder, Visit visit) {
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (size_t count = 0; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (++count > RepositoryListing::kFilesMax) return;
    std::error_code ignored;
    if (at->is_directory(ignored)) continue;
    visit(at->path().lexically_relative(folder).string(), *at);
  }
}

// A folder that names its own modules says so in modules.json; what that list names must be there.
void AddMissingModules(const fs::path& snapshot, std::vector<std::string>* missing) {
  const auto document = JsonDocument::ParseFile((snapshot / "modules.json").string(), 1 << 20);
  JsonArray modules;
  if (!document.ok() || !document->root().Get(&modules)) return;
  for (const JsonElement module : modules) {
    std::string_view type, path;
    if (!module["type"].Get(&type)) continue;
    if (!module["path"].Get(&path) || path.empty()) continue;
    const std::string folder(path);
    if (type.ends_with("Pooling") || type.ends_with("Dense")) {
      if (!PathExists(snapshot / folder / "config.json"))
        missing->push_back(folder + "/config.json");
    }
    if (type.ends_with("Dense") && !PathExists(snapshot / folder / "model.safetensors")) {
      missing->push_back(folder + "/model.safetensors");
    }
  }
}

void AddMissingWeights(const fs::path& snapshot, std::vector<std::string>* missing) {
  if (PathExists(snapshot / "model.safetensors")) return;
  const fs::path index = snapshot / "model.safetensors.index.json";
  if (!PathExists(index)) {
    missing->push_back("model.safetensors");
    return;
  }
  const auto shards = ShardsOf(index.string());
  if (!shards.ok()) {
    missing->push_back("model.safetensors.index.json");
    return;
  }
  for (const std::string& shard : *shards) {
    if (!PathExists(snapshot / shard)) missing->push_back(shard);
  }
}

}  // namespace

std::string DefaultCacheRoot() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = EnvPath(name); !value.empty()) return value;
  }
  return HubHome() + "/hub";
}

Expected<std::vector<std::string>> ShardsOf(const std::string& index_path) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(index_path, kIndexBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject index, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(const auto weights, index.GetStringMapOrEmpty("weight_map"));
  std::set<std::string> names;
  for (const auto& [tensor, file] : weights) {
    if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos) {
      return Status::InvalidArgument(index_path + " names '" + file + "', not a plain file name",
                                     "weight_map");
    }
    names.insert(file);
  }
  if (names.empty()) return Status::InvalidArgument(index_path + " names no files", "weight_map");
  return std::vector<std::string>(names.begin(), names.end());
}

RepositoryCache::RepositoryCache(const std::string& root, const ModelReference& reference) {
  const std::string name = std::string(kFolderPrefix) + reference.owner + "--" + reference.name;
  folder_ = (fs::path(root) / name).string();
  locks_ = (fs::path(root) / ".locks" / name).string();
}

std::string RepositoryCache::CommitOf(const std::string& revision) const {
  const auto text = ReadRegularFile((fs::path(folder_) / "refs" / revision).string(), kRefBytesMax);
  std::string commit = text.ok() ? *text : "";
  while (commit.ends_with('\n') || commit.ends_with(' ')) commit.pop_back();
  if (IsCommit(commit)) return commit;
  return IsCommit(revision) && PathExists(SnapshotFolder(revision)) ? revision : "";
}

std::string RepositoryCache::SnapshotFolder(const std::string& commit) const {
  return (fs::path(folder_) / "snapshots" / commit).string();
}

std::string RepositoryCache::BlobPath(const std::string& etag) const {
  return (fs::path(folder_) / "blobs" / etag).string();
}

std::string RepositoryCache::LockPath(const std::string& etag) const {
  return (fs::path(locks_) / (etag + ".lock")).string();
}

bool RepositoryCache::Has(const std::string& commit, const std::string& file) const {
  return PathExists(fs::path(SnapshotFolder(commit)) / file);
}

bool RepositoryCache::KnownAbsent(const std::string& commit, const std::string& file) const {
  return PathExists(fs::path(folder_) / ".no_exist" / commit / file);
}

std::vector<std::string> RepositoryCache::Missing(const std::string& commit, bool certain) const {
  const fs::path snapshot = SnapshotFolder(commit);
  std::vector<std::string> missing;
  if (!Has(commit, "config.json")) missing.push_back("config.json");
  AddMissingWeights(snapshot, &missing);
  if (Has(commit, "modules.json")) AddMissingModules(snapshot, &missing);
  if (certain) return missing;
  // Another program may have fetched fewer files: without a note that the repository lacks a file,
  // its absence here says nothing.
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "modules.json"}) {
    if (!Has(commit, file) && !KnownAbsent(commit, file)) missing.push_back(file);
  }
  return missing;
}

std::vector<std::string> RepositoryCache::MissingForTokenizer(const std::string& commit,
                                                              bool certain) const {
  std::vector<std::string> missing;
  if (!Has(commit, "tokenizer.json")) missing.push_back("tokenizer.json");
  const char* const settings = "tokenizer_config.json";
  if (!certain && !Has(commit, settings) && !KnownAbsent(commit, settings)) {
    missing.push_back(settings);
  }
  return missing;
}

Status RepositoryCache::Link(const std::string& commit, const std::string& file,
                             const std::string& etag) const {
  const fs::path link = fs::path(SnapshotFolder(commit)) / file;
  PENSTOCK_RETURN_IF_ERROR(MakeParent(link));
  const fs::path target = fs::relative(BlobPath(etag), link.parent_path());
  std::error_code error;
  fs::remove(link, error);
  fs::create_symlink(target, link, error);
  if (!error) return Status::Ok();
  fs::rename(BlobPath(etag), link, error);
  return error ? Failed("make", link, error.message()) : Status::Ok();
}

Status RepositoryCache::MarkAbsent(const std::string& commit, const std::string& file) const {
  return WriteText(fs::path(folder_) / ".no_exist" / commit / file, "");
}

Status RepositoryCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return Status::Ok();
  return WriteText(fs::path(folder_) / "refs" / revision, commit);
}

Expected<RepositoryListing> RepositoryCache::ReadListing(const std::string& commit) const {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text,
                            ReadRegularFile((fs::path(folder_) / ".penstock" / commit).string(),
                                            RepositoryListing::kBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(RepositoryListing listing, RepositoryListing::Parse(text));
  if (listing.commit != commit) return Status::NotFound("a list of another commit");
  return listing;
}

Status RepositoryCache::WriteListing(const RepositoryListing& listing) const {
  RepositoryListing kept{listing.commit, {}};
  for (const auto& [file, bytes] : listing.files) {
    if (IsModelFile(file)) kept.files.emplace(file, bytes);
  }
  return WriteText(fs::path(folder_) / ".penstock" / listing.commit, kept.ToJson());
}

RepositoryListing RepositoryCache::FilesInSnapshot(const std::string& commit) const {
  RepositoryListing listing{commit, {}};
  ForEachFile(SnapshotFolder(commit), [&](const std::string& file, const fs::directory_entry& at) {
    std::error_code error;
    const uintmax_t bytes = at.file_size(error);  // of a link, of the blob
    if (!error && IsRepositoryPath(file)) listing.files.emplace(file, bytes);
  });
  return listing;
}

std::vector<std::string> RepositoryCache::Commits() const {
  std::vector<std::string> commits;
  std::error_code error;
  fs::directory_iterator at(fs::path(folder_) / "snapshots", error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) commits.push_back(at->path().filename().string());
  }
  std::sort(commits.begin(), commits.end());
  return commits;
}

std::map<std::string, std::string> RepositoryCache::Refs() const {
  std::map<std::string, std::string> refs;
  ForEachFile(fs::path(folder_) / "refs", [&](const std::string& name, const auto&) {
    if (name.find(".part-") != std::string::npos) return;
    const std::string commit = CommitOf(name);
    if (!commit.empty()) refs.emplace(name, commit);
  });
  return refs;
}

std::vector<ModelReference> CachedRepositories(const std::string& root) {
  std::vector<ModelReference> repositories;
  std::error_code error;
  fs::directory_iterator at(root, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    const size_t split = name.find("--", kFolderPrefix.size());
    if (!name.starts_with(kFolderPrefix) || split == std::string::npos) continue;
    auto reference =
        ModelReference::ParseHub(name.substr(kFolderPrefix.size(), split - kFolderPrefix.size()) +
                                 "/" + name.substr(split + 2));
    if (reference.ok()) repositories.push_back(*std::move(reference));
  }
  std::sort(repositories.begin(), repositories.end(),
            [](const auto& a, const auto& b) { return a.repository() < b.repository(); });
  return repositories;
}

std::string CommitOfPath(const std::string& path) {
  for (fs::path at = fs::path(path); at.has_relative_path() && at != at.parent_path();
       at = at.parent_path()) {
    if (at.parent_path().filename() == "snapshots") return at.filename().string();
  }
  return "";
}

}  // namespace penstock::hub

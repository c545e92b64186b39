#include "hub/inventory.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "hub/file_choice.h"
#include "os/file_lock.h"

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

int64_t LastUsed(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return 0;
  return std::max<int64_t>(facts.st_atime, facts.st_mtime);
}

void Count(const fs::path& snapshot, const std::string& file, uint64_t bytes, CachedModel* model) {
  ++model->files;
  model->bytes += bytes;
  model->last_used_s = std::max(model->last_used_s, LastUsed((snapshot / file).string()));
}

// The files of a snapshot that are no GGUF model, as one model, if there are any.
void AddFolder(const RepositoryCache& cache, const RepositoryListing& here,
               const std::set<std::string>& gguf, CachedModel model,
               std::vector<CachedModel>* models) {
  for (const auto& [file, bytes] : here.files) {
    if (!gguf.contains(file)) Count(model.path, file, bytes, &model);
  }
  if (model.files == 0) return;
  const bool config = here.Has("config.json");
  const bool tokenizer = here.Has("tokenizer.json");
  const bool weights = std::any_of(here.files.begin(), here.files.end(), [](const auto& file) {
    return file.first.ends_with(".safetensors");
  });
  const auto listing = cache.ReadListing(model.commit);
  const bool meant = weights || (config && listing.ok() && listing->Has("model.safetensors"));
  if (!meant && !gguf.empty()) return;  // small files beside a GGUF model
  model.format = meant ? "safetensors" : tokenizer ? "tokenizer" : "other";
  model.complete =
      meant ? tokenizer && cache.Missing(model.commit, /*certain=*/true).empty() : tokenizer;
  models->push_back(std::move(model));
}

void AddSnapshot(const RepositoryCache& cache, CachedModel model,
                 std::vector<CachedModel>* models) {
  const RepositoryListing here = cache.FilesInSnapshot(model.commit);
  const std::string folder = cache.SnapshotFolder(model.commit);
  std::map<std::string, int> of_quantisation;
  const std::vector<GgufFiles> gguf_models = GgufModelsOf(here);
  for (const GgufFiles& files : gguf_models) ++of_quantisation[files.quantisation];
  std::set<std::string> gguf;
  for (const GgufFiles& files : gguf_models) {
    CachedModel one = model;
    one.format = "gguf";
    one.quantisation = files.quantisation;
    one.path = (fs::path(folder) / files.files.front()).string();
    one.complete = files.parts_missing == 0;
    const bool named = !files.quantisation.empty() && of_quantisation[files.quantisation] == 1;
    one.reference += named ? ":" + files.quantisation : "/" + files.files.front();
    for (const std::string& file : files.files) {
      gguf.insert(file);
      Count(folder, file, here.files.at(file), &one);
    }
    models->push_back(std::move(one));
  }
  model.path = folder;
  AddFolder(cache, here, gguf, std::move(model), models);
}

// Blobs of which only a part is here.
void AddPartial(const RepositoryCache& cache, CachedModel model, std::vector<CachedModel>* models) {
  std::error_code error;
  fs::directory_iterator at(fs::path(cache.folder()) / "blobs", error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(".incomplete") && !name.ends_with(".ranges")) continue;
    struct stat facts {};
    if (::stat(at->path().c_str(), &facts) != 0) continue;
    ++model.files;
    model.bytes += std::min(static_cast<uint64_t>(facts.st_size),
                            static_cast<uint64_t>(facts.st_blocks) * 512);
    model.last_used_s = std::max<int64_t>(model.last_used_s, facts.st_mtime);
  }
  if (model.files == 0) return;
  model.format = "partial";
  model.path = cache.folder();
  models->push_back(std::move(model));
}

// The etag a link of a snapshot leads to; "" = it is a file of its own, or leads elsewhere.
std::string EtagOf(const RepositoryCache& cache, const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (error) return "";
  const fs::path blob = fs::weakly_canonical(link.parent_path() / target, error);
  const fs::path blobs = fs::weakly_canonical(fs::path(cache.folder()) / "blobs", error);
  return !error && blob.parent_path() == blobs ? blob.filename().string() : "";
}

// The files in a snapshot that a reference to GGUF means.
std::vector<std::string> GgufMeant(const RepositoryListing& here, const ModelReference& reference) {
  std::vector<std::string> files;
  for (const GgufFiles& model : GgufModelsOf(here)) {
    const bool meant = reference.file.empty()
                           ? model.quantisation == reference.quantisation ||
                                 model.quantisation == "UD-" + reference.quantisation
                           : std::find(model.files.begin(), model.files.end(), reference.file) !=
                                 model.files.end();
    if (meant) files.insert(files.end(), model.files.begin(), model.files.end());
  }
  return files;
}

Status NothingToRemove(const std::string& root, const ModelReference& reference) {
  std::string here;
  for (const CachedModel& model : ListCachedModels(root)) {
    if (model.repository != reference.repository()) continue;
    here += (here.empty() ? "" : ", ") + model.reference;
  }
  return Status::NotFound(reference.Text() + " is not in the cache " + root +
                              (here.empty() ? "" : "; there is " + here),
                          "model");
}

// Fills the blobs that only files in `going` lead to, and the bytes that become free.
void FindBlobs(const std::set<std::string>& going, Removal* removal) {
  std::set<std::string> dropped, kept;
  for (const std::string& commit : removal->cache.Commits()) {
    const fs::path folder = removal->cache.SnapshotFolder(commit);
    for (const auto& [file, bytes] : removal->cache.FilesInSnapshot(commit).files) {
      const std::string path = (folder / file).string();
      const std::string etag = EtagOf(removal->cache, path);
      if (etag.empty() && going.contains(path)) removal->bytes += bytes;
      if (!etag.empty()) (going.contains(path) ? dropped : kept).insert(etag);
    }
  }
  for (const std::string& etag : dropped) {
    if (kept.contains(etag)) continue;
    std::error_code error;
    const uintmax_t bytes = fs::file_size(removal->cache.BlobPath(etag), error);
    removal->bytes += error ? 0 : bytes;
    removal->blobs.push_back(etag);
  }
}

// The locks of everything that goes, all of them or none.
Expected<std::vector<FileLock>> TakeLocks(const Removal& removal) {
  std::set<std::string> paths;
  for (const std::string& etag : removal.blobs) paths.insert(removal.cache.LockPath(etag));
  if (removal.whole) {
    std::error_code error;
    fs::directory_iterator at(removal.cache.locks(), error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      if (at->path().extension() == ".lock") paths.insert(at->path().string());
    }
  }
  std::vector<FileLock> locks;
  for (const std::string& path : paths) {
    PENSTOCK_ASSIGN_OR_RETURN(auto lock, FileLock::Try(path));
    if (!lock) {
      return Status(
          StatusCode::kUnavailable,
          "another process is downloading a part of it (it holds " + path + "); nothing is removed",
          "model");
    }
    locks.push_back(*std::move(lock));
  }
  return locks;
}

Status RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Status::Internal("cannot remove " + path.string() + ": " + error.message())
               : Status::Ok();
}

// A snapshot with what is kept about its commit.
Status RemoveSnapshot(const RepositoryCache& cache, const std::string& commit) {
  const fs::path folder(cache.folder());
  for (const auto& [name, at] : cache.Refs()) {
    if (at == commit) PENSTOCK_RETURN_IF_ERROR(RemoveAll(folder / "refs" / name));
  }
  PENSTOCK_RETURN_IF_ERROR(RemoveAll(folder / ".no_exist" / commit));
  PENSTOCK_RETURN_IF_ERROR(RemoveAll(folder / ".penstock" / commit));
  return RemoveAll(cache.SnapshotFolder(commit));
}

}  // namespace

std::vector<CachedModel> ListCachedModels(const std::string& root) {
  std::vector<CachedModel> models;
  for (const ModelReference& reference : CachedRepositories(root)) {
    const RepositoryCache cache(root, reference);
    CachedModel model;
    model.reference = model.repository = reference.repository();
    const auto refs = cache.Refs();
    for (const std::string& commit : cache.Commits()) {
      CachedModel one = model;
      one.commit = commit;
      for (const auto& [name, at] : refs) {
        if (at == commit) one.revisions.push_back(name);
      }
      AddSnapshot(cache, std::move(one), &models);
    }
    AddPartial(cache, std::move(model), &models);
  }
  return models;
}

Expected<Removal> PlanRemoval(const std::string& root, const ModelReference& reference,
                              bool revision_named) {
  Removal removal{RepositoryCache(root, reference), false, {}, {}, {}, {}, 0};
  const RepositoryCache& cache = removal.cache;
  const bool gguf = !reference.quantisation.empty() || !reference.file.empty();
  std::error_code error;
  removal.whole = !gguf && !revision_named;
  if (removal.whole && !fs::exists(cache.folder(), error)) return NothingToRemove(root, reference);
  std::vector<std::string> commits = cache.Commits();
  if (revision_named) {
    commits = {cache.CommitOf(reference.revision)};
    if (commits[0].empty()) return NothingToRemove(root, reference);
  }
  std::set<std::string> going;
  for (const std::string& commit : commits) {
    const RepositoryListing here = cache.FilesInSnapshot(commit);
    std::vector<std::string> files;
    if (gguf) files = GgufMeant(here, reference);
    if (!gguf || files.size() == here.files.size()) removal.commits.push_back(commit);
    if (!gguf) {
      for (const auto& [file, bytes] : here.files) files.push_back(file);
    }
    for (const std::string& file : files) {
      const std::string path = (fs::path(cache.SnapshotFolder(commit)) / file).string();
      going.insert(path);
      if (removal.commits.empty() || removal.commits.back() != commit)
        removal.links.push_back(path);
    }
  }
  if (gguf && going.empty()) return NothingToRemove(root, reference);
  FindBlobs(going, &removal);
  for (const CachedModel& model : ListCachedModels(root)) {
    if (model.repository != reference.repository()) continue;
    const bool meant =
        gguf ? going.contains(model.path) : removal.whole || model.commit == commits.front();
    if (meant) removal.models.push_back(model.reference);
    if (removal.whole && model.format == "partial") removal.bytes += model.bytes;
  }
  return removal;
}

Status Remove(const Removal& removal) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<FileLock> locks, TakeLocks(removal));
  if (removal.whole) return RemoveAll(removal.cache.folder());
  for (const std::string& link : removal.links) PENSTOCK_RETURN_IF_ERROR(RemoveAll(link));
  for (const std::string& commit : removal.commits) {
    PENSTOCK_RETURN_IF_ERROR(RemoveSnapshot(removal.cache, commit));
  }
  for (const std::string& etag : removal.blobs) {
    PENSTOCK_RETURN_IF_ERROR(RemoveAll(removal.cache.BlobPath(etag)));
  }
  return Status::Ok();
}

}  // namespace penstock::hub

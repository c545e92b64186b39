// The Hugging Face cache on disk, read as it is and written in the same form, so that Python
// programs and Penstock share their downloads.
//
//   <root>/models--owner--name/refs/main             the commit a branch stood at
//                              snapshots/<commit>/…  links to ../../blobs/<etag>
//                              blobs/<etag>          contents; <etag>.incomplete while downloading
//                              .no_exist/<commit>/…  files the repository is known not to have
//   <root>/.locks/models--owner--name/<etag>.lock    held (flock) while a blob is downloaded
//
// Layout: huggingface.co/docs/huggingface_hub/guides/manage-cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "hub/reference.h"

namespace penstock {

// HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
std::string DefaultCacheRoot();

// One repository in the cache; nothing needs to exist yet.
class RepositoryCache {
 public:
  RepositoryCache(const std::string& root, const ModelReference& reference);

  // The commit `revision` stands for as far as the cache knows; "" if it does not.
  std::string CommitOf(const std::string& revision) const;
  std::string SnapshotFolder(const std::string& commit) const;
  std::string BlobPath(const std::string& etag) const;
  std::string LockPath(const std::string& etag) const;

  bool Has(const std::string& commit, const std::string& file) const;
  bool KnownAbsent(const std::string& commit, const std::string& file) const;
  // Files that the model needs and the snapshot lacks; with `certain` false also optional ones
  // (pooling, the list of modules).
  std::vector<std::string> Missing(const std::string& commit, bool certain) const;
  // The same for tokenizing only.
  std::vector<std::string> MissingForTokenizer(const std::string& commit, bool certain) const;

  // Puts blobs/<etag> into the snapshot: a link, or the file itself where links cannot be made.
  Status Link(const std::string& commit, const std::string& file, const std::string& etag) const;
  Status MarkAbsent(const std::string& commit, const std::string& file) const;
  Status WriteRef(const std::string& revision, const std::string& commit) const;

 private:
  std::string folder_;
  std::string locks_;
};

struct CachedModel {
  std::string repository;  // "owner/name"
  std::string commit;
  std::string folder;
  uint64_t bytes = 0;     // of the files in the snapshot
  bool complete = false;  // config, tokenizer and weights are there
};

// All snapshots under `root`, by name; other kinds of repositories are left out.
std::vector<CachedModel> ListCachedModels(const std::string& root);

// The shards model.safetensors.index.json names, sorted, each once; only plain file names.
Expected<std::vector<std::string>> ShardsOf(const std::string& index_path);

}  // namespace penstock

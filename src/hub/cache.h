// The Hugging Face cache on disk, read as it is and written in the same form, so that Python
// programs and Penstock share their downloads.
//
//   <root>/models--owner--name/refs/main             the commit a branch stood at
//                              snapshots/<commit>/…  links to ../../blobs/<etag>
//                              blobs/<etag>          contents; <etag>.incomplete while downloading,
//                                                    <etag>.ranges where that is in several ranges
//                              .no_exist/<commit>/…  files the repository is known not to have
//                              .penstock/<commit>    Penstock's: the hub's list of files of models
//   <root>/.locks/models--owner--name/<etag>.lock    held (flock) while a blob is downloaded
//
// Layout: huggingface.co/docs/huggingface_hub/guides/manage-cache.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/listing.h"
#include "hub/reference.h"

namespace penstock::hub {

// HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
std::string DefaultCacheRoot();

// The commit of a path inside a cache, ".../snapshots/<commit>" or a file below it; else "".
std::string CommitOfPath(const std::string& path);

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
  // The list of files as the hub gave it, less those that are of no model. kNotFound: none is kept.
  Expected<RepositoryListing> ReadListing(const std::string& commit) const;
  Status WriteListing(const RepositoryListing& listing) const;
  // The files that are in the snapshot, with their sizes.
  RepositoryListing FilesInSnapshot(const std::string& commit) const;
  // Files that the model needs and the snapshot lacks; with `certain` false also optional ones
  // (pooling, the list of modules).
  std::vector<std::string> Missing(const std::string& commit, bool certain) const;
  // The same for tokenizing only.
  std::vector<std::string> MissingForTokenizer(const std::string& commit, bool certain) const;

  // Puts blobs/<etag> into the snapshot: a link, or the file itself where links cannot be made.
  Status Link(const std::string& commit, const std::string& file, const std::string& etag) const;
  Status MarkAbsent(const std::string& commit, const std::string& file) const;
  Status WriteRef(const std::string& revision, const std::string& commit) const;

  // This repository's folder, models--owner--name, and its folder of locks.
  const std::string& folder() const { return folder_; }
  const std::string& locks() const { return locks_; }
  // The commits that have a snapshot, sorted.
  std::vector<std::string> Commits() const;
  // Branches and tags, with the commit each stands at.
  std::map<std::string, std::string> Refs() const;

 private:
  std::string folder_;
  std::string locks_;
};

// The repositories under `root`, by name, as references to their branch main; other kinds of
// repositories are left out.
std::vector<ModelReference> CachedRepositories(const std::string& root);

// The shards model.safetensors.index.json names, sorted, each once; only plain file names.
Expected<std::vector<std::string>> ShardsOf(const std::string& index_path);

}  // namespace penstock::hub

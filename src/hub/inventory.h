// What the cache holds, as a list of models, and taking models out of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/cache.h"
#include "hub/reference.h"

namespace penstock::hub {

struct CachedModel {
  std::string reference;               // "owner/name", "owner/name:Q4_K_M", ".../file.gguf"
  std::string repository;              // "owner/name"
  std::vector<std::string> revisions;  // branches and tags that stand at the commit
  std::string commit;                  // "" of what no snapshot has yet
  // "safetensors", "gguf", "tokenizer" (nothing but what tokenizing needs), "partial" (files that
  // are not whole yet) or "other" (nothing that Penstock reads)
  std::string format;
  std::string quantisation;  // of GGUF
  std::string path;          // of the folder or the first GGUF file
  uint64_t files = 0;
  uint64_t bytes = 0;
  bool complete = false;    // it can be used as it is
  int64_t last_used_s = 0;  // Unix time a file of it was last read or written, as the disk notes it
};

// All models under `root`, by name and commit. Each GGUF model of a snapshot is one.
std::vector<CachedModel> ListCachedModels(const std::string& root);

// Files that `penstock rm` takes away.
struct Removal {
  RepositoryCache cache;
  bool whole = false;                // the repository with all it has
  std::vector<std::string> commits;  // snapshots that go as a whole
  std::vector<std::string> links;    // paths in other snapshots
  std::vector<std::string> blobs;    // etags of contents that no other snapshot has
  std::vector<std::string> models;   // what goes, as references
  uint64_t bytes = 0;                // that become free
};

// Without a revision in the text of the reference (`revision_named`) all of them are meant.
// kNotFound: the cache has none of it; the message lists what is there. Changes nothing.
Expected<Removal> PlanRemoval(const std::string& root, const ModelReference& reference,
                              bool revision_named);

// kUnavailable: another process is downloading a part of it; then nothing is removed.
Status Remove(const Removal& removal);

}  // namespace penstock::hub

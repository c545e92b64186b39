// hub: resolves a user's name of a model to a folder, or a GGUF file, on this machine. Looks in the
// Hugging Face cache first and downloads only what is missing, into the same cache. Runs on the
// caller's thread and blocks; several threads and processes may resolve the same model at once, for
// each blob is downloaded under a lock.
//
// Protocol: the public HTTP interface of huggingface.co, as huggingface_hub speaks it:
// GET /api/models/OWNER/NAME/revision/REV, HEAD and GET /OWNER/NAME/resolve/COMMIT/FILE.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/file_choice.h"
#include "hub/http_fetch.h"
#include "hub/range_fetch.h"
#include "hub/reference.h"

namespace penstock::hub {

struct HubProgress {
  std::string file;  // the one being downloaded
  uint64_t file_bytes_done = 0;
  uint64_t file_bytes_total = 0;
  uint64_t bytes_done = 0;  // of all files this call downloads
  uint64_t bytes_total = 0;
  bool checking = false;  // the file is there, its digest is being computed
};

struct ResolveOptions {
  // "" = the environment (hub/environment.h).
  std::string cache_root;
  std::string endpoint;
  std::string token;
  // Never uses the network. HF_HUB_OFFLINE=1 in the environment has the same effect.
  bool offline = false;
  // With `offline`: kNotFound also where the cache has enough to work with, but not all there is.
  bool complete = false;
  // Whether what is not in the cache is downloaded. Not set: as SetAutoPull says.
  std::optional<bool> auto_pull;
  // Asks the hub which commit the revision is at now, even if the cache has the model.
  bool refresh = false;
  // Only what tokenizing needs: tokenizer.json, and the settings beside it; of a repository without
  // one a GGUF file.
  bool tokenizer_only = false;
  // Bytes that may come in all; kPayloadTooLarge where there are more, by what the hub says before
  // or by what arrives.
  uint64_t bytes_max = UINT64_MAX;
  HttpFetchOptions http;  // .token and .cancelled are set from the others
  RangeOptions ranges;
  // Called from time to time while bytes come in, several times a second also while none do; false
  // gives the download up (kCancelled), received bytes are kept for the next time.
  std::function<bool(const HubProgress&)> progress;
};

// Whether models that are not in the cache are downloaded where a ResolveOptions does not say.
// [yes] For the whole process; any thread.
void SetAutoPull(bool allowed);

// The folder of a model, with all files Penstock reads, or its GGUF file, beside which all parts of
// a split one are: see ModelReference for what `reference` may be, hub/file_choice.h for which
// files it stands for. kNotFound: no such folder, repository, revision, quantisation or file, or
// not in the cache and no download allowed. kUnauthenticated: the repository is private or gated.
// kUnavailable: the hub did not answer. kUnsupported: nothing in the repository that Penstock
// reads.
Expected<std::string> ResolveModel(const std::string& reference, const ResolveOptions& options);

// What a reference stands for, and how much of it is here.
struct ModelFacts {
  struct File {
    std::string name;
    uint64_t bytes = 0;  // 0 = not known
    bool cached = false;
  };
  std::string commit;
  std::string format;                    // "safetensors", "gguf"
  std::string quantisation;              // of GGUF
  std::vector<File> files;               // those that are fetched
  std::vector<GgufFiles> quantisations;  // all the repository has
  bool from_cache = false;               // the hub was not asked
};

// Asks the hub, or the cache where downloads are off or the hub does not answer. Downloads nothing.
// Errors: those of ResolveModel. For references to the hub only.
Expected<ModelFacts> DescribeReference(const ModelReference& reference,
                                       const ResolveOptions& options);

}  // namespace penstock::hub

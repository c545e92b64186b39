// hub: resolves a user's name of a model to a folder on this machine. Looks in the Hugging Face
// cache first and downloads only what is missing, into the same cache. Runs on the caller's thread
// and blocks; several threads and processes may resolve the same model at once, for each blob is
// downloaded under a lock.
//
// Protocol: the public HTTP interface of huggingface.co, as huggingface_hub speaks it:
// GET /api/models/OWNER/NAME/revision/REV, HEAD and GET /OWNER/NAME/resolve/COMMIT/FILE.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/status.h"
#include "hub/http_fetch.h"
#include "hub/reference.h"

namespace penstock {

struct HubProgress {
  std::string file;  // the one being downloaded
  uint64_t file_bytes_done = 0;
  uint64_t file_bytes_total = 0;
  uint64_t bytes_done = 0;  // of all files this call downloads
  uint64_t bytes_total = 0;
};

struct ResolveOptions {
  // "" = the environment: HF_HUB_CACHE ..., HF_ENDPOINT (https://huggingface.co), HF_TOKEN.
  std::string cache_root;
  std::string endpoint;
  std::string token;
  // Never uses the network. HF_HUB_OFFLINE=1 in the environment has the same effect.
  bool offline = false;
  // Asks the hub which commit the revision is at now, even if the cache has the model.
  bool refresh = false;
  // Only the files for tokenizing: tokenizer.json, and the settings beside it.
  bool tokenizer_only = false;
  HttpFetchOptions http;  // .token is taken from above
  // Called from time to time while bytes come in; false gives the download up (kCancelled),
  // received bytes are kept for the next time.
  std::function<bool(const HubProgress&)> progress;
};

// The folder of a model, with all files Penstock reads: see ModelReference for what `reference`
// may be. kNotFound: no such folder, repository or revision, or not in the cache and offline.
// kUnauthenticated: the repository is private or gated. kUnavailable: the hub did not answer.
// kUnsupported: the repository has no safetensors.
Expected<std::string> ResolveModel(const std::string& reference, const ResolveOptions& options);

}  // namespace penstock

// Fetches a snapshot of one repository into the cache. Part of ResolveModel.
#pragma once

#include <string>

#include "common/status.h"
#include "hub/cache.h"
#include "hub/hub.h"

namespace penstock {

// Returns the commit `reference.revision` is at; its snapshot then has every file Penstock reads.
// options.endpoint and .token are filled in.
Expected<std::string> DownloadSnapshot(const ModelReference& reference,
                                       const RepositoryCache& cache, const ResolveOptions& options);

// Whether a file of a repository is one Penstock reads, weights left out: config.json,
// tokenizer.json, modules.json, 1_Pooling/config.json, 2_Dense/model.safetensors, ...
bool IsWantedFile(const std::string& file);

}  // namespace penstock

// Fetches the files of one repository that a reference stands for into the cache. Part of
// ResolveModel.
#pragma once

#include <string>

#include "base/status.h"
#include "hub/cache.h"
#include "hub/file_choice.h"
#include "hub/hub.h"
#include "hub/listing.h"

namespace penstock::hub {

struct DownloadedSnapshot {
  std::string commit;
  FileChoice choice;
};

// The commit `reference.revision` is at, and the files it chose; the snapshot then has them.
// options.endpoint and .token are filled in.
Expected<DownloadedSnapshot> DownloadSnapshot(const ModelReference& reference,
                                              const RepositoryCache& cache,
                                              const ResolveOptions& options);

// The hub's list of files; with `sizes` it is asked for their sizes too.
Expected<RepositoryListing> FetchListing(const ModelReference& reference,
                                         const ResolveOptions& options, bool sizes);

}  // namespace penstock::hub

// States of a model as the Open Inference Protocol and Triton's model repository extension tell
// them, over HTTP and gRPC alike.
#pragma once

#include <string>

#include "api/types.h"

namespace penstock::api {

// Whether it is in memory, idle or not.
bool IsLoaded(const ModelInfo& model);
// Whether a request for it is answered now, or loads it for the first time. One that was unloaded
// is not ready, though a request would load it again.
bool IsReadyForRequests(const ModelInfo& model);

// READY, LOADING, UNLOADING, or UNAVAILABLE with the reason.
struct RepositoryState {
  const char* state;
  std::string reason;
};
RepositoryState RepositoryStateOf(const ModelInfo& model);

}  // namespace penstock::api

#include "api/model_state.h"

namespace penstock::api {

bool IsLoaded(const ModelInfo& model) { return model.state == "ready" || model.state == "parked"; }

bool IsReadyForRequests(const ModelInfo& model) {
  return IsLoaded(model) || (model.state == "absent" && model.loads == 0);
}

RepositoryState RepositoryStateOf(const ModelInfo& model) {
  if (IsLoaded(model)) return {"READY", ""};
  if (model.state == "loading" || model.state == "waiting") return {"LOADING", ""};
  if (model.state == "draining") return {"UNLOADING", ""};
  if (!model.error.empty()) return {"UNAVAILABLE", model.error};
  return {"UNAVAILABLE", model.loads > 0 ? "unloaded" : "not loaded yet: the first request does"};
}

}  // namespace penstock::api

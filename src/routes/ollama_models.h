// Prints what Ollama's routes say of models: GET /api/tags, GET /api/ps, POST /api/show. Pure
// functions. Source: docs/api.md of ollama/ollama.
//
// Sizes are those of weights in memory, 0 of a model that is not loaded. The digest stands for the
// name and revision of a model, not for its files; Ollama's clients want one.
#pragma once

#include <string>
#include <vector>

#include "api/types.h"

namespace penstock {

std::string PrintOllamaTags(const std::vector<ModelInfo>& models);
// Those that are loaded.
std::string PrintOllamaLoadedModels(const std::vector<ModelInfo>& models);
std::string PrintOllamaShow(const ModelInfo& model);

}  // namespace penstock

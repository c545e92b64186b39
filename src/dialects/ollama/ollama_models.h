// Prints what Ollama's routes say of models: GET /api/tags, GET /api/ps, POST /api/show. Pure
// functions. Source: docs/api.md of ollama/ollama.
//
// Sizes are those of weights in memory, 0 of a model that is not loaded. The digest stands for the
// name and revision of a model, not for its files; Ollama's clients want one.
#pragma once

#include <string>
#include <vector>

#include "api/types.h"

namespace penstock::dialects {

// Those that generate text or embed, by their name and once more by each alias: clients look in
// this list for the very name they were given. Rerankers, classifiers and tensor models, which no
// client of Ollama can use, are left out.
std::string PrintOllamaTags(const std::vector<api::ModelInfo>& models);
// Those that are loaded.
std::string PrintOllamaLoadedModels(const std::vector<api::ModelInfo>& models);
std::string PrintOllamaShow(const api::ModelInfo& model);

}  // namespace penstock::dialects

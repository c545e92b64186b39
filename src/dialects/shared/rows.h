// The rows of each dialect, for list.cc.
#pragma once

#include <span>

#include "serving/route.h"

namespace penstock::dialects {

std::span<const serving::Route> OpenAiRoutes();
std::span<const serving::Route> ChatRoutes();
std::span<const serving::Route> ResponsesRoutes();  // of OpenAI
std::span<const serving::Route> BatchRoutes();      // files, too
std::span<const serving::Route> MessagesRoutes();   // of Anthropic
std::span<const serving::Route> TgiRoutes();
std::span<const serving::Route> CohereRoutes();
std::span<const serving::Route> RerankRoutes();
std::span<const serving::Route> TeiRoutes();
std::span<const serving::Route> VertexRoutes();
std::span<const serving::Route> VllmRoutes();
std::span<const serving::Route> LlamaRoutes();  // of llama.cpp's server
std::span<const serving::Route> OllamaRoutes();
std::span<const serving::Route> PullRoutes();    // Ollama's pull and delete
std::span<const serving::Route> KserveRoutes();  // tensor models
std::span<const serving::Route> ClassifyRoutes();
std::span<const serving::Route> BulkRoutes();
std::span<const serving::Route> ModelRoutes();  // loading and unloading
std::span<const serving::Route> UiRoutes();     // the web page and what it watches
std::span<const serving::Route> MetaRoutes();   // index, health, readiness, metrics, statistics

}  // namespace penstock::dialects

// Prints texts as Ollama's /api/generate and /api/chat have them: one object, or a line for each
// part and a last one with "done": true. Durations are in nanoseconds.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "dialects/ollama/ollama.h"
#include "dialects/shared/text_printer.h"
#include "threads/request_context.h"

namespace penstock::dialects {

// "2026-01-31T09:05:00.123456789Z"
std::string Rfc3339(std::chrono::system_clock::time_point time);

// `begin`: of the request.
std::unique_ptr<TextPrinter> NewOllamaPrinter(const OllamaTextCall& call, Clock::time_point begin);

// The answer to a request that only loads or unloads a model: `reason` is "load" or "unload".
std::string PrintOllamaLoaded(const OllamaTextCall& call, std::string_view reason);

}  // namespace penstock::dialects

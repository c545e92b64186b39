// Durations as people write them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock {

// "300" (seconds), "1.5", "90s", "5m", "1h30m", "250ms", "1d"; negative: for ever, as of Ollama's
// keep_alive. kInvalidArgument says so; at most ten years.
Expected<std::chrono::milliseconds> ParseDuration(std::string_view text);
// "5m", "1h30m", "2.5s", "for ever".
std::string DurationText(std::chrono::milliseconds duration);

}  // namespace penstock

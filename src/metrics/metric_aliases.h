// The names that vLLM gives to what we count too, for dashboards, scalers and routers that ask for
// those. They come beside our own names, which never change.
#pragma once

#include <string>
#include <string_view>

namespace penstock::metrics {

// Reads our series of models that generate text from `text` (Metrics::Render or
// RouterGauges::Render) and prints what vLLM 0.11 has of them, in the same form: "vllm:" names, and
// `model_name` for `model`. What `text` does not hold is left out.
std::string VllmAliases(std::string_view text);

}  // namespace penstock::metrics

// penstock inspect of a tensor model: what it takes and gives.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "runtime/model_options.h"

namespace penstock::cli {

// A text for people, or one JSON object; ends with a line break. Nothing: --model names no tensor
// model.
Expected<std::optional<std::string>> DescribeTensorModel(const runtime::ModelOptions& flags,
                                                         bool json);

}  // namespace penstock::cli

// From the options of penstock_open to those of the models.
#pragma once

#include <string_view>

#include "common/status.h"
#include "runtime/model_options.h"

namespace penstock::library {

// `json`: an object whose keys are flags of `penstock serve` that are about models. A model stays
// loaded unless keep-alive says otherwise, and nothing is logged unless log-level does.
// kInvalidArgument names the key in field().
Expected<runtime::ModelOptions> ReadOptions(std::string_view json);

}  // namespace penstock::library

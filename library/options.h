// From the options of penstock_open to those of the models.
#pragma once

#include <string_view>

#include "base/status.h"
#include "runtime/model_options.h"

namespace penstock::library {

struct OpenOptions {
  runtime::ModelOptions models;
  bool sets_log = false;  // log-level or log-format was given
};
// `json`: an object whose keys are flags of `penstock serve` that are about models. A model stays
// loaded unless keep-alive says otherwise.
// kInvalidArgument names the key in field().
Expected<OpenOptions> ReadOptions(std::string_view json);

}  // namespace penstock::library

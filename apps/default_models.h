// The models of a server that is started without any.
#pragma once

#include <functional>

#include "runtime/model_options.h"

namespace penstock::cli {

// Where no model is named: the default embedder, and the default model of text if it is here or may
// be downloaded by the first request; it is left out, with a warning, if not. Where models are
// preloaded it is downloaded now. With --served-model-name the embedder alone. `go_on`: false gives
// a download up.
void TakeServedDefaults(runtime::ModelOptions* flags, const std::function<bool()>& go_on);

}  // namespace penstock::cli

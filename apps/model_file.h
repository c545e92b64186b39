// The model.toml of a model in a repository: the keys of a table [models.NAME], without its model.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/model_options.h"

namespace penstock::cli {

// Sets what the file at `path` says in `options`, which are of one model that has its name in
// `served_names`; aliases are added there. kInvalidArgument: it is no TOML, longer than 64 KiB, or
// has an unknown key or a value that cannot be; with file and line. kNotFound: it is not there.
Status ReadModelFile(const std::string& path, runtime::ModelOptions* options);

}  // namespace penstock::cli

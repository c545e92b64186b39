// Whether a model is an encoder or a decoder, found without opening its weights.
#pragma once

#include <string>

#include "common/status.h"

namespace penstock {

enum class ModelKind { kEncoder, kDecoder };

// By the architecture that config.json or the GGUF file's metadata names; a folder with the
// modules.json of sentence-transformers has an encoder, whatever its architecture. `path` is a
// folder or a .gguf file. kNotFound: no model there. kUnsupported: an architecture that Penstock
// does not know; the message names those that it does.
Expected<ModelKind> KindOfModel(const std::string& path);

}  // namespace penstock

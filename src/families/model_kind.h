// What a model gives, found without opening its weights: vectors and scores, or text.
#pragma once

#include <string>

#include "base/status.h"

namespace penstock::families {

// kEncoder: vectors and scores; also of decoders that embed or rerank (families/decoder_folder.h).
enum class ModelKind { kEncoder, kDecoder };

// By the architecture that config.json or the GGUF file's metadata names; a folder with the
// modules.json of sentence-transformers gives vectors, whatever its architecture. `path` is a
// folder or a .gguf file. kNotFound: no model there. kUnsupported: an architecture that Penstock
// does not know; the message names those that it does.
Expected<ModelKind> KindOfModel(const std::string& path);

}  // namespace penstock::families

// Memory of a model by class, in bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace penstock::program {
class Backend;
}  // namespace penstock::program

namespace penstock::engine {

struct EncoderEngineOptions;  // encoder_engine.h
struct DecoderEngineOptions;  // decoder_engine.h

struct ModelBytes {
  uint64_t weights = 0;      // with the tokenizer's tables
  uint64_t activations = 0;  // of the largest batches, or steps
  uint64_t cache = 0;        // keys and values; prefixes included
  uint64_t total() const { return weights + activations + cache; }
};
// "90.1 MB (weights 66.0, activations 20.1, cache 4.0)"; classes of 0 are left out.
std::string ModelBytesText(const ModelBytes& bytes);

// What a model takes, told before it is loaded, from the headers of its files and its program
// alone.
struct ModelNeeds {
  ModelBytes least;   // to work at all
  ModelBytes wanted;  // to work as well as it can
};

// Of the model at `path`, a folder or a .gguf file, loaded with these options; milliseconds. Errors
// as EncoderEngine::Load and DecoderEngine::Load, as far as headers tell.
Expected<ModelNeeds> ModelNeedsOf(const std::string& path, const EncoderEngineOptions& options,
                                  const DecoderEngineOptions& text, program::Backend* backend);

}  // namespace penstock::engine

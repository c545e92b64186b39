// penstock inspect of a decoder: what its files say; its weights are loaded for --program only.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "inspect_program.h"
#include "numbers/dtype.h"
#include "runtime/model_options.h"

namespace penstock::cli {

struct DecoderPlace {
  std::string name;  // as it would be served
  std::string path;  // a folder or a .gguf file
};

// Where the one decoder is that --model names. nullopt: an encoder, or no --model, or a reference
// about which LocalModels has the error. An architecture that is neither is an error.
Expected<std::optional<DecoderPlace>> FindDecoder(const runtime::ModelOptions& flags);

// --dtype of the one model; nullopt: auto. Errors name the flag.
Expected<std::optional<numbers::DType>> TypeAsked(const runtime::ModelOptions& flags);

// A text for people, or one JSON object; ends with a line break. kInvalidArgument, field --length:
// with `program`, more tokens than the context holds.
Expected<std::string> DescribeDecoder(const DecoderPlace& place, const runtime::ModelOptions& flags,
                                      ProgramFlags program, bool json);

}  // namespace penstock::cli

// Decoders of published shapes with random weights, for measuring speed without a model's files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "families/decoder_files.h"

namespace penstock::bench {

// "llama-1b", "qwen2-0.5b", "qwen3-0.6b", "smollm2-135m", "llama3.2-1b".
std::vector<std::string> DecoderShapes();
// "q8_0", "q4_0", "q4_k_m", "bf16", ...: types of matrices.
std::vector<std::string> DecoderMixes();

// What DecoderFiles point into must live as long as they are read.
struct RandomDecoder {
  // kInvalidArgument: a shape or mix that is not known. Where rows are not whole blocks of a type,
  // the next larger type with blocks of 32 stands in, as in published files.
  static Expected<std::unique_ptr<RandomDecoder>> Make(const std::string& shape,
                                                       const std::string& mix);

  families::DecoderFiles files;
  std::vector<std::vector<std::byte>> memory;
};

}  // namespace penstock::bench

// Encoders in GGUF files: the metadata as a ModelFolder, and the names that the tensors of such a
// model have in a folder, so that nothing above families/ needs to know which it was.
//
// Architectures: "bert" (BERT, and RoBERTa and XLM-RoBERTa, whose first rows of positions writers
// leave out) and "nomic-bert". Keys and names: github.com/ggml-org/ggml, docs/gguf.md, and
// llama.cpp, gguf-py/gguf/constants.py. An embedding is normalised, as llama.cpp does it. BERT's
// activation is gelu as the model has it, where llama.cpp takes an approximation.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "families/model_folder.h"
#include "files/tensor_store.h"

namespace penstock::families {

// A model's settings from its metadata; ModelFolder::path is the file. kUnsupported: another
// architecture, or something of these that Penstock does not implement. Errors name the key.
Expected<ModelFolder> ReadGgufEncoder(const std::string& path);

// What tokenizing needs of any architecture: the longest text.
Expected<ModelFolder> ReadGgufForTokenizer(const std::string& path);

// The tensors of the encoder at ModelFolder::path, a folder or a GGUF file. Those of a GGUF file
// have the names that they have in a folder.
Expected<std::unique_ptr<files::TensorStore>> OpenEncoderTensors(const std::string& path);

// "encoder.layer.0.output.dense.bias" for "blk.0.ffn_down.bias"; `name` where there is no other.
std::string EncoderTensorName(std::string_view architecture, std::string_view name);

}  // namespace penstock::families

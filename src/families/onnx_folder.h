// A model folder whose encoder is an ONNX file, as `optimum-cli export onnx` and
// sentence-transformers write it: model.onnx or onnx/model.onnx beside config.json and
// tokenizer.json. A fallback: models that Penstock computes itself are read from their weights.
#pragma once

#include <string>

#include "base/status.h"
#include "families/model_folder.h"
#include "json/json.h"

namespace penstock::families {

// The ONNX file of an encoder that runs through it: its architecture is unknown, or its weights are
// not there as safetensors. `config`: config.json of the folder at `path`. "": it is none.
std::string FindOnnxEncoder(const std::string& path, const JsonObject& config);

// The settings that go around such a model; its layers are in the file. kUnsupported,
// kInvalidArgument: as ReadEncoderConfig.
Expected<EncoderConfig> ReadOnnxEncoderConfig(const JsonObject& config);

}  // namespace penstock::families

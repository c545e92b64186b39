// The files of a tensor model, looked at before the runtime opens them: which format they have,
// how many bytes they hold, and whether all are regular files of the model's own folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::openvino {

enum class ModelFormat {
  kOnnx,             // *.onnx, with weights in other files of its folder or below
  kIr,               // OpenVINO IR: *.xml, weights in the *.bin beside it
  kTfLite,           // *.tflite
  kTensorFlowGraph,  // *.pb, *.graphdef: a frozen GraphDef
  kSavedModel,       // TensorFlow: a folder with saved_model.pb
};

struct ModelFiles {
  ModelFormat format = ModelFormat::kOnnx;
  std::string path;    // for the runtime: a file, or the folder of a SavedModel
  uint64_t bytes = 0;  // of all files: about what the model's constants take
  // Of ONNX, what the file declares; else empty.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

// Whether `path` is such a file, or such a folder, by names alone.
bool LooksLikeModel(const std::string& path);

// `path`: a file, or a folder that has exactly one of model.onnx, model.xml, model.tflite,
// model.pb, model.graphdef, model.savedmodel (a folder) and saved_model.pb. Errors: kNotFound;
// kUnsupported: another format, or OpenVINO IR that keeps a state between runs; kInvalidArgument: a
// file is not a regular one, is cut short, or names files that are missing, too short or outside
// the model's folder.
Expected<ModelFiles> FindModelFiles(const std::string& path);

}  // namespace penstock::openvino

// What TensorModel and CompiledModel (tensor_model.h) keep; of this module only.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "openvino/handles.h"
#include "openvino/tensor_model.h"

namespace penstock::openvino {

struct TensorModel::State {
  explicit State(const Runtime* the_runtime) : runtime(the_runtime), model(the_runtime) {}

  // These four: with the mutex held.
  Status Reshape(std::vector<std::vector<ApiDimension>>* shapes);
  // 0: shapes as declared.
  Status ReshapeForBatch(int64_t batch);
  Status ShapesNow(std::vector<signature::TensorSpec>* inputs_now,
                   std::vector<signature::TensorSpec>* outputs_now) const;
  // ReshapeForBatch and ShapesNow; kUnsupported: an output of a batch has another number of rows.
  Status ShapesFor(int64_t batch, std::vector<signature::TensorSpec>* inputs_then,
                   std::vector<signature::TensorSpec>* outputs_then);

  const Runtime* runtime;
  ModelFiles files;
  std::vector<signature::TensorSpec> inputs;  // as declared
  std::vector<signature::TensorSpec> outputs;
  std::vector<std::string> ignored_inputs;
  // By output: the input that it is. OpenVINO leaves the memory bound to such an output as it was.
  std::vector<std::optional<size_t>> input_of;

  std::mutex mutex;  // of what follows, once the model is loaded
  ModelHandle model;
  int64_t shaped_for = 0;  // the batch that the model's shapes are for; -1: others
};
using ModelState = TensorModel::State;

struct CompiledModel::State {
  State(std::shared_ptr<TensorModel::State> the_model, const CompileOptions& the_options)
      : model(std::move(the_model)), options(the_options), compiled(model->runtime) {}

  // Whether every operator takes what the one before gives it, for inputs of these shapes.
  // OpenVINO looks only where a model is reshaped: a run whose shapes do not go together would
  // read behind its tensors. Remembered, for it takes about as long as loading the model.
  // kInvalidArgument: no. kUnsupported: sizes by values.
  Status CheckShapes(const std::vector<std::vector<int64_t>>& shapes);

  static constexpr size_t kCheckedMax = 4096;

  std::shared_ptr<TensorModel::State> model;
  const CompileOptions options;
  std::mutex checked_mutex;
  std::set<std::vector<int64_t>> checked;  // rank and sizes of each input, one after the other
  CompiledModelHandle compiled;
  std::vector<signature::TensorSpec> inputs;
  std::vector<signature::TensorSpec> outputs;
};

}  // namespace penstock::openvino

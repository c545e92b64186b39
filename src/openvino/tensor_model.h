// A tensor model: read from a file, compiled for the CPU, run on its caller's memory.
//
//   TensorModel     what a file declares: names, types and shapes. Reads the file once
//   CompiledModel   the same for a number of threads, with shapes as declared or of a fixed batch
//   InferRequest    one run at a time of a compiled model, with memory bound to inputs and outputs
//
// Each keeps alive what it was made from. TensorModel and CompiledModel: any thread may call;
// compiling takes turns. InferRequest: one thread at a time.
//
// Threads: Run works on the thread that calls it and on TBB's workers, `threads` in all. OpenVINO
// keeps up to two threads more for each compiled model, which sleep.
//
// Shapes: OpenVINO does not look whether the inputs of a run go together, such as two rows of one
// and three of another, and would read behind them. So Run has it infer the shapes of all operators
// first, once for each set of shapes; models compiled with fixed shapes have it behind them.
//
// What OpenVINO computes: FP32 as such, also on processors that would take bf16 instead; FP16 and
// BF16 in FP32. INT64 and UINT64 become 32-bit integers and FP64 FP32 inside, so Run refuses inputs
// whose values do not fit (integers over INT32, numbers over FP32); what a model computes beyond
// them wraps or is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "openvino/model_files.h"
#include "openvino/runtime.h"
#include "signature/element_type.h"
#include "signature/tensor_spec.h"

namespace penstock::openvino {

struct CompileOptions {
  // That work on a run; the thread that calls Run is one of them.
  int threads = 1;
  // 0: shapes as declared. Else the first dimension of every input is this, and must then be that
  // of every output, or else the model does not treat rows one by one.
  int64_t batch = 0;
  // Takes models in which the values of inputs decide, without a bound, how large an output is.
  // OpenVINO does not report impossible sizes: it gives the output of the run before, or an empty
  // one.
  bool sizes_by_values = false;
};

class CompiledModel;

class TensorModel {
 public:
  struct State;  // model_state.h

  static constexpr size_t kTensorsMax = 4096;                     // inputs, and outputs
  static constexpr uint64_t kTensorBytesMax = uint64_t{1} << 31;  // of a fixed shape

  // `path`: as FindModelFiles (model_files.h). Errors: its; kUnsupported: an operator, element type
  // or file that OpenVINO does not take; kPayloadTooLarge: an input or output over kTensorBytesMax.
  // The message begins with the path.
  static Expected<std::unique_ptr<TensorModel>> Load(const Runtime* runtime,
                                                     const std::string& path);

  const ModelFiles& files() const;
  const std::vector<signature::TensorSpec>& inputs() const;
  const std::vector<signature::TensorSpec>& outputs() const;
  // Inputs that the file declares and the model makes no use of.
  const std::vector<std::string>& ignored_inputs() const;

  // What inputs and outputs are with `batch` rows. kUnsupported: the model does not take
  // that, or an output has another number of rows; `inputs` and `outputs` are then undefined.
  Status ShapesForBatch(int64_t batch, std::vector<signature::TensorSpec>* inputs,
                        std::vector<signature::TensorSpec>* outputs) const;

  // kUnsupported: strings; a model that OpenVINO cannot compile; a batch that it cannot have; sizes
  // by values, as far as shapes tell before inputs have theirs.
  Expected<std::unique_ptr<CompiledModel>> Compile(const CompileOptions& options) const;

 private:
  explicit TensorModel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class InferRequest;

class CompiledModel {
 public:
  struct State;  // model_state.h

  // In the order of the model's; shapes as compiled.
  const std::vector<signature::TensorSpec>& inputs() const;
  const std::vector<signature::TensorSpec>& outputs() const;

  // Activations are its own: a request takes about what one run needs.
  Expected<std::unique_ptr<InferRequest>> NewRequest() const;

 private:
  friend class TensorModel;
  explicit CompiledModel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// A tensor that a run has given.
struct OutputView {
  signature::ElementType type = signature::ElementType::kFp32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // row by row, little-endian
};

class InferRequest {
 public:
  ~InferRequest();

  // Runs read input `index` from `data`, of this shape, until it is bound anew; nothing is copied.
  // `data` is aligned to its elements. kInvalidArgument: the shape is not one of the input's, or
  // `data` has other than its bytes; the field is the input's name.
  Status BindInput(size_t index, std::span<const int64_t> shape, std::span<const std::byte> data);
  // Runs write output `index` to `data`; its shape is fixed, and `data` has exactly its bytes.
  Status BindOutput(size_t index, std::span<std::byte> data);

  // kInvalidArgument: an element of `data`, for input `index`, is out of range (top of this file).
  // Any thread, also during Run.
  Status CheckValues(size_t index, std::span<const std::byte> data) const;

  // kInvalidArgument: an input is not bound or has a value out of range, or the shapes of inputs do
  // not go together (top of this file).
  // kUnsupported: sizes by values (CompileOptions). kUnprocessable: OpenVINO could not run these
  // inputs.
  Status Run();

  // An output of the last run; valid until the next run, until the output is bound, and while this
  // lives.
  Expected<OutputView> Output(size_t index) const;

 private:
  friend class CompiledModel;
  struct Bound;
  InferRequest(std::shared_ptr<CompiledModel::State> model, ApiRequest* request);
  Status CheckShapes();

  std::shared_ptr<CompiledModel::State> model_;
  ApiRequest* request_;
  std::vector<Bound> inputs_;
  std::vector<std::span<std::byte>>
      passed_through_;  // bound outputs that are inputs; empty: not so
  bool shapes_checked_ = false;
};

}  // namespace penstock::openvino

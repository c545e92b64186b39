// InferRequest of tensor_model.h.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/printable.h"
#include "openvino/handles.h"
#include "openvino/model_state.h"

namespace penstock::openvino {
namespace {

// What tensors without elements point at.
alignas(64) std::byte no_elements[64];

// The first element that `fits` refuses; `count`: none.
template <typename T, typename Fits>
size_t FindUnfit(std::span<const std::byte> data, Fits fits) {
  const size_t count = data.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    if (!fits(value)) return i;
  }
  return count;
}

// The first element that the runtime would change without a word; the number of elements: none.
size_t FindUnfit(signature::ElementType type, std::span<const std::byte> data) {
  constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  switch (type) {
    case signature::ElementType::kInt64:
      return FindUnfit<int64_t>(data, [](int64_t x) { return x >= kMin && x <= kMax; });
    case signature::ElementType::kUint64:
      return FindUnfit<uint64_t>(data, [](uint64_t x) { return x <= uint64_t{kMax}; });
    case signature::ElementType::kFp64:
      return FindUnfit<double>(data, [](double x) {
        return !std::isfinite(x) || std::abs(x) <= std::numeric_limits<float>::max();
      });
    default:
      return data.size() / signature::ElementBytes(type);
  }
}

Status CheckFit(const signature::TensorSpec& spec, std::span<const std::byte> data) {
  const size_t unfit = FindUnfit(spec.type, data);
  if (unfit == data.size() / signature::ElementBytes(spec.type)) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("input '{}' of type {}: element {} is out of range, for OpenVINO computes with "
                  "32 bits",
                  Shown(spec.name), signature::ElementTypeName(spec.type), unfit),
      spec.name);
}

// A tensor of the runtime over the caller's memory.
Expected<TensorHandle> Wrap(const Runtime& runtime, const signature::TensorSpec& spec,
                            std::span<const int64_t> shape, const std::byte* data) {
  TensorHandle tensor(&runtime);
  const ApiShape sizes{static_cast<int64_t>(shape.size()), const_cast<int64_t*>(shape.data())};
  void* const memory = data != nullptr ? const_cast<std::byte*>(data) : no_elements;
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(
      runtime.api().tensor_create_from_host_ptr(ToApi(spec.type), sizes, memory, tensor.out()),
      StatusCode::kInternal, Shown(spec.name)));
  return tensor;
}

}  // namespace

struct InferRequest::Bound {
  bool bound = false;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

Expected<std::unique_ptr<InferRequest>> CompiledModel::NewRequest() const {
  const Runtime& runtime = *state_->model->runtime;
  ApiRequest* request = nullptr;
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(
      runtime.api().compiled_model_create_infer_request(state_->compiled.get(), &request),
      StatusCode::kUnsupported, Printable(state_->model->files.path)));
  return std::unique_ptr<InferRequest>(new InferRequest(state_, request));
}

InferRequest::InferRequest(std::shared_ptr<CompiledModel::State> model, ApiRequest* request)
    : model_(std::move(model)),
      request_(request),
      inputs_(model_->inputs.size()),
      passed_through_(model_->outputs.size()) {}

InferRequest::~InferRequest() { model_->model->runtime->api().infer_request_free(request_); }

Status InferRequest::BindInput(size_t index, std::span<const int64_t> shape,
                               std::span<const std::byte> data) {
  PENSTOCK_CHECK(index < inputs_.size());
  const signature::TensorSpec& spec = model_->inputs[index];
  if (!spec.Takes(shape)) {
    return Status::InvalidArgument(
        fmt::format("input '{}' has shape {}, the model takes {}", Shown(spec.name),
                    signature::ShapeText(shape), signature::ShapeText(spec.shape)),
        spec.name);
  }
  const std::optional<uint64_t> count = signature::ElementCount(shape);
  if (!count || *count * signature::ElementBytes(spec.type) != data.size()) {
    return Status::InvalidArgument(fmt::format("input '{}' of shape {} and type {} has {} bytes",
                                               Shown(spec.name), signature::ShapeText(shape),
                                               signature::ElementTypeName(spec.type), data.size()),
                                   spec.name);
  }
  const Runtime& runtime = *model_->model->runtime;
  PENSTOCK_ASSIGN_OR_RETURN(const TensorHandle tensor, Wrap(runtime, spec, shape, data.data()));
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(
      runtime.api().infer_request_set_input_tensor_by_index(request_, index, tensor.get()),
      StatusCode::kUnprocessable, fmt::format("input '{}'", Shown(spec.name))));
  inputs_[index] = {true, {shape.begin(), shape.end()}, data};
  shapes_checked_ = false;
  return Status::Ok();
}

Status InferRequest::BindOutput(size_t index, std::span<std::byte> data) {
  PENSTOCK_CHECK(index < model_->outputs.size());
  const signature::TensorSpec& spec = model_->outputs[index];
  if (!spec.fixed() || spec.bytes() != data.size()) {
    return Status::InvalidArgument(
        fmt::format("output '{}' of shape {} and type {} cannot be written to {} bytes",
                    Shown(spec.name), signature::ShapeText(spec.shape),
                    signature::ElementTypeName(spec.type), data.size()),
        spec.name);
  }
  if (model_->model->input_of[index]) {
    passed_through_[index] = data;
    return Status::Ok();
  }
  std::vector<int64_t> shape;
  for (const signature::DimensionRange& dimension : *spec.shape) shape.push_back(dimension.min);
  const Runtime& runtime = *model_->model->runtime;
  PENSTOCK_ASSIGN_OR_RETURN(const TensorHandle tensor, Wrap(runtime, spec, shape, data.data()));
  return runtime.ToStatus(
      runtime.api().infer_request_set_output_tensor_by_index(request_, index, tensor.get()),
      StatusCode::kUnprocessable, fmt::format("output '{}'", Shown(spec.name)));
}

Status InferRequest::CheckValues(size_t index, std::span<const std::byte> data) const {
  PENSTOCK_CHECK(index < inputs_.size());
  return CheckFit(model_->inputs[index], data);
}

Status InferRequest::Run() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const signature::TensorSpec& spec = model_->inputs[i];
    if (!inputs_[i].bound) {
      return Status::InvalidArgument(fmt::format("input '{}' is missing", Shown(spec.name)),
                                     spec.name);
    }
    PENSTOCK_RETURN_IF_ERROR(CheckFit(spec, inputs_[i].data));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckShapes());
  const Runtime& runtime = *model_->model->runtime;
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(runtime.api().infer_request_infer(request_),
                                            StatusCode::kUnprocessable,
                                            Printable(model_->model->files.path)));
  for (size_t i = 0; i < passed_through_.size(); ++i) {
    if (passed_through_[i].empty()) continue;
    std::memcpy(passed_through_[i].data(), inputs_[*model_->model->input_of[i]].data.data(),
                passed_through_[i].size());
  }
  return Status::Ok();
}

Status InferRequest::CheckShapes() {
  if (shapes_checked_) return Status::Ok();
  bool fixed = true;
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    fixed = fixed && model_->inputs[i].fixed();
    shapes.push_back(inputs_[i].shape);
  }
  if (!fixed) PENSTOCK_RETURN_IF_ERROR(model_->CheckShapes(shapes));
  shapes_checked_ = true;
  return Status::Ok();
}

Expected<OutputView> InferRequest::Output(size_t index) const {
  PENSTOCK_CHECK(index < model_->outputs.size());
  const signature::TensorSpec& spec = model_->outputs[index];
  if (!passed_through_[index].empty()) {
    return OutputView{spec.type, inputs_[*model_->model->input_of[index]].shape,
                      passed_through_[index]};
  }
  const Runtime& runtime = *model_->model->runtime;
  const Api& api = runtime.api();
  const std::string shown = fmt::format("output '{}'", Shown(spec.name));
  TensorHandle tensor(&runtime);
  PENSTOCK_RETURN_IF_ERROR(
      runtime.ToStatus(api.infer_request_get_output_tensor_by_index(request_, index, tensor.out()),
                       StatusCode::kInternal, shown));
  OutputView view;
  unsigned type = 0;
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(api.tensor_get_element_type(tensor.get(), &type),
                                            StatusCode::kInternal, shown));
  const std::optional<signature::ElementType> known = FromApi(type);
  if (!known || *known != spec.type) {
    return Status::Internal(shown + " has another type than the model declares");
  }
  view.type = *known;
  if (!spec.shape || !spec.shape->empty()) {  // the C API cannot tell the shape of a scalar
    ApiShape shape;
    PENSTOCK_RETURN_IF_ERROR(
        runtime.ToStatus(api.tensor_get_shape(tensor.get(), &shape), StatusCode::kInternal, shown));
    view.shape.assign(shape.dims, shape.dims + shape.rank);
    api.shape_free(&shape);
  }
  const std::optional<uint64_t> count = signature::ElementCount(view.shape);
  PENSTOCK_CHECK(count.has_value());
  if (*count == 0) return view;
  void* data = nullptr;
  PENSTOCK_RETURN_IF_ERROR(
      runtime.ToStatus(api.tensor_data(tensor.get(), &data), StatusCode::kInternal, shown));
  // The request keeps the memory; `tensor` is one more reference to it.
  view.bytes = {static_cast<const std::byte*>(data), *count * signature::ElementBytes(view.type)};
  return view;
}

}  // namespace penstock::openvino

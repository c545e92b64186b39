#include "openvino/tensor_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "base/printable.h"
#include "openvino/handles.h"
#include "openvino/model_state.h"

namespace penstock::openvino {
namespace {

constexpr size_t kNameBytesMax = 1024;

// The runtime's name of a port, or "". A port may have several: this is any of them.
std::string AnyName(const Api& api, const ApiPort* port) {
  char* name = nullptr;
  if (api.port_get_any_name(port, &name) != kApiOk || name == nullptr) return "";
  std::string text = name;
  api.free(name);
  return text;
}

Expected<std::optional<std::vector<signature::DimensionRange>>> ShapeOf(const Runtime& runtime,
                                                                        const ApiPort* port) {
  ApiPartialShape shape;
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(runtime.api().port_get_partial_shape(port, &shape),
                                            StatusCode::kInternal, "its shape"));
  std::optional<std::vector<signature::DimensionRange>> dimensions;
  if (shape.rank.min == shape.rank.max) {
    dimensions.emplace();
    for (int64_t i = 0; i < shape.rank.max; ++i) {
      dimensions->push_back({shape.dims[i].min, shape.dims[i].max});
    }
  }
  runtime.api().partial_shape_free(&shape);
  return dimensions;
}

// Name, type and shape of a port. A port without a name is called by its place.
Expected<signature::TensorSpec> SpecOf(const Runtime& runtime, const ApiPort* port,
                                       const char* kind, size_t index) {
  signature::TensorSpec spec;
  spec.name = AnyName(runtime.api(), port);
  if (spec.name.empty()) spec.name = fmt::format("{}_{}", kind, index);
  const std::string shown = fmt::format("{} '{}'", kind, Printable(spec.name, kNameBytesMax));
  unsigned type = 0;
  PENSTOCK_RETURN_IF_ERROR(runtime.ToStatus(runtime.api().port_get_element_type(port, &type),
                                            StatusCode::kInternal, shown));
  const std::optional<signature::ElementType> known = FromApi(type);
  if (!known) {
    return Status::Unsupported(
        fmt::format("{}: its element type (number {} of OpenVINO) is not supported", shown, type));
  }
  spec.type = *known;
  auto shape = ShapeOf(runtime, port);
  if (!shape.ok()) return shape.status().Annotate(shown);
  spec.shape = *std::move(shape);
  return spec;
}

Status CheckSize(const signature::TensorSpec& spec) {
  if (!spec.fixed()) return Status::Ok();
  std::vector<int64_t> sizes;
  for (const signature::DimensionRange& dimension : *spec.shape) sizes.push_back(dimension.min);
  const std::optional<uint64_t> count = signature::ElementCount(sizes);
  if (count && *count <= TensorModel::kTensorBytesMax /
                             std::max<size_t>(signature::ElementBytes(spec.type), 1)) {
    return Status::Ok();
  }
  return {StatusCode::kPayloadTooLarge,
          fmt::format("'{}' has shape {}, over the limit of {} bytes for a tensor",
                      Printable(spec.name, kNameBytesMax), signature::ShapeText(spec.shape),
                      TensorModel::kTensorBytesMax)};
}

using GetPort = int (*)(const ApiModel*, size_t, ApiPort**);
using CountPorts = int (*)(const ApiModel*, size_t*);

Expected<std::vector<signature::TensorSpec>> SpecsOf(const Runtime& runtime, const ApiModel* model,
                                                     const char* kind, CountPorts count_ports,
                                                     GetPort get) {
  size_t count = 0;
  PENSTOCK_RETURN_IF_ERROR(
      runtime.ToStatus(count_ports(model, &count), StatusCode::kInternal, kind));
  if (count == 0) return Status::Unsupported(fmt::format("the model has no {}", kind));
  if (count > TensorModel::kTensorsMax) {
    return Status::Unsupported(fmt::format("the model has {} {}s, the limit is {}", count, kind,
                                           TensorModel::kTensorsMax));
  }
  std::vector<signature::TensorSpec> specs;
  for (size_t i = 0; i < count; ++i) {
    PortHandle port(&runtime);
    PENSTOCK_RETURN_IF_ERROR(
        runtime.ToStatus(get(model, i, port.out()), StatusCode::kInternal, kind));
    PENSTOCK_ASSIGN_OR_RETURN(signature::TensorSpec spec, SpecOf(runtime, port.get(), kind, i));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// The input that has `name` among its names, by what AnyName gave; nullopt: none has.
std::optional<size_t> FindInput(const ModelState& state, const std::string& name) {
  const Api& api = state.runtime->api();
  PortHandle port(state.runtime);
  if (api.model_const_input_by_name(state.model.get(), name.c_str(), port.out()) != kApiOk) {
    return std::nullopt;
  }
  const std::string any = AnyName(api, port.get());
  for (size_t i = 0; i < state.inputs.size(); ++i) {
    if (state.inputs[i].name == any) return i;
  }
  return std::nullopt;
}

// A port has the names of all tensors that are one after the runtime's simplifications, so AnyName
// may give another than the file's. What the file declares goes before it. An input whose declared
// name is lost, and which is not told by the order of the others, keeps the runtime's.
void TakeDeclaredNames(ModelState* state) {
  std::vector<std::string> names(state->inputs.size());
  for (const std::string& name : state->files.inputs) {
    const std::optional<size_t> input = FindInput(*state, name);
    if (input && names[*input].empty()) {
      names[*input] = name;
    } else {
      state->ignored_inputs.push_back(name);
    }
  }
  const auto unnamed = static_cast<size_t>(std::count(names.begin(), names.end(), ""));
  const bool by_order = unnamed > 0 && unnamed == state->ignored_inputs.size();
  size_t next = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() && by_order) names[i] = state->ignored_inputs[next++];
    if (!names[i].empty()) state->inputs[i].name = names[i];
  }
  if (by_order) state->ignored_inputs.clear();
  if (state->files.outputs.size() != state->outputs.size()) return;
  for (size_t i = 0; i < state->outputs.size(); ++i) {
    state->outputs[i].name = state->files.outputs[i];
  }
}

Status CheckNames(const std::vector<signature::TensorSpec>& specs, const char* kind) {
  std::set<std::string_view> names;
  for (const signature::TensorSpec& spec : specs) {
    if (spec.name.size() > kNameBytesMax) {
      return Status::Unsupported(fmt::format("the name of an {} has {} bytes, the limit is {}",
                                             kind, spec.name.size(), kNameBytesMax));
    }
    if (!names.insert(spec.name).second) {
      return Status::Unsupported(
          fmt::format("two {}s are called '{}'", kind, Printable(spec.name)));
    }
  }
  return Status::Ok();
}

Status Describe(ModelState* state) {
  const Runtime& runtime = *state->runtime;
  const Api& api = runtime.api();
  PENSTOCK_ASSIGN_OR_RETURN(state->inputs,
                            SpecsOf(runtime, state->model.get(), "input", api.model_inputs_size,
                                    api.model_const_input_by_index));
  PENSTOCK_ASSIGN_OR_RETURN(state->outputs,
                            SpecsOf(runtime, state->model.get(), "output", api.model_outputs_size,
                                    api.model_const_output_by_index));
  for (const signature::TensorSpec& output : state->outputs) {
    state->input_of.push_back(FindInput(*state, output.name));
  }
  TakeDeclaredNames(state);
  PENSTOCK_RETURN_IF_ERROR(CheckNames(state->inputs, "input"));
  PENSTOCK_RETURN_IF_ERROR(CheckNames(state->outputs, "output"));
  for (const auto* specs : {&state->inputs, &state->outputs}) {
    for (const signature::TensorSpec& spec : *specs) PENSTOCK_RETURN_IF_ERROR(CheckSize(spec));
  }
  return Status::Ok();
}

// For a model whose inputs have fixed shapes: sizes of outputs that are still open depend on
// values.
Status CheckBounds(const std::vector<signature::TensorSpec>& outputs,
                   const CompileOptions& options) {
  if (options.sizes_by_values) return Status::Ok();
  for (const signature::TensorSpec& output : outputs) {
    bool bounded = output.shape.has_value();
    for (size_t i = 0; bounded && i < output.shape->size(); ++i) {
      bounded = (*output.shape)[i].max >= 0;
    }
    if (bounded) continue;
    return Status::Unsupported(fmt::format(
        "the values of inputs decide how large output '{}' of shape {} is, without a bound",
        Printable(output.name, kNameBytesMax), signature::ShapeText(output.shape)));
  }
  return Status::Ok();
}

// The model's inputs with `batch` as first dimension; 0: as declared.
Expected<std::vector<std::vector<ApiDimension>>> BatchShapes(
    const std::vector<signature::TensorSpec>& inputs, int64_t batch) {
  std::vector<std::vector<ApiDimension>> shapes;
  for (const signature::TensorSpec& input : inputs) {
    std::vector<ApiDimension> dimensions;
    if (input.shape) {
      for (const signature::DimensionRange& one : *input.shape)
        dimensions.push_back({one.min, one.max});
    }
    if (batch > 0) {
      if (dimensions.empty() || batch < dimensions[0].min ||
          (dimensions[0].max >= 0 && batch > dimensions[0].max)) {
        return Status::Unsupported(fmt::format("input '{}' of shape {} cannot have a batch of {}",
                                               Printable(input.name, kNameBytesMax),
                                               signature::ShapeText(input.shape), batch));
      }
      dimensions[0] = {batch, batch};
    }
    shapes.push_back(std::move(dimensions));
  }
  return shapes;
}

}  // namespace

Expected<std::unique_ptr<TensorModel>> TensorModel::Load(const Runtime* runtime,
                                                         const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(ModelFiles files, FindModelFiles(path));
  const std::string shown = Printable(files.path);
  auto state = std::make_shared<State>(runtime);
  state->files = std::move(files);
  PENSTOCK_RETURN_IF_ERROR(
      runtime->ToStatus(runtime->api().core_read_model(runtime->core(), state->files.path.c_str(),
                                                       nullptr, state->model.out()),
                        StatusCode::kUnsupported, shown));
  PENSTOCK_RETURN_IF_ERROR(Describe(state.get()).Annotate(shown));
  return std::unique_ptr<TensorModel>(new TensorModel(std::move(state)));
}

const ModelFiles& TensorModel::files() const { return state_->files; }
const std::vector<signature::TensorSpec>& TensorModel::inputs() const { return state_->inputs; }
const std::vector<signature::TensorSpec>& TensorModel::outputs() const { return state_->outputs; }
const std::vector<std::string>& TensorModel::ignored_inputs() const {
  return state_->ignored_inputs;
}

// Gives the inputs these shapes; those of the operators follow. Inputs of any rank keep it.
Status TensorModel::State::Reshape(std::vector<std::vector<ApiDimension>>* shapes) {
  std::vector<size_t> indexes;
  std::vector<ApiPartialShape> partial;
  for (size_t i = 0; i < shapes->size(); ++i) {
    const auto rank = static_cast<int64_t>((*shapes)[i].size());
    const bool ranked = rank > 0 || inputs[i].shape;
    indexes.push_back(i);
    partial.push_back({ranked ? ApiDimension{rank, rank} : ApiDimension{}, (*shapes)[i].data()});
  }
  shaped_for = -1;
  return runtime->ToStatus(runtime->api().model_reshape_by_port_indexes(
                               model.get(), indexes.data(), partial.data(), indexes.size()),
                           StatusCode::kUnsupported, "shapes");
}

Status TensorModel::State::ReshapeForBatch(int64_t batch) {
  if (batch == shaped_for) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(auto shapes, BatchShapes(inputs, batch));
  PENSTOCK_RETURN_IF_ERROR(Reshape(&shapes).Annotate(fmt::format("a batch of {}", batch)));
  shaped_for = batch;
  return Status::Ok();
}

Status CompiledModel::State::CheckShapes(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<int64_t> key;
  std::vector<std::vector<ApiDimension>> dimensions;
  for (const std::vector<int64_t>& shape : shapes) {
    key.push_back(static_cast<int64_t>(shape.size()));
    key.insert(key.end(), shape.begin(), shape.end());
    auto& one = dimensions.emplace_back();
    for (const int64_t size : shape) one.push_back({size, size});
  }
  {
    const std::lock_guard lock(checked_mutex);
    if (checked.contains(key)) return Status::Ok();
  }
  {
    const std::lock_guard lock(model->mutex);
    const Status fits = model->Reshape(&dimensions);
    if (!fits.ok()) {
      return Status::InvalidArgument("the inputs' shapes do not go together: " + fits.message());
    }
    std::vector<signature::TensorSpec> inputs_now, outputs_now;
    PENSTOCK_RETURN_IF_ERROR(model->ShapesNow(&inputs_now, &outputs_now));
    PENSTOCK_RETURN_IF_ERROR(CheckBounds(outputs_now, options));
  }
  const std::lock_guard lock(checked_mutex);
  if (checked.size() >= kCheckedMax) checked.clear();
  checked.insert(std::move(key));
  return Status::Ok();
}

// Inputs and outputs as they are after ReshapeForBatch.
Status TensorModel::State::ShapesNow(std::vector<signature::TensorSpec>* inputs_now,
                                     std::vector<signature::TensorSpec>* outputs_now) const {
  const Api& api = runtime->api();
  *inputs_now = inputs;
  *outputs_now = outputs;
  const auto fill = [&](std::vector<signature::TensorSpec>* specs, GetPort get) -> Status {
    for (size_t i = 0; i < specs->size(); ++i) {
      PortHandle port(runtime);
      PENSTOCK_RETURN_IF_ERROR(runtime->ToStatus(get(model.get(), i, port.out()),
                                                 StatusCode::kInternal, (*specs)[i].name));
      PENSTOCK_ASSIGN_OR_RETURN((*specs)[i].shape, ShapeOf(*runtime, port.get()));
      PENSTOCK_RETURN_IF_ERROR(CheckSize((*specs)[i]));
    }
    return Status::Ok();
  };
  PENSTOCK_RETURN_IF_ERROR(fill(inputs_now, api.model_const_input_by_index));
  return fill(outputs_now, api.model_const_output_by_index);
}

Status TensorModel::State::ShapesFor(int64_t batch, std::vector<signature::TensorSpec>* inputs_then,
                                     std::vector<signature::TensorSpec>* outputs_then) {
  PENSTOCK_RETURN_IF_ERROR(ReshapeForBatch(batch));
  PENSTOCK_RETURN_IF_ERROR(ShapesNow(inputs_then, outputs_then));
  if (batch == 0) return Status::Ok();
  for (const signature::TensorSpec& output : *outputs_then) {
    const signature::DimensionRange rows{batch, batch};
    if (output.shape && !output.shape->empty() && output.shape->front() == rows) continue;
    return Status::Unsupported(fmt::format(
        "with a batch of {}, output '{}' has shape {}: the model cannot run in batches", batch,
        Printable(output.name, kNameBytesMax), signature::ShapeText(output.shape)));
  }
  return Status::Ok();
}

Status TensorModel::ShapesForBatch(int64_t batch, std::vector<signature::TensorSpec>* inputs_then,
                                   std::vector<signature::TensorSpec>* outputs_then) const {
  PENSTOCK_CHECK(batch > 0);
  const std::lock_guard lock(state_->mutex);
  return state_->ShapesFor(batch, inputs_then, outputs_then)
      .Annotate(Printable(state_->files.path));
}

Expected<std::unique_ptr<CompiledModel>> TensorModel::Compile(const CompileOptions& options) const {
  PENSTOCK_CHECK(options.threads > 0 && options.batch >= 0);
  const std::string shown = Printable(state_->files.path);
  for (const auto* specs : {&state_->inputs, &state_->outputs}) {
    for (const signature::TensorSpec& spec : *specs) {
      if (spec.type != signature::ElementType::kBytes) continue;
      // Releases up to 2026.4 free strings twice where an output is an input (heap corruption).
      return Status::Unsupported(
          fmt::format("{}: '{}' has strings, which OpenVINO's CPU plugin does not handle safely",
                      shown, Printable(spec.name, kNameBytesMax)));
    }
  }
  auto state = std::make_shared<CompiledModel::State>(state_, options);
  const std::lock_guard lock(state_->mutex);
  PENSTOCK_RETURN_IF_ERROR(
      state_->ShapesFor(options.batch, &state->inputs, &state->outputs).Annotate(shown));
  if (std::all_of(state->inputs.begin(), state->inputs.end(),
                  [](const signature::TensorSpec& input) { return input.fixed(); })) {
    PENSTOCK_RETURN_IF_ERROR(CheckBounds(state->outputs, options).Annotate(shown));
  }
  const std::string threads = std::to_string(options.threads);
  const std::array<ApiProperty, 5> properties = {{
      {"NUM_STREAMS", "1"},
      {"INFERENCE_NUM_THREADS", threads.c_str()},
      {"ENABLE_CPU_PINNING", "NO"},
      {"INFERENCE_PRECISION_HINT", "f32"},
      {"DYNAMIC_QUANTIZATION_GROUP_SIZE", "0"},  // else inputs of int8 weights are rounded to int8
  }};
  PENSTOCK_RETURN_IF_ERROR(state_->runtime->ToStatus(
      state_->runtime->api().core_compile_model_props(state_->runtime->core(), state_->model.get(),
                                                      "CPU", properties.size(), properties.data(),
                                                      state->compiled.out()),
      StatusCode::kUnsupported, shown));
  return std::unique_ptr<CompiledModel>(new CompiledModel(std::move(state)));
}

const std::vector<signature::TensorSpec>& CompiledModel::inputs() const { return state_->inputs; }
const std::vector<signature::TensorSpec>& CompiledModel::outputs() const { return state_->outputs; }

}  // namespace penstock::openvino

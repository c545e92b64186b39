// Runs tensor models for tests/e2e/test_openvino_models.py and bench/openvino_loop.py: a JSON
// object a line in, one out.
//
//   {"model": path, "threads": 1, "batch": 0, "runs": 1, "output": prefix,
//    "inputs": [{"name", "type", "shape", "file"}, ...]}
//   {"inputs": [...], "outputs": [{"name", "type", "shape", "file"}, ...], "ignored": [names],
//    "seconds": [of each run]}    or    {"stage": "load"|"run", "error": code, "message": text}
//
// Files hold bare elements; that of output i is prefix + i. "inputs" of the answer: as the model
// declares them. The model of the line before is kept for a line with the same model, threads and
// batch.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iostream>

#include "json/json.h"
#include "openvino/tensor_model.h"

namespace penstock::openvino {
namespace {

struct Compiled {
  std::string key;
  std::unique_ptr<TensorModel> model;
  std::unique_ptr<CompiledModel> compiled;
  std::unique_ptr<InferRequest> request;
};

struct Input {
  std::vector<int64_t> shape;
  std::string bytes;
};

Status LoadModel(const JsonObject& line, Compiled* now) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string path, line.GetString("model"));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t threads, line.GetIntOr("threads", 1, 1, 256));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t batch, line.GetIntOr("batch", 0, 0, 1 << 20));
  const std::string key = fmt::format("{} {} {}", path, threads, batch);
  if (now->request != nullptr && now->key == key) return Status::Ok();
  *now = {};
  PENSTOCK_ASSIGN_OR_RETURN(const Runtime* const runtime, Runtime::Shared());
  PENSTOCK_ASSIGN_OR_RETURN(now->model, TensorModel::Load(runtime, path));
  const CompileOptions options{static_cast<int>(threads), batch, true};
  PENSTOCK_ASSIGN_OR_RETURN(now->compiled, now->model->Compile(options));
  PENSTOCK_ASSIGN_OR_RETURN(now->request, now->compiled->NewRequest());
  now->key = key;
  return Status::Ok();
}

// By name, in the model's order.
Expected<std::vector<Input>> ReadInputs(const JsonObject& line, const Compiled& now) {
  std::vector<Input> inputs(now.compiled->inputs().size());
  PENSTOCK_ASSIGN_OR_RETURN(const auto array, line.GetArray("inputs"));
  for (const JsonElement element : array) {
    JsonObject one;
    if (!element.Get(&one)) return Status::InvalidArgument("an input is not an object");
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, one.GetString("name"));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string type, one.GetString("type"));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, one.GetString("file"));
    PENSTOCK_ASSIGN_OR_RETURN(const auto shape, one.GetArray("shape"));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const signature::TensorSpec& spec = now.compiled->inputs()[i];
      if (spec.name != name) continue;
      if (type != signature::ElementTypeName(spec.type)) {
        return Status::InvalidArgument(fmt::format("input '{}' is {}, the model takes {}", name,
                                                   type, signature::ElementTypeName(spec.type)));
      }
      for (const JsonElement size : shape) {
        if (!size.Get(&inputs[i].shape.emplace_back())) {
          return Status::InvalidArgument(fmt::format("the shape of '{}' is not of integers", name));
        }
      }
      std::ifstream file(path, std::ios::binary);
      inputs[i].bytes = {std::istreambuf_iterator<char>(file), {}};
    }
  }
  return inputs;
}

void WriteSpec(JsonWriter* writer, const signature::TensorSpec& spec) {
  writer->BeginObject()
      .Field("name", spec.name)
      .Field("type", signature::ElementTypeName(spec.type));
  writer->Field("shape", signature::ShapeText(spec.shape));
}

Status RunModel(const JsonObject& line, const Compiled& now, JsonWriter* writer) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t runs, line.GetIntOr("runs", 1, 1, 1 << 20));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string prefix, line.GetString("output"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Input> inputs, ReadInputs(line, now));
  for (size_t i = 0; i < inputs.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(
        now.request->BindInput(i, inputs[i].shape, std::as_bytes(std::span(inputs[i].bytes))));
  }
  const std::vector<Input> before = inputs;
  std::vector<std::vector<std::byte>> memory;
  for (size_t i = 0; i < now.compiled->outputs().size(); ++i) {
    const signature::TensorSpec& spec = now.compiled->outputs()[i];
    if (!spec.fixed()) continue;
    memory.emplace_back(spec.bytes());
    PENSTOCK_RETURN_IF_ERROR(now.request->BindOutput(i, memory.back()));
  }
  std::vector<double> seconds;
  for (int64_t i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    PENSTOCK_RETURN_IF_ERROR(now.request->Run());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].bytes != before[i].bytes) return Status::Internal("a run changed its input");
  }
  writer->BeginObject().Key("inputs").BeginArray();
  for (const signature::TensorSpec& spec : now.model->inputs()) {
    WriteSpec(writer, spec);
    writer->EndObject();
  }
  writer->EndArray().Key("outputs").BeginArray();
  for (size_t i = 0; i < now.compiled->outputs().size(); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(const OutputView view, now.request->Output(i));
    const std::string path = prefix + std::to_string(i);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(view.bytes.data()),
               static_cast<std::streamsize>(view.bytes.size()));
    const signature::TensorSpec& spec = now.compiled->outputs()[i];
    writer->BeginObject()
        .Field("name", spec.name)
        .Field("type", signature::ElementTypeName(spec.type));
    writer->Key("shape").BeginArray();
    for (const int64_t size : view.shape) writer->Int(size);
    writer->EndArray().Field("file", path).EndObject();
  }
  writer->EndArray().Key("ignored").BeginArray();
  for (const std::string& name : now.model->ignored_inputs()) writer->String(name);
  writer->EndArray().Key("seconds").BeginArray();
  for (const double one : seconds) writer->Double(one);
  writer->EndArray().EndObject();
  return Status::Ok();
}

std::string Failure(const char* stage, const Status& status) {
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject().Field("stage", stage).Field("error", StatusCodeName(status.code()));
  writer.Field("message", status.message()).EndObject();
  return text;
}

std::string Answer(const std::string& text, Compiled* now) {
  const auto document = JsonDocument::Parse(text);
  if (!document.ok()) return Failure("line", document.status());
  const auto line = document->Object();
  if (!line.ok()) return Failure("line", line.status());
  if (const Status loaded = LoadModel(*line, now); !loaded.ok()) return Failure("load", loaded);
  std::string answer;
  JsonWriter writer(&answer);
  if (const Status ran = RunModel(*line, *now, &writer); !ran.ok()) return Failure("run", ran);
  return answer;
}

}  // namespace
}  // namespace penstock::openvino

int main() {
  penstock::openvino::Compiled now;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << penstock::openvino::Answer(line, &now) << std::endl;
  }
  return 0;
}

// penstock inspect: the properties of a model, as Penstock reads them.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "commands.h"
#include "families/gguf_encoder.h"
#include "inspect_decoder.h"
#include "inspect_program.h"
#include "inspect_tensors.h"
#include "json/json_writer.h"
#include "model_flags.h"
#include "models/embedding_decoder.h"
#include "models/encoder.h"

namespace penstock::cli {
namespace {

// Stored types with their share: {"BF16": elements, ...}.
std::map<std::string, int64_t> StoredTypes(const files::TensorStore& store) {
  std::map<std::string, int64_t> types;
  for (const files::TensorRecord& tensor : store.tensors()) {
    types[numbers::DTypeName(tensor.dtype)] += tensor.elements();
  }
  return types;
}

// Why fewer parameters are in memory than are stored, as far as names tell; "" where none is left
// out.
std::string LeftOut(const api::ModelInfo& info, const files::TensorStore& store) {
  int64_t stored = 0, known = 0;
  std::string names;
  for (const files::TensorRecord& tensor : store.tensors()) {
    stored += tensor.elements();
    if (tensor.name.find("pooler.") == std::string::npos &&
        tensor.name.find("position_ids") == std::string::npos) {
      continue;
    }
    known += tensor.elements();
    names += (names.empty() ? ": " : ", ") + tensor.name;
  }
  const int64_t left_out = stored - info.parameters;
  if (left_out <= 0) return "";
  return fmt::format("{} of the stored parameters, which this task does not use{}", left_out,
                     known == left_out ? names : "");
}

// `add_fields`: writes more fields of the object.
std::string PrintJson(const api::ModelInfo& info, const engine::EncoderEngine& engine,
                      const files::TensorStore& store,
                      const std::function<void(JsonWriter*)>& add_fields) {
  const std::map<std::string, int64_t> types = StoredTypes(store);
  const families::ModelFolder& folder = engine.folder();
  const families::EncoderConfig& config = folder.encoder;
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject().Field("name", info.name).Field("path", info.path);
  writer.Field("revision", info.revision).Field("task", info.task);
  writer.Field("architecture", info.architecture).Field("layers", config.num_hidden_layers);
  writer.Field("heads", config.num_attention_heads).Field("hidden_size", info.hidden_size);
  writer.Field("intermediate_size", config.intermediate_size);
  writer.Field("vocab_size", config.vocab_size).Field("parameters", info.parameters);
  writer.Key("stored_elements").BeginObject();
  for (const auto& [type, elements] : types) writer.Field(type, elements);
  writer.EndObject();
  writer.Field("dtype", info.dtype).Field("int8_keep", info.int8_keep);
  writer.Field("weight_bytes", info.weight_bytes);
  writer.Field("tokenizer", info.tokenizer).Field("max_tokens", info.max_tokens);
  if (!info.pooling.empty()) {
    writer.Field("dimensions", info.dimensions).Field("pooling", info.pooling);
    writer.Field("dense_modules", folder.dense.size()).Field("normalize", folder.normalize);
    writer.Field("similarity", folder.similarity.empty() ? "cosine" : folder.similarity);
    writer.Field("default_prompt_name", folder.default_prompt_name);
    writer.Key("prompts").BeginObject();
    for (const auto& [name, prompt] : folder.prompts) writer.Field(name, prompt);
    writer.EndObject();
  }
  if (!info.labels.empty()) {
    writer.Key("labels").BeginArray();
    for (const std::string& label : info.labels) writer.String(label);
    writer.EndArray();
  }
  writer.Field("backend", info.backend);
  add_fields(&writer);
  writer.EndObject();
  return text + '\n';
}

// What a model takes of its device.
struct DeviceMemory {
  std::string device;
  engine::ModelBytes needs;
  uint64_t free_bytes = 0;
};

DeviceMemory MemoryOf(const runtime::LocalModels& local) {
  const registry::Registry::Entry model = local.registry->List().front();
  DeviceMemory memory = {model.device, model.bytes};
  for (const devices::MadeDevice& device : local.devices) {
    if (device.name == model.device) memory.free_bytes = device.backend->AvailableBytes();
  }
  return memory;
}

std::string PrintText(const api::ModelInfo& info, const engine::EncoderEngine& engine,
                      const files::TensorStore& store, const DeviceMemory& memory) {
  const std::map<std::string, int64_t> types = StoredTypes(store);
  const families::ModelFolder& folder = engine.folder();
  const families::EncoderConfig& config = folder.encoder;
  std::string out;
  const auto row = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<14} {}\n", name, value);
  };
  row("name", info.name);
  row("folder", info.path);
  if (!info.revision.empty()) row("revision", info.revision);
  row("task", info.task);
  row("architecture",
      fmt::format("{}: {} layers, {} heads, hidden {}, feed-forward {}", info.architecture,
                  config.num_hidden_layers, config.num_attention_heads, info.hidden_size,
                  config.intermediate_size));
  std::string stored;
  for (const auto& [type, elements] : types) {
    stored += fmt::format("{}{} {}", stored.empty() ? "" : ", ", elements, type);
  }
  row("stored", stored);
  const std::string kept = info.int8_keep.empty() ? "" : " (but " + info.int8_keep + ")";
  row("in memory", fmt::format("{} parameters, {}{}, {:.1f} MB", info.parameters, info.dtype, kept,
                               static_cast<double>(info.weight_bytes) / 1e6));
  if (const std::string text = LeftOut(info, store); !text.empty()) row("left out", text);
  row("tokenizer", fmt::format("{}, {} tokens", info.tokenizer, engine.tokenizer().vocab_size()));
  row("longest input", fmt::format("{} tokens, special tokens included", info.max_tokens));
  if (!info.pooling.empty()) {
    row("embedding", fmt::format("{} dimensions: {} pooling, {} dense modules, {}", info.dimensions,
                                 info.pooling, folder.dense.size(),
                                 folder.normalize ? "normalised" : "not normalised"));
    row("similarity", folder.similarity.empty() ? "cosine" : folder.similarity);
    for (const auto& [name, prompt] : folder.prompts) {
      row("prompt", fmt::format("{}{}: \"{}\"", name,
                                name == folder.default_prompt_name ? " (default)" : "", prompt));
    }
  }
  for (size_t i = 0; i < info.labels.size(); ++i) {
    row("label", fmt::format("{}: {}", i, info.labels[i]));
  }
  row("backend", info.backend);
  const auto mb = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::string takes = fmt::format("{:.1f} MB of weights and up to {:.1f} MB of activations",
                                  mb(memory.needs.weights), mb(memory.needs.activations));
  if (memory.needs.cache > 0) takes += fmt::format(", {:.1f} MB of cache", mb(memory.needs.cache));
  if (memory.free_bytes > 0) {
    takes += fmt::format("; {:.0f} MB are free on {}", mb(memory.free_bytes), memory.device);
  }
  row("memory", takes);
  return out;
}

// The model again, with its programs: engines keep theirs to themselves.
struct ProgramModel {
  static Expected<ProgramModel> Load(const engine::EncoderEngine& engine,
                                     program::Backend* backend) {
    ProgramModel model;
    const families::ModelFolder& folder = engine.folder();
    if (folder.decoder) {
      PENSTOCK_ASSIGN_OR_RETURN(
          const families::DecoderFiles files,
          families::DecoderFiles::Open(folder.path, families::DecoderUse::kEmbed));
      PENSTOCK_ASSIGN_OR_RETURN(model.decoder, models::EmbeddingDecoder::Load(
                                                   folder, files, backend, {engine.info().dtype}));
      return model;
    }
    models::LinearTypes types = engine.info().dtype;
    types.kept = engine.info().int8_keep;
    types.override_dtype = backend->preferred_dtype();
    PENSTOCK_ASSIGN_OR_RETURN(model.encoder, models::EncoderModel::Load(folder, backend, types));
    return model;
  }
  const program::Program& program() const {
    if (decoder != nullptr) return decoder->decoder().program();
    const program::Program* pooled = encoder->program(program::EncoderOutput::kPooled);
    return pooled != nullptr ? *pooled : *encoder->program(program::EncoderOutput::kLogits);
  }

  std::unique_ptr<models::EncoderModel> encoder;
  std::unique_ptr<models::EmbeddingDecoder> decoder;
};

// Describes a model that is not an encoder; gives the exit code.
std::optional<int> DescribeOther(const CommandLine& line, const runtime::ModelOptions& flags,
                                 const ProgramFlags& program, bool json) {
  const auto tensors = DescribeTensorModel(flags, json);
  if (!tensors.ok()) return line.Fail(tensors.status());
  if (*tensors) {
    if (program.wanted) return line.FailUsage("--program: a tensor model has none to show");
    std::fputs((*tensors)->c_str(), stdout);
    return kExitOk;
  }
  const auto decoder = FindDecoder(flags);
  if (!decoder.ok()) return line.Fail(decoder.status());
  if (*decoder) {
    const auto text = DescribeDecoder(**decoder, flags, program, json);
    if (!text.ok()) {
      const bool usage = text.status().field() == "--length";
      return usage ? line.FailUsage(text.status().message()) : line.Fail(text.status());
    }
    std::fputs(text->c_str(), stdout);
    return kExitOk;
  }
  return std::nullopt;
}

}  // namespace

int RunInspect(const std::vector<std::string>& args) {
  CommandLine line(
      "inspect",
      "Describe a model: architecture, types and sizes, tokenizer, limits, prompts. For a "
      "decoder, whose weights are loaded for --program only, --model may also be a .gguf file. For "
      "a tensor model: its inputs and outputs.",
      "  penstock inspect --model sentence-transformers/all-MiniLM-L6-v2\n"
      "  penstock inspect --model ./SmolLM2-135M-Instruct.Q4_1.gguf\n"
      "  penstock inspect --model ./model.onnx\n"
      "  penstock inspect --model ./folder --json\n"
      "  penstock inspect --model ./folder --program --length 512\n"
      "  penstock inspect --model ./SmolLM2-135M-Instruct.Q4_1.gguf --program --length 1 --past "
      "2048\n");
  runtime::ModelOptions flags;
  ProgramFlags program;
  bool json = false;
  AddModelFlags(&line, &flags, false, "warn");
  line.flags().AddSwitch("--json", json, "One JSON object.")->Group("Output");
  AddProgramFlags(&line, &program);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(flags); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  if (const auto exit_code = DescribeOther(line, flags, program, json)) return *exit_code;
  const Status fetched = FetchModels(flags);
  if (!fetched.ok()) return line.Fail(fetched);
  auto local = runtime::LocalModels::Load(flags);
  if (!local.ok()) return line.Fail(local.status());
  const api::ModelInfo info = (*local)->service->Models().front();
  const registry::Lease<engine::EncoderEngine> engine =
      *(*local)->registry->Find<engine::EncoderEngine>("");
  const auto store = families::OpenEncoderTensors(info.path);
  if (!store.ok()) return line.Fail(store.status());
  std::optional<ProgramModel> model;
  if (program.past > 0 && !engine->folder().decoder)
    return line.FailUsage("--past: for decoders only");
  if (program.length == 0) program.length = std::min(kProgramLength, info.max_tokens);
  const program::BatchShape batch = program.Batch();
  if (program.wanted) {
    if (program.length > info.max_tokens) {
      return line.FailUsage(fmt::format("--length: {} tokens; the model takes {} at most",
                                        program.length, info.max_tokens));
    }
    auto loaded = ProgramModel::Load(*engine, (*local)->backend());
    if (!loaded.ok()) return line.Fail(loaded.status());
    model = *std::move(loaded);
  }
  std::string text;
  if (json) {
    text = PrintJson(info, *engine, **store, [&](JsonWriter* writer) {
      const DeviceMemory memory = MemoryOf(**local);
      writer->Field("device", memory.device);
      writer->Key("device_memory").BeginObject();
      writer->Field("weight_bytes", memory.needs.weights);
      writer->Field("activation_bytes", memory.needs.activations);
      writer->Field("cache_bytes", memory.needs.cache);
      writer->Field("free_bytes", memory.free_bytes).EndObject();
      if (!model) return;
      writer->Key("program");
      PrintProgramJson(model->program(), batch, writer);
    });
  } else {
    text = PrintText(info, *engine, **store, MemoryOf(**local));
    if (model) text += '\n' + PrintProgram(model->program(), batch);
  }
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace penstock::cli

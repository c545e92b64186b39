#include "inspect_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/printable.h"
#include "devices/backends.h"
#include "download_progress.h"
#include "engine/encoder_engine.h"
#include "families/decoder_files.h"
#include "families/model_kind.h"
#include "hub/hub.h"
#include "json/json_writer.h"
#include "models/decoder.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kKvValueBytes = 2;  // bf16

struct Windows {
  int64_t layers = 0;  // that have one
  int32_t size = 0;    // the largest
};

Windows WindowsOf(const families::DecoderConfig& config) {
  Windows windows;
  for (const families::DecoderLayerConfig& layer : config.layers) {
    windows.layers += layer.window > 0;
    windows.size = std::max(windows.size, layer.window);
  }
  return windows;
}

// Bytes of the longest context; layers with a window keep no more than the window.
int64_t KvBytesOfContext(const families::DecoderConfig& config) {
  const int64_t layer_bytes =
      families::KvBytesPerToken(config, kKvValueBytes) / static_cast<int64_t>(config.layers.size());
  int64_t tokens = 0;
  for (const families::DecoderLayerConfig& layer : config.layers) {
    tokens += layer.window > 0 ? layer.window : config.context;
  }
  return tokens * layer_bytes;
}

// "gguf: gpt2 (smollm)", or the name of the file.
std::string TokenizerText(const families::DecoderFiles& files) {
  if (!files.tokenizer) return "none";
  if (files.tokenizer->gguf == nullptr) return fs::path(files.tokenizer->path).filename().string();
  const auto text = [&](const char* key) {
    const auto value = files.tokenizer->gguf->GetStringOr(key, "");
    return Printable(value.ok() ? *value : "?", 64);
  };
  const std::string pre = text("tokenizer.ggml.pre");
  return "GGUF, " + text("tokenizer.ggml.model") + (pre.empty() ? "" : " (" + pre + ")");
}

std::string RopeText(const families::DecoderConfig& config) {
  std::vector<float> thetas;
  int64_t without = 0;
  for (const families::DecoderLayerConfig& layer : config.layers) {
    without += !layer.rope;
    if (layer.rope && std::find(thetas.begin(), thetas.end(), layer.rope_theta) == thetas.end()) {
      thetas.push_back(layer.rope_theta);
    }
  }
  std::string text = fmt::format("theta {}, {} of {} values of a head, {}",
                                 fmt::join(thetas, " and "), config.rope_size, config.head_size,
                                 config.rope_interleaved ? "pairs side by side" : "in halves");
  const families::RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind != families::RopeScalingKind::kNone) {
    text += fmt::format(", scaling {}", families::RopeScalingName(scaling.kind));
    if (scaling.factor > 0) text += fmt::format(" by {}", scaling.factor);
    if (scaling.original_context > 0) text += fmt::format(" from {}", scaling.original_context);
  }
  if (without > 0) text += fmt::format("; {} layers without", without);
  return text;
}

std::string TokensText(const families::DecoderConfig& config) {
  std::string text = fmt::format("{} tokens", config.vocab_size);
  if (config.bos_id >= 0) text += fmt::format(", begin {}", config.bos_id);
  if (!config.end_ids.empty()) text += fmt::format(", end {}", fmt::join(config.end_ids, " "));
  if (config.pad_id >= 0) text += fmt::format(", padding {}", config.pad_id);
  return text;
}

std::string SamplingText(const families::SamplingKeys& keys) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *value);
  };
  add("temperature", keys.temperature);
  add("top_k", keys.top_k);
  add("top_p", keys.top_p);
  add("min_p", keys.min_p);
  add("repetition_penalty", keys.repetition_penalty);
  return text;
}

std::string PrintText(const DecoderPlace& place, const families::DecoderFiles& files) {
  const families::DecoderConfig& config = files.config;
  std::string out;
  const auto row = [&](const char* name, const std::string& value) {
    out += fmt::format("{:<14} {}\n", name, value);
  };
  row("name", place.name);
  std::error_code ignored;
  row(fs::is_directory(place.path, ignored) ? "folder" : "file", place.path);
  row("task", "generation");
  row("architecture",
      fmt::format("{}: {} layers, {} heads of {} ({} of keys), hidden {}, feed-forward {}",
                  config.architecture, config.layers.size(), config.heads, config.head_size,
                  config.kv_heads, config.hidden_size, config.intermediate_size));
  row("parameters", fmt::format("{}{}", files.parameters,
                                files.tensors.tied ? ", output tied to the embedding" : ""));
  for (const families::StoredType& type : families::TypesInFiles(*files.store)) {
    row("stored", fmt::format("{} {} in {} tensor{}, {:.1f} MB", type.elements,
                              numbers::DTypeName(type.dtype), type.tensors,
                              type.tensors == 1 ? "" : "s", static_cast<double>(type.bytes) / 1e6));
  }
  if (files.unused_tensors > 0)
    row("unused",
        fmt::format("{} tensor{}", files.unused_tensors, files.unused_tensors == 1 ? "" : "s"));
  row("context", fmt::format("{} tokens", config.context));
  row("kv cache", fmt::format("{} bytes a token in bf16, {:.1f} MB for the whole context",
                              families::KvBytesPerToken(config, kKvValueBytes),
                              static_cast<double>(KvBytesOfContext(config)) / 1e6));
  const Windows windows = WindowsOf(config);
  row("window", windows.layers == 0 ? "none"
                                    : fmt::format("{} tokens in {} of {} layers", windows.size,
                                                  windows.layers, config.layers.size()));
  row("rope", RopeText(config));
  row("vocabulary", TokensText(config));
  row("tokenizer", TokenizerText(files));
  row("chat template",
      files.chat_template.empty() ? "none" : fmt::format("{} bytes", files.chat_template.size()));
  if (const std::string text = SamplingText(files.sampling); !text.empty()) row("sampling", text);
  if (const files::GgufHeader* gguf = files.store->gguf()) {
    row("gguf", fmt::format("version {}, {} file{}, alignment {}", gguf->version, gguf->parts,
                            gguf->parts == 1 ? "" : "s", gguf->alignment));
  }
  return out;
}

void WriteRope(const families::DecoderConfig& config, JsonWriter* writer) {
  const families::RopeScaling& scaling = config.rope_scaling;
  writer->Key("rope").BeginObject().Field("size", config.rope_size);
  writer->Field("interleaved", config.rope_interleaved);
  writer->Field("scaling", families::RopeScalingName(scaling.kind)).Field("factor", scaling.factor);
  writer->Field("original_context", scaling.original_context);
  writer->Field("attention_factor", scaling.attention_factor).EndObject();
  writer->Key("layer_kinds").BeginArray();
  for (const families::DecoderLayerConfig& layer : config.layers) {
    writer->BeginObject().Field("window", layer.window).Field("rope", layer.rope);
    writer->Field("rope_theta", layer.rope_theta).Field("rope_scaled", layer.rope_scaled);
    writer->EndObject();
  }
  writer->EndArray();
}

void WriteTokens(const families::DecoderFiles& files, JsonWriter* writer) {
  const families::DecoderConfig& config = files.config;
  const auto id = [&](const char* key, int32_t token) {
    writer->Key(key);
    token < 0 ? writer->Null() : writer->Int(token);
  };
  writer->Field("vocab_size", config.vocab_size);
  id("bos_token_id", config.bos_id);
  id("eos_token_id", config.eos_id);
  id("pad_token_id", config.pad_id);
  writer->Key("end_token_ids").Ints(config.end_ids);
  if (config.add_bos) writer->Field("add_bos", *config.add_bos);
  writer->Field("tokenizer", TokenizerText(files));
  writer->Field("chat_template_bytes", files.chat_template.size());
  writer->Key("sampling").BeginObject();
  const auto number = [&](const char* key, const auto& value) {
    if (value) writer->Field(key, *value);
  };
  number("temperature", files.sampling.temperature);
  number("top_k", files.sampling.top_k);
  number("top_p", files.sampling.top_p);
  number("min_p", files.sampling.min_p);
  number("repetition_penalty", files.sampling.repetition_penalty);
  writer->EndObject();
}

// `model`: null without --program.
std::string PrintJson(const DecoderPlace& place, const families::DecoderFiles& files,
                      const models::DecoderModel* model, const program::BatchShape& batch) {
  const families::DecoderConfig& config = files.config;
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject().Field("name", place.name).Field("path", place.path);
  writer.Field("task", "generation").Field("architecture", config.architecture);
  writer.Field("layers", config.layers.size()).Field("heads", config.heads);
  writer.Field("kv_heads", config.kv_heads).Field("head_size", config.head_size);
  writer.Field("hidden_size", config.hidden_size);
  writer.Field("intermediate_size", config.intermediate_size);
  writer.Field("parameters", files.parameters).Field("tied", files.tensors.tied);
  writer.Key("stored").BeginArray();
  for (const families::StoredType& type : families::TypesInFiles(*files.store)) {
    writer.BeginObject()
        .Field("type", numbers::DTypeName(type.dtype))
        .Field("tensors", type.tensors);
    writer.Field("elements", type.elements).Field("bytes", type.bytes).EndObject();
  }
  writer.EndArray().Field("unused_tensors", files.unused_tensors);
  writer.Field("context", config.context);
  writer.Field("kv_bytes_per_token", families::KvBytesPerToken(config, kKvValueBytes));
  writer.Field("kv_bytes_of_context", KvBytesOfContext(config));
  const Windows windows = WindowsOf(config);
  writer.Field("window", windows.size).Field("windowed_layers", windows.layers);
  WriteRope(config, &writer);
  WriteTokens(files, &writer);
  if (const files::GgufHeader* gguf = files.store->gguf()) {
    writer.Key("gguf").BeginObject().Field("version", gguf->version);
    writer.Field("files", gguf->parts).Field("alignment", gguf->alignment).EndObject();
  }
  if (model != nullptr) {
    writer.Key("program");
    PrintProgramJson(model->program(), batch, &writer);
  }
  writer.EndObject();
  return text + '\n';
}

bool IsGgufFile(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".gguf") && fs::is_regular_file(path, ignored);
}

}  // namespace

Expected<std::optional<DecoderPlace>> FindDecoder(const runtime::ModelOptions& flags) {
  if (flags.models.size() != 1) return std::optional<DecoderPlace>();
  const auto specs = runtime::ModelSpecs(flags);
  if (!specs.ok()) return std::optional<DecoderPlace>();
  DecoderPlace place = {specs->front().name, specs->front().reference};
  const auto failed = [&](const Status& status) {
    return status.Annotate("cannot load model '" + place.name + "'");
  };
  const bool file = IsGgufFile(place.path);
  if (file) {
    const bool named =
        !runtime::SplitModel(flags.models[0]).names.empty() || !flags.served_names.empty();
    if (!named) place.name = fs::path(place.path).stem().string();
  } else {
    if (!hub::ModelReference::Parse(place.path).ok()) return std::optional<DecoderPlace>();
    hub::SetAutoPull(flags.auto_pull);
    auto folder = ResolveShown(place.path);
    if (!folder.ok()) return failed(folder.status());
    place.path = *std::move(folder);
  }
  const auto kind = families::KindOfModel(place.path);
  if (kind.ok() && *kind == families::ModelKind::kDecoder) return std::optional(place);
  std::error_code ignored;
  const bool ours = file || !fs::exists(fs::path(place.path) / "config.json", ignored) ||
                    kind.code() == StatusCode::kUnsupported;
  if (!kind.ok() && ours && kind.code() != StatusCode::kNotFound) return failed(kind.status());
  return std::optional<DecoderPlace>();
}

Expected<std::optional<numbers::DType>> TypeAsked(const runtime::ModelOptions& flags) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto specs, runtime::ModelSpecs(flags));
  return specs.front().options.encoder.dtype;
}

Expected<std::string> DescribeDecoder(const DecoderPlace& place, const runtime::ModelOptions& flags,
                                      ProgramFlags program, bool json) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files,
                            families::DecoderFiles::Open(place.path));
  std::unique_ptr<program::Backend> backend;
  std::unique_ptr<models::DecoderModel> model;
  if (program.wanted) {
    const int32_t context = files.config.context;
    if (program.length == 0) program.length = std::min(kProgramLength, context);
    if (int64_t{program.past} + program.length > context) {
      return Status::InvalidArgument(
          fmt::format("--length: {} tokens after {}; the context holds {}", program.length,
                      program.past, context),
          "--length");
    }
    models::DecoderOptions options;
    PENSTOCK_ASSIGN_OR_RETURN(options.dtype, TypeAsked(flags));
    PENSTOCK_ASSIGN_OR_RETURN(const devices::DeviceOptions device, runtime::DeviceAsked(flags));
    PENSTOCK_ASSIGN_OR_RETURN(backend, devices::NewBackend(device));
    PENSTOCK_ASSIGN_OR_RETURN(model, models::DecoderModel::Load(files, backend.get(), options));
  }
  const program::BatchShape batch = program.Batch();
  if (json) return PrintJson(place, files, model.get(), batch);
  std::string text = PrintText(place, files);
  if (model != nullptr) text += '\n' + PrintProgram(model->program(), batch);
  return text;
}

}  // namespace penstock::cli

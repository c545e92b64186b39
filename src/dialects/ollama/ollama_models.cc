#include "dialects/ollama/ollama_models.h"

#include <fmt/format.h>

#include <chrono>

#include "base/sha256.h"
#include "dialects/ollama/ollama_print.h"
#include "dialects/shared/fields.h"
#include "json/json_writer.h"
#include "reply/reply_format.h"

namespace penstock::dialects {
namespace {

std::string ParameterText(int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return parameters < 1'000'000'000 ? fmt::format("{:.1f}M", count / 1e6)
                                    : fmt::format("{:.1f}B", count / 1e9);
}

std::string FormatOf(const api::ModelInfo& model) {
  if (model.path.ends_with(".gguf")) return "gguf";
  if (model.task == api::kTensorTask) return model.platform;  // "" until it is loaded
  return "safetensors";
}

// In Ollama's words.
std::string LevelOf(const api::ModelInfo& model) {
  if (!model.quantisation.empty()) return model.quantisation;
  if (model.dtype == "float32") return "F32";
  if (model.dtype == "bfloat16") return "BF16";
  return model.dtype;
}

void WriteDetails(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("details").BeginObject().Field("parent_model", "");
  json->Field("format", FormatOf(model));
  json->Field("family", model.architecture).Key("families").BeginArray();
  if (!model.architecture.empty()) json->String(model.architecture);
  json->EndArray().Field("parameter_size", ParameterText(model.parameters));
  json->Field("quantization_level", LevelOf(model)).EndObject();
}

void WriteName(const api::ModelInfo& model, const std::string& name, uint64_t bytes,
               JsonWriter* json) {
  json->Field("name", name).Field("model", name).Field("size", bytes);
  json->Field("digest", Sha256Hex(model.name + "@" + model.revision));
  WriteDetails(model, json);
}

std::string ModifiedAt(const api::ModelInfo& model) {
  return Rfc3339(std::chrono::system_clock::time_point(std::chrono::seconds(model.created_unix_s)));
}

// When it is unloaded if it is not used before; of one that stays, in a hundred years.
std::string ExpiresAt(const api::ModelInfo& model) {
  constexpr double kForeverS = 100.0 * 365 * 86400;
  const std::chrono::duration<double> left(model.unload_in_s < 0 ? kForeverS : model.unload_in_s);
  return Rfc3339(std::chrono::system_clock::now() +
                 std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
}

// What pickers of Ollama's clients can use. A model whose task is not known yet is listed.
bool IsListed(const api::ModelInfo& model) {
  return model.task.empty() || model.task == api::kGenerationTask || model.task == "embedding";
}

// The name without its owner and without what stands behind a colon.
std::string BaseName(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  return std::string(name.substr(0, name.find(':')));
}

}  // namespace

std::string PrintOllamaTags(const std::vector<api::ModelInfo>& models) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("models").BeginArray();
  for (const api::ModelInfo& model : models) {
    if (!IsListed(model)) continue;
    std::vector<std::string> names = {model.name};
    names.insert(names.end(), model.aliases.begin(), model.aliases.end());
    for (const std::string& name : names) {
      json.BeginObject();
      WriteName(model, name, static_cast<uint64_t>(model.weight_bytes), &json);
      json.Field("modified_at", ModifiedAt(model)).EndObject();
    }
  }
  json.EndArray().EndObject();
  return out;
}

std::string PrintOllamaLoadedModels(const std::vector<api::ModelInfo>& models) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("models").BeginArray();
  for (const api::ModelInfo& model : models) {
    if (model.state != "ready" && model.state != "parked") continue;
    json.BeginObject();
    WriteName(model, model.name,
              model.weights_memory + model.activations_memory + model.cache_memory, &json);
    json.Field("size_vram", 0).Field("expires_at", ExpiresAt(model));
    if (model.context > 0) json.Field("context_length", model.context);
    WriteModelState(model, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

std::string PrintOllamaShow(const api::ModelInfo& model) {
  const std::string& family = model.architecture;
  // A line for each parameter, its value in a column of its own, as Ollama's clients read it.
  const std::string parameters =
      model.context > 0 ? fmt::format("{:<30} {}", "num_ctx", model.context) : "";
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("license", "").Field("modelfile", "").Field("parameters", parameters);
  json.Field("template", model.chat_template);
  WriteDetails(model, &json);
  json.Key("model_info").BeginObject().Field("general.architecture", family);
  json.Field("general.basename", BaseName(model.name));
  json.Field("general.parameter_count", model.parameters);
  if (!family.empty()) {
    json.Field(family + ".context_length", model.context > 0 ? model.context : model.max_tokens);
    json.Field(family + ".embedding_length",
               model.dimensions > 0 ? model.dimensions : model.hidden_size);
  }
  json.EndObject().Key("capabilities").BeginArray();
  if (model.task == api::kGenerationTask) {
    json.String("completion");
    // As Ollama tells it of a model: its template has a place for them.
    if (reply::TakesTools(model.chat_template)) json.String("tools");
    if (reply::TakesThinking(model.chat_template)) json.String("thinking");
  } else {
    json.String(model.task == "embedding" ? "embedding" : model.task);
  }
  json.EndArray().Field("modified_at", ModifiedAt(model)).EndObject();
  return out;
}

}  // namespace penstock::dialects

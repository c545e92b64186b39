#include "families/sentence_transformers_reader.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "families/config_reader.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

constexpr size_t kModulesMax = 32;
constexpr size_t kPromptsMax = 1024;
constexpr int64_t kFeaturesMax = 1 << 20;
constexpr int64_t kTokensMax = 1 << 24;

// Reads `file` of the model folder and hands its object to `read`; messages name the file.
template <typename Read>
Status WithFile(const std::string& folder, const std::string& file, Read&& read) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const JsonDocument document,
      JsonDocument::ParseFile((fs::path(folder) / file).string(), ModelFolder::kConfigBytesMax));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate(file);
  const Status status = read(*object);
  return status.ok() ? status : status.Annotate(file);
}

Status UnsupportedValue(const JsonObject& object, std::string_view key, const std::string& value) {
  const std::string name = object.PathOf(key);
  return Status::Unsupported("'" + name + "': '" + Shown(value) + "' is not supported", name);
}

// A string setting that may only be absent or one of `allowed`.
Status ExpectOneOf(const JsonObject& object, std::string_view key,
                   std::initializer_list<std::string_view> allowed) {
  if (!object.Has(key)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string value, object.GetString(key));
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return Status::Ok();
  return UnsupportedValue(object, key, value);
}

// ---- 1_Pooling/config.json

std::optional<PoolingMode> PoolingNamed(std::string_view name) {
  for (const PoolingMode mode :
       {PoolingMode::kCls, PoolingMode::kMean, PoolingMode::kMax, PoolingMode::kLastToken,
        PoolingMode::kMeanSqrtLen, PoolingMode::kWeightedMean}) {
    if (name == PoolingModeName(mode)) return mode;
  }
  return std::nullopt;
}

// Newer: "pooling_mode": "mean", or a list of one.
Status ReadPoolingMode(const JsonObject& config, std::vector<std::string>* modes) {
  const auto value = config.Find("pooling_mode");
  if (!value) return Status::Ok();
  if (value->is_array()) {
    PENSTOCK_ASSIGN_OR_RETURN(*modes, config.GetStringsOrEmpty("pooling_mode", 16));
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string mode, config.GetString("pooling_mode"));
  modes->push_back(mode);
  return Status::Ok();
}

// Older: a boolean for each mode; of several the results stand in this order.
Status ReadPoolingFlags(const JsonObject& config, std::vector<std::string>* modes) {
  constexpr std::pair<std::string_view, PoolingMode> kFlags[] = {
      {"pooling_mode_cls_token", PoolingMode::kCls},
      {"pooling_mode_max_tokens", PoolingMode::kMax},
      {"pooling_mode_mean_tokens", PoolingMode::kMean},
      {"pooling_mode_mean_sqrt_len_tokens", PoolingMode::kMeanSqrtLen},
      {"pooling_mode_weightedmean_tokens", PoolingMode::kWeightedMean},
      {"pooling_mode_lasttoken", PoolingMode::kLastToken},
  };
  for (const auto& [key, mode] : kFlags) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool set, config.GetBoolOr(key, false));
    if (set) modes->push_back(PoolingModeName(mode));
  }
  Status status;
  config.ForEach([&](std::string_view key, JsonElement) {
    if (!status.ok() || !key.starts_with("pooling_mode_")) return;
    const bool known = std::any_of(std::begin(kFlags), std::end(kFlags),
                                   [&](const auto& flag) { return flag.first == key; });
    if (known) return;
    const auto set = config.GetBoolOr(key, false);
    if (!set.ok()) {
      status = set.status();
    } else if (*set) {
      status = Status::Unsupported(std::string("'") + std::string(key) + "' is not supported",
                                   std::string(key));
    }
  });
  return status;
}

Status ReadPooling(const JsonObject& config, ModelFolder* out) {
  std::vector<std::string> modes;
  PENSTOCK_RETURN_IF_ERROR(ReadPoolingMode(config, &modes));
  if (!config.Has("pooling_mode")) PENSTOCK_RETURN_IF_ERROR(ReadPoolingFlags(config, &modes));
  if (modes.empty()) {
    return Status::InvalidArgument("names no pooling mode", "pooling_mode");
  }
  for (const std::string& name : modes) {
    const auto mode = PoolingNamed(name);
    if (!mode) return UnsupportedValue(config, "pooling_mode", name);
    if (&name == &modes[0]) {
      out->pooling = *mode;
    } else {
      out->more_pooling.push_back(*mode);
    }
  }
  out->pooling_declared = true;
  PENSTOCK_ASSIGN_OR_RETURN(out->include_prompt, config.GetBoolOr("include_prompt", true));
  for (const std::string_view key : {"embedding_dimension", "word_embedding_dimension"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t size,
                              config.GetIntOr(key, out->encoder.hidden_size, 1, kFeaturesMax));
    if (size != out->encoder.hidden_size) {
      return Status::InvalidArgument(std::string("'") + std::string(key) + "' is " +
                                         std::to_string(size) + ", the encoder's hidden size is " +
                                         std::to_string(out->encoder.hidden_size),
                                     std::string(key));
    }
  }
  return Status::Ok();
}

// ---- N_Dense/config.json, N_Normalize/config.json

Expected<HiddenActivation> DenseActivation(const JsonObject& config) {
  constexpr std::string_view kKey = "activation_function";
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name,
                            config.GetStringOr(kKey, "torch.nn.modules.activation.Tanh"));
  if (name.starts_with("torch.nn.")) {
    constexpr std::pair<std::string_view, HiddenActivation> kNames[] = {
        {"Tanh", HiddenActivation::kTanh},         {"ReLU", HiddenActivation::kRelu},
        {"GELU", HiddenActivation::kGelu},         {"SiLU", HiddenActivation::kSilu},
        {"Identity", HiddenActivation::kIdentity},
    };
    const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
    for (const auto& [known, activation] : kNames) {
      if (last == known) return activation;
    }
  }
  return UnsupportedValue(config, kKey, name);
}

Status ReadDense(const std::string& folder, const JsonObject& config, ModelFolder* out) {
  PENSTOCK_RETURN_IF_ERROR(ExpectOneOf(config, "module_input_name", {"sentence_embedding"}));
  PENSTOCK_RETURN_IF_ERROR(ExpectOneOf(config, "module_output_name", {"sentence_embedding"}));
  PENSTOCK_ASSIGN_OR_RETURN(const bool residual, config.GetBoolOr("use_residual", false));
  if (residual) return UnsupportedValue(config, "use_residual", "true");
  DenseModule dense;
  dense.folder = folder;
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t in, config.GetInt("in_features", 1, kFeaturesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t features, config.GetInt("out_features", 1, kFeaturesMax));
  PENSTOCK_ASSIGN_OR_RETURN(dense.bias, config.GetBoolOr("bias", true));
  PENSTOCK_ASSIGN_OR_RETURN(dense.activation, DenseActivation(config));
  dense.in_features = static_cast<int32_t>(in);
  dense.out_features = static_cast<int32_t>(features);
  const int32_t before =
      out->dense.empty()
          ? out->encoder.hidden_size * (1 + static_cast<int32_t>(out->more_pooling.size()))
          : out->dense.back().out_features;
  if (dense.in_features != before) {
    return Status::InvalidArgument("'in_features' is " + std::to_string(dense.in_features) +
                                       ", what comes in has " + std::to_string(before),
                                   "in_features");
  }
  out->dense.push_back(std::move(dense));
  return Status::Ok();
}

Status ReadNormalize(const JsonObject& config, ModelFolder* /*out*/) {
  PENSTOCK_RETURN_IF_ERROR(ExpectOneOf(config, "module_input_name", {"sentence_embedding"}));
  return ExpectOneOf(config, "module_output_name", {"sentence_embedding"});
}

// ---- N_LogitScore/config.json

Status ReadLogitScore(const JsonObject& config, ModelFolder* out) {
  PENSTOCK_RETURN_IF_ERROR(ExpectOneOf(config, "module_input_name", {"causal_logits"}));
  LogitScore& score = out->logit_score.emplace();
  const int64_t last = std::max(out->encoder.vocab_size - 1, 0);
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t yes, config.GetInt("true_token_id", 0, last));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t no, config.GetIntOr("false_token_id", -1, -1, last));
  score.true_id = static_cast<int32_t>(yes);
  score.false_id = static_cast<int32_t>(no);
  return Status::Ok();
}

// ---- modules.json

struct Module {
  std::string kind;  // "Transformer", "Pooling", "Dense", "Normalize", "Dropout", "LogitScore"
  std::string folder;
};

Expected<Module> ReadModule(const JsonObject& entry) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, entry.GetString("type"));
  Module module;
  PENSTOCK_ASSIGN_OR_RETURN(module.folder, entry.GetStringOr("path", ""));
  module.kind = type.substr(type.rfind('.') + 1);
  constexpr std::string_view kKinds[] = {"Transformer", "Pooling", "Dense",
                                         "Normalize",   "Dropout", "LogitScore"};
  if (!type.starts_with("sentence_transformers.") ||
      std::find(std::begin(kKinds), std::end(kKinds), module.kind) == std::end(kKinds)) {
    return Status::Unsupported("module '" + Shown(type) + "' is not supported",
                               entry.PathOf("type"));
  }
  for (const fs::path& part : fs::path(module.folder)) {
    if (part == ".." || part.is_absolute()) {
      return Status::InvalidArgument(std::string("'") + entry.PathOf("path") +
                                         "' must stay inside the model folder: '" +
                                         Shown(module.folder) + "'",
                                     entry.PathOf("path"));
    }
  }
  return module;
}

Expected<std::vector<Module>> ReadModules(const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile((fs::path(folder) / "modules.json").string(),
                                                    ModelFolder::kConfigBytesMax));
  std::vector<Module> modules;
  JsonArray entries;
  if (!document.root().Get(&entries)) {
    return Status::InvalidArgument("must be an array of modules");
  }
  for (const JsonElement item : entries) {
    const std::string path = std::string("[") + std::to_string(modules.size()) + "]";
    JsonObject object;
    if (!item.Get(&object)) {
      return Status::InvalidArgument("'" + path + "' must be an object", path);
    }
    if (modules.size() == kModulesMax) {
      return Status::InvalidArgument("more than " + std::to_string(kModulesMax) + " modules");
    }
    PENSTOCK_ASSIGN_OR_RETURN(Module module, ReadModule(JsonObject(object, path)));
    modules.push_back(std::move(module));
  }
  if (modules.empty() || modules[0].kind != "Transformer") {
    return Status::Unsupported("the first module must be a Transformer");
  }
  if (!modules[0].folder.empty() && modules[0].folder != ".") {
    return Status::Unsupported("a Transformer in a folder of its own ('" +
                               Shown(modules[0].folder) + "') is not supported");
  }
  return modules;
}

// Pooling, then dense layers, then normalise: the only order implemented.
Status ApplyModule(const Module& module, ModelFolder* out) {
  const std::string file = module.folder.empty() ? "config.json" : module.folder + "/config.json";
  const auto out_of_order = [&] {
    return Status::Unsupported("modules.json: " + module.kind +
                               " at this place is not supported; the order must be Transformer, "
                               "Pooling, Dense, Normalize");
  };
  if (module.kind == "Pooling") {
    if (out->pooling_declared) return out_of_order();
    return WithFile(out->path, file, [&](const JsonObject& c) { return ReadPooling(c, out); });
  }
  if (module.kind == "Dropout") return Status::Ok();  // does nothing when a model is only run
  if (module.kind == "LogitScore") {
    if (!out->decoder || out->pooling_declared || out->logit_score) return out_of_order();
    return WithFile(out->path, file, [&](const JsonObject& c) { return ReadLogitScore(c, out); });
  }
  if (!out->pooling_declared || out->normalize) return out_of_order();
  if (module.kind == "Dense") {
    return WithFile(out->path, file,
                    [&](const JsonObject& c) { return ReadDense(module.folder, c, out); });
  }
  if (module.kind == "Normalize") {
    out->normalize = true;
    if (module.folder.empty() || !PathExists((fs::path(out->path) / file).string())) {
      return Status::Ok();
    }
    return WithFile(out->path, file, [&](const JsonObject& c) { return ReadNormalize(c, out); });
  }
  return out_of_order();
}

Status ReadHead(ModelFolder* out) {
  const fs::path root(out->path);
  if (PathExists((root / "modules.json").string())) {
    const auto modules = ReadModules(out->path);
    if (!modules.ok()) return modules.status().Annotate("modules.json");
    for (size_t i = 1; i < modules->size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(ApplyModule((*modules)[i], out));
    }
    return Status::Ok();
  }
  // Some folders have the pooling without the list of modules; its meaning is clear.
  if (PathExists((root / "1_Pooling" / "config.json").string())) {
    return ApplyModule({"Pooling", "1_Pooling"}, out);
  }
  return Status::Ok();
}

// ---- sentence_bert_config.json

// processing_kwargs.{text,common}: arguments of the tokenizer. Accepts only the length, and
// arguments that cannot change the ids.
Status ReadProcessing(const JsonObject& config, SentenceTransformersSettings* settings) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject processing,
                            config.GetObjectOrEmpty("processing_kwargs"));
  for (const std::string_view group : {"common", "text"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject arguments, processing.GetObjectOrEmpty(group));
    Status status;
    arguments.ForEach([&](std::string_view key, JsonElement value) {
      constexpr std::string_view kHarmless[] = {"padding", "pad_to_multiple_of", "return_tensors",
                                                "max_length"};
      if (std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless)) return;
      bool truth = false;
      if (key == "truncation" && value.Get(&truth) && truth) return;
      const std::string name = arguments.PathOf(Shown(key));
      status = Status::Unsupported("'" + name + "' is not supported", name);
    });
    PENSTOCK_RETURN_IF_ERROR(status);
    if (arguments.Has("max_length")) {
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t tokens,
                                arguments.GetInt("max_length", 1, kTokensMax));
      settings->tokens_max = static_cast<int32_t>(tokens);
    }
  }
  return Status::Ok();
}

Status ReadModality(const JsonObject& config) {
  PENSTOCK_RETURN_IF_ERROR(
      ExpectOneOf(config, "transformer_task",
                  {"feature-extraction", "sequence-classification", "text-generation"}));
  PENSTOCK_RETURN_IF_ERROR(
      ExpectOneOf(config, "module_output_name", {"token_embeddings", "scores", "causal_logits"}));
  if (!config.Has("modality_config")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject modality, config.GetObject("modality_config"));
  if (!modality.Has("text")) {
    return Status::Unsupported("'modality_config' has no text", "modality_config");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject text, modality.GetObject("text"));
  PENSTOCK_RETURN_IF_ERROR(ExpectOneOf(text, "method", {"forward"}));
  return ExpectOneOf(text, "method_output_name", {"last_hidden_state", "logits"});
}

Status ReadTransformerConfig(const JsonObject& config, ModelFolder* out,
                             SentenceTransformersSettings* settings) {
  if (config.Has("max_seq_length")) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t tokens, config.GetInt("max_seq_length", 1, kTokensMax));
    settings->tokens_max = static_cast<int32_t>(tokens);
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->do_lower_case, config.GetBoolOr("do_lower_case", false));
  PENSTOCK_RETURN_IF_ERROR(ReadModality(config));
  PENSTOCK_RETURN_IF_ERROR(ReadProcessing(config, settings));
  for (const std::string_view key : {"query_length", "document_length", "query_expansion"}) {
    if (config.Has(key)) {
      return Status::Unsupported(
          std::string("'") + std::string(key) + "' (multi-vector) is not supported",
          std::string(key));
    }
  }
  // Overrides of config.json and of the tokenizer's settings.
  for (const std::string_view key :
       {"config_args", "config_kwargs", "tokenizer_args", "processor_kwargs"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject overrides, config.GetObjectOrEmpty(key));
    Status status;
    overrides.ForEach([&](std::string_view name, JsonElement) {
      if (name == "trust_remote_code" || name == "model_max_length") return;
      const std::string path = overrides.PathOf(Shown(name));
      status = Status::Unsupported("'" + path + "' is not supported", path);
    });
    PENSTOCK_RETURN_IF_ERROR(status);
    if (overrides.Has("model_max_length")) {
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t tokens,
                                overrides.GetInt("model_max_length", 1, kTokensMax));
      settings->tokens_max = static_cast<int32_t>(tokens);
    }
  }
  return Status::Ok();
}

// ---- config_sentence_transformers.json

Status ReadModelConfig(const JsonObject& config, ModelFolder* out,
                       SentenceTransformersSettings* settings) {
  PENSTOCK_RETURN_IF_ERROR(
      ExpectOneOf(config, "model_type", {"SentenceTransformer", "CrossEncoder"}));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, config.GetStringOr("model_type", ""));
  settings->cross_encoder = type == "CrossEncoder";

  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject prompts, config.GetObjectOrEmpty("prompts"));
  Status status;
  prompts.ForEach([&](std::string_view name, JsonElement value) {
    std::string_view text;
    if (!value.Get(&text) && !value.is_null()) {
      const std::string path = prompts.PathOf(Shown(name));
      status = Status::InvalidArgument("'" + path + "' must be a string, is " + JsonTypeName(value),
                                       path);
    } else if (out->prompts.size() == kPromptsMax) {
      status = Status::InvalidArgument(
          "'prompts' has more than " + std::to_string(kPromptsMax) + " entries", "prompts");
    } else {
      out->prompts.emplace(name, text);
    }
  });
  PENSTOCK_RETURN_IF_ERROR(status);
  PENSTOCK_ASSIGN_OR_RETURN(out->default_prompt_name,
                            config.GetStringOr("default_prompt_name", ""));
  if (!out->default_prompt_name.empty() && !out->prompts.contains(out->default_prompt_name)) {
    return Status::InvalidArgument("'default_prompt_name' is '" + Shown(out->default_prompt_name) +
                                       "', which is not among 'prompts'",
                                   "default_prompt_name");
  }
  PENSTOCK_RETURN_IF_ERROR(
      ExpectOneOf(config, "similarity_fn_name", {"cosine", "dot", "euclidean", "manhattan"}));
  PENSTOCK_ASSIGN_OR_RETURN(out->similarity, config.GetStringOr("similarity_fn_name", "cosine"));
  // An activation in config.json comes first.
  std::string& activation = out->encoder.cross_encoder_activation;
  if (settings->cross_encoder && activation.empty() && config.Has("activation_fn")) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, config.GetString("activation_fn"));
    PENSTOCK_ASSIGN_OR_RETURN(activation, CrossEncoderActivationNamed(name));
  }
  return Status::Ok();
}

}  // namespace

Expected<SentenceTransformersSettings> ReadSentenceTransformers(ModelFolder* out) {
  PENSTOCK_ASSIGN_OR_RETURN(SentenceTransformersSettings settings, ReadTextSettings(out));
  PENSTOCK_RETURN_IF_ERROR(ReadHead(out));
  return settings;
}

Expected<SentenceTransformersSettings> ReadTextSettings(ModelFolder* out) {
  SentenceTransformersSettings settings;
  const fs::path root(out->path);
  if (PathExists((root / "config_sentence_transformers.json").string())) {
    PENSTOCK_RETURN_IF_ERROR(
        WithFile(out->path, "config_sentence_transformers.json",
                 [&](const JsonObject& c) { return ReadModelConfig(c, out, &settings); }));
  }
  // The file was once named after the architecture; the first that exists counts.
  for (const char* file : {"sentence_bert_config.json", "sentence_roberta_config.json",
                           "sentence_distilbert_config.json", "sentence_camembert_config.json",
                           "sentence_xlm-roberta_config.json"}) {
    if (!PathExists((root / file).string())) continue;
    PENSTOCK_RETURN_IF_ERROR(WithFile(out->path, file, [&](const JsonObject& c) {
      return ReadTransformerConfig(c, out, &settings);
    }));
    break;
  }
  return settings;
}

}  // namespace penstock::families

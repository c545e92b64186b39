#include "families/model_folder.h"

#include <algorithm>
#include <filesystem>

#include "base/printable.h"
#include "families/config_reader.h"
#include "families/decoder_folder.h"
#include "families/gguf_encoder.h"
#include "families/onnx_folder.h"
#include "families/sentence_transformers_reader.h"
#include "files/gguf.h"
#include "files/gguf_files.h"
#include "files/mapped_file.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

Status ReadConfig(const fs::path& root, ModelFolder* folder) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const JsonDocument document,
      JsonDocument::ParseFile((root / "config.json").string(), ModelFolder::kConfigBytesMax));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate("config.json");
  if (DecoderEmbeds(folder->path, *object)) {
    const Status status = ReadDecoderFolder(*object, folder);
    return status.ok() ? status : status.Annotate("config.json");
  }
  folder->onnx = FindOnnxEncoder(folder->path, *object);
  auto encoder = folder->onnx.empty() ? ReadEncoderConfig(*object) : ReadOnnxEncoderConfig(*object);
  if (!encoder.ok()) return encoder.status().Annotate("config.json");
  folder->encoder = *std::move(encoder);
  return Status::Ok();
}

// By the architecture; a folder with its own pooling embeds, whatever head its weights had.
Expected<ModelTask> TaskOf(const ModelFolder& folder, bool cross_encoder) {
  const EncoderConfig& encoder = folder.encoder;
  const std::string name = encoder.architectures.empty() ? "" : encoder.architectures[0];
  if (folder.pooling_declared) {
    if (cross_encoder) {
      return Status::Unsupported("a CrossEncoder with a pooling module is not supported",
                                 "modules.json");
    }
    return ModelTask::kEmbedding;
  }
  if (encoder.num_labels > 0) {
    return encoder.num_labels == 1 ? ModelTask::kReranking : ModelTask::kClassification;
  }
  if (cross_encoder) {
    return Status::Unsupported(
        "a CrossEncoder must be a ...ForSequenceClassification, is '" + Shown(name) + "'",
        "architectures");
  }
  if (name.empty() || name.ends_with("Model") || name.ends_with("ForMaskedLM") ||
      name.ends_with("ForPreTraining")) {
    return ModelTask::kEmbedding;
  }
  return Status::Unsupported("config.json: architecture '" + Shown(name) + "' is not supported",
                             "architectures");
}

// model_max_length of tokenizer_config.json; files without a limit hold 10^30 or nothing.
Expected<int32_t> TokenizerLimit(const fs::path& root, int32_t positions) {
  const std::string path = (root / "tokenizer_config.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return positions;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, ModelFolder::kConfigBytesMax));
  auto object = document.Object();
  if (!object.ok()) return object.status().Annotate("tokenizer_config.json");
  auto tokens = object->GetNumberOr("model_max_length", positions, 1);
  if (!tokens.ok()) return tokens.status().Annotate("tokenizer_config.json");
  return static_cast<int32_t>(std::min<double>(*tokens, positions));
}

Expected<std::string> FindTokenizer(const fs::path& root) {
  std::error_code ignored;
  if (fs::exists(root / "tokenizer.json", ignored)) return (root / "tokenizer.json").string();
  const bool other = fs::exists(root / "vocab.txt", ignored) ||
                     fs::exists(root / "vocab.json", ignored) ||
                     fs::exists(root / "sentencepiece.bpe.model", ignored) ||
                     fs::exists(root / "spiece.model", ignored);
  const std::string why = other ? "; only the slow tokenizer's files are there: save it once "
                                  "with AutoTokenizer.from_pretrained(...).save_pretrained(...)"
                                : "";
  return Status(other ? StatusCode::kUnsupported : StatusCode::kNotFound,
                root.string() + " has no tokenizer.json" + why);
}

// Tells by the first bytes. False for a file that cannot be read: opening it later says why.
bool IsGguf(const std::string& path) {
  const auto file = files::MappedFile::Open(path);
  return file.ok() && file->text().starts_with("GGUF");
}

}  // namespace

const char* ModelTaskName(ModelTask task) {
  switch (task) {
    case ModelTask::kEmbedding:
      return "embedding";
    case ModelTask::kReranking:
      return "reranking";
    case ModelTask::kClassification:
      return "classification";
  }
  return "?";
}

const char* PoolingModeName(PoolingMode mode) {
  switch (mode) {
    case PoolingMode::kCls:
      return "cls";
    case PoolingMode::kMean:
      return "mean";
    case PoolingMode::kMax:
      return "max";
    case PoolingMode::kLastToken:
      return "lasttoken";
    case PoolingMode::kMeanSqrtLen:
      return "mean_sqrt_len_tokens";
    case PoolingMode::kWeightedMean:
      return "weightedmean";
  }
  return "?";
}

Expected<ModelFolder> ModelFolder::Read(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Status::NotFound("no model folder at " + path);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string gguf, files::FindGguf(path));
  if (!gguf.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const files::GgufModel model, files::GgufModel::Open(gguf));
    return DecoderEmbeds(gguf, model.metadata) ? ReadDecoderGgufFolder(gguf)
                                               : ReadGgufEncoder(gguf);
  }
  const fs::path root(path);
  ModelFolder folder;
  folder.path = path;
  const Status config = ReadConfig(root, &folder);
  if (!config.ok()) return config.Annotate(path);

  const auto settings = ReadSentenceTransformers(&folder);
  if (!settings.ok()) return settings.status().Annotate(path);
  if (folder.decoder) {
    const Status finished = FinishDecoderFolder(&folder);
    if (!finished.ok()) return finished.Annotate(path);
  }
  const auto task = TaskOf(folder, settings->cross_encoder);
  if (!task.ok()) return task.status().Annotate(path);
  folder.task = *task;
  if (folder.task == ModelTask::kEmbedding) folder.encoder.num_labels = 0;

  const int32_t positions = PositionsUsable(folder.encoder);
  if (settings->tokens_max) {
    folder.max_tokens = std::min(*settings->tokens_max, positions);
  } else {
    const auto limit = TokenizerLimit(root, positions);
    if (!limit.ok()) return limit.status().Annotate(path);
    folder.max_tokens = *limit;
  }

  const auto tokenizer = FindTokenizer(root);
  if (!tokenizer.ok()) return tokenizer.status();
  folder.tokenizer_path = *tokenizer;
  return folder;
}

Expected<ModelFolder> ModelFolder::ReadForTokenizer(const std::string& path) {
  constexpr int32_t kUnlimited = 1 << 30;
  ModelFolder folder;
  folder.max_tokens = kUnlimited;
  std::error_code ignored;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string file, files::FindGguf(path, {"tokenizer.json"}));
  if (!file.empty()) {
    if (fs::is_directory(path, ignored) || IsGguf(file)) return ReadGgufForTokenizer(file);
    folder.path = fs::path(path).parent_path().string();
    folder.tokenizer_path = path;
    return folder;
  }
  folder.path = path;
  PENSTOCK_ASSIGN_OR_RETURN(folder.tokenizer_path, FindTokenizer(path));
  const auto settings = ReadTextSettings(&folder);
  if (!settings.ok()) return settings.status().Annotate(path);
  auto limit = TokenizerLimit(path, kUnlimited);
  if (!limit.ok()) return limit.status().Annotate(path);
  folder.max_tokens = settings->tokens_max.value_or(*limit);
  return folder;
}

}  // namespace penstock::families

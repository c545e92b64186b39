#include "families/onnx_folder.h"

#include <filesystem>

#include "families/config_reader.h"
#include "families/encoder_json.h"
#include "families/list.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

// Where the folder does not say how long a text may be: what nearly every encoder takes.
constexpr int32_t kPositionsAbsent = 512;

bool Has(const fs::path& folder, const char* file) {
  std::error_code ignored;
  return fs::exists(folder / file, ignored);
}

}  // namespace

std::string FindOnnxEncoder(const std::string& path, const JsonObject& config) {
  const fs::path folder(path);
  const auto type = config.GetString("model_type");
  if (!type.ok() || DecoderOfModelType(*type) != nullptr || !Has(folder, "tokenizer.json")) {
    return "";
  }
  const bool weights =
      Has(folder, "model.safetensors") || Has(folder, "model.safetensors.index.json");
  if (EncoderOfModelType(*type) != nullptr && weights) return "";
  for (const char* file : {"model.onnx", "onnx/model.onnx"}) {
    if (Has(folder, file)) return (folder / file).string();
  }
  return "";
}

Expected<EncoderConfig> ReadOnnxEncoderConfig(const JsonObject& config) {
  EncoderConfig out;
  PENSTOCK_ASSIGN_OR_RETURN(out.model_type, config.GetString("model_type"));
  PENSTOCK_ASSIGN_OR_RETURN(out.architectures, config.GetStringsOrEmpty("architectures", 64));
  PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(config, {"is_decoder", "is_encoder_decoder"}));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t vocabulary,
                            config.GetInt("vocab_size", 1, kEncoderVocabularyMax));
  out.vocab_size = static_cast<int32_t>(vocabulary);
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"hidden_size", "dim", "d_model", "n_embd"}, 0, 0,
                                   kEncoderHiddenMax, &out.hidden_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"max_position_embeddings", "n_positions"},
                                   kPositionsAbsent, 1, kEncoderPositionsMax,
                                   &out.max_position_embeddings));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"type_vocab_size"}, 0, 0, kEncoderVocabularyMax, &out.type_vocab_size));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"pad_token_id"}, 0, -1, out.vocab_size - 1, &out.pad_token_id));
  if (PositionsUsable(out) < 1) {
    return Status::InvalidArgument("'max_position_embeddings' leaves no position for a token",
                                   "max_position_embeddings");
  }
  PENSTOCK_RETURN_IF_ERROR(ReadClassifier(config, &out));
  return out;
}

}  // namespace penstock::families

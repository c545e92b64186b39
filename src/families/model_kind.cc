#include "families/model_kind.h"

#include <filesystem>
#include <string_view>

#include "families/decoder_files.h"
#include "families/decoder_folder.h"
#include "families/list.h"
#include "families/model_folder.h"
#include "families/onnx_folder.h"
#include "files/gguf.h"
#include "files/gguf_files.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

Status Unknown(const std::string& what, std::string_view name, const std::string& field,
               const std::string& encoders, const std::string& decoders) {
  return Status::Unsupported(what + " '" + std::string(name.substr(0, 64)) +
                                 "' is not supported; supported are the encoders " + encoders +
                                 " and the decoders " + decoders,
                             field);
}

Expected<ModelKind> KindOfGguf(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufModel model, files::GgufModel::Open(path));
  const auto name = model.metadata.GetString("general.architecture");
  if (!name.ok()) return name.status().Annotate(path);
  if (DecoderEmbeds(path, model.metadata)) return ModelKind::kEncoder;
  if (DecoderOfGguf(*name) != nullptr) return ModelKind::kDecoder;
  if (EncoderOfGguf(*name) != nullptr) return ModelKind::kEncoder;
  return Unknown(path + ": key 'general.architecture':", *name, "general.architecture",
                 EncoderGgufNames(), DecoderGgufNames());
}

Expected<ModelKind> KindOfFolder(const fs::path& folder) {
  const std::string config = (folder / "config.json").string();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(config, ModelFolder::kConfigBytesMax));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate(config);
  const auto type = object->GetString("model_type");
  if (!type.ok()) return type.status().Annotate(config);
  std::error_code ignored;
  if (EncoderOfModelType(*type) != nullptr || fs::exists(folder / "modules.json", ignored) ||
      DecoderEmbeds(folder.string(), *object) ||
      !FindOnnxEncoder(folder.string(), *object).empty()) {
    return ModelKind::kEncoder;
  }
  if (DecoderOfModelType(*type) != nullptr) return ModelKind::kDecoder;
  return Unknown(config + ": 'model_type':", *type, "model_type", EncoderModelTypes(),
                 DecoderModelTypes());
}

}  // namespace

Expected<ModelKind> KindOfModel(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string gguf, files::FindGguf(path));
  return gguf.empty() ? KindOfFolder(path) : KindOfGguf(gguf);
}

}  // namespace penstock::families

#include "families/decoder_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/regular_file.h"
#include "families/decoder_readers.h"
#include "families/model_folder.h"
#include "files/gguf_files.h"
#include "json/json.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

// ---- A Hugging Face folder

Expected<JsonDocument> ParseIn(const fs::path& folder, const char* file) {
  return JsonDocument::ParseFile((folder / file).string(), ModelFolder::kConfigBytesMax);
}

// The ends that generation_config.json names take the place of those of config.json.
Status ReadGenerationEnds(const std::string& path, DecoderConfig* config) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, ModelFolder::kConfigBytesMax));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate("generation_config.json");
  std::vector<int32_t> ids;
  const Status read = ReadEndIds(*object, -1, config->vocab_size, &ids);
  if (!read.ok()) return read.Annotate("generation_config.json");
  if (!ids.empty()) config->end_ids = std::move(ids);
  return Status::Ok();
}

Status OpenFolder(const std::string& path, DecoderUse use, DecoderFiles* files) {
  const fs::path folder(path);
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, ParseIn(folder, "config.json"));
  const auto object = document.Object();
  if (!object.ok()) return object.status().Annotate("config.json");
  auto reading = ReadDecoderJson(*object, use);
  if (!reading.ok()) return reading.status().Annotate("config.json");
  files->config = std::move(reading->config);
  if (const fs::path generation = folder / "generation_config.json"; PathExists(generation)) {
    files->generation_config_path = generation.string();
    PENSTOCK_RETURN_IF_ERROR(ReadGenerationEnds(files->generation_config_path, &files->config));
  }
  PENSTOCK_ASSIGN_OR_RETURN(files->chat_templates, ChatTemplates::OfFolder(path));
  PENSTOCK_ASSIGN_OR_RETURN(files->special_tokens, SpecialTokenTexts::OfFolder(path));
  if (PathExists(folder / "tokenizer.json")) {
    files->tokenizer = TokenizerSource{(folder / "tokenizer.json").string()};
  }
  PENSTOCK_ASSIGN_OR_RETURN(files->store, files::TensorStore::OpenFolder(path));
  return FindDecoderTensors(reading->wiring, files);
}

// ---- GGUF

Status OpenGguf(const std::string& path, DecoderUse use, DecoderFiles* files) {
  PENSTOCK_ASSIGN_OR_RETURN(files->store, files::TensorStore::OpenGguf(path));
  const files::GgufMetadata& metadata = files->store->gguf()->metadata;
  PENSTOCK_ASSIGN_OR_RETURN(DecoderReading reading, ReadDecoderGguf(*files->store, use));
  files->config = std::move(reading.config);
  PENSTOCK_ASSIGN_OR_RETURN(files->sampling, ReadSamplingKeys(metadata));
  PENSTOCK_ASSIGN_OR_RETURN(files->chat_templates, ChatTemplates::OfGguf(metadata));
  if (metadata.Has("tokenizer.ggml.tokens")) files->tokenizer = TokenizerSource{path, &metadata};
  return FindDecoderTensors(reading.wiring, files);
}

}  // namespace

Expected<DecoderFiles> DecoderFiles::Open(const std::string& path, DecoderUse use) {
  DecoderFiles files;
  files.path = path;
  files.use = use;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string gguf, files::FindGguf(path));
  const Status opened = gguf.empty() ? OpenFolder(path, use, &files) : OpenGguf(gguf, use, &files);
  if (!opened.ok()) {
    // Some messages begin with the path already.
    return opened.message().starts_with(path) ? opened
                                              : opened.Annotate(gguf.empty() ? path : gguf);
  }
  PENSTOCK_RETURN_IF_ERROR(files.store->Check());
  if (const std::string* text = files.chat_templates.Choose({}, false)) files.chat_template = *text;
  std::vector<int32_t>& ends = files.config.end_ids;
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return files;
}

std::vector<StoredType> TypesInFiles(const files::TensorStore& store) {
  std::map<numbers::DType, StoredType> by_type;
  for (const files::TensorRecord& tensor : store.tensors()) {
    StoredType& type = by_type[tensor.dtype];
    type.dtype = tensor.dtype;
    ++type.tensors;
    type.elements += tensor.elements();
    type.bytes += static_cast<int64_t>(tensor.data.size());
  }
  std::vector<StoredType> types;
  for (const auto& [dtype, type] : by_type) types.push_back(type);
  std::stable_sort(types.begin(), types.end(),
                   [](const StoredType& a, const StoredType& b) { return a.bytes > b.bytes; });
  return types;
}

}  // namespace penstock::families

#include "engine/file_facts.h"

#include "engine/model_templates.h"
#include "families/decoder_files.h"
#include "families/gguf_encoder.h"
#include "families/model_folder.h"
#include "families/model_kind.h"
#include "hub/cache.h"

namespace penstock::engine {
namespace {

int64_t ElementsOf(const files::TensorStore& store) {
  int64_t elements = 0;
  for (const families::StoredType& type : families::TypesInFiles(store)) elements += type.elements;
  return elements;
}

Expected<FileFacts> DecoderFacts(const std::string& path, const std::string& chat_template) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files, families::DecoderFiles::Open(path));
  FileFacts facts;
  facts.generates = true;
  facts.architecture = files.config.architecture;
  facts.max_tokens = files.config.context;
  facts.hidden_size = files.config.hidden_size;
  facts.parameters = files.parameters;
  facts.weight_bytes = static_cast<int64_t>(files.store->bytes_total());
  const auto templates = ModelTemplates::Make(files.chat_templates, chat_template, path);
  if (!templates.ok()) return facts;  // the load says why
  const Expected<chat::ChatTemplate>& chat = templates->For(/*has_tools=*/false);
  facts.chat = chat.ok();
  if (chat.ok()) facts.chat_template = chat->source();
  return facts;
}

Expected<FileFacts> EncoderFacts(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelFolder folder, families::ModelFolder::Read(path));
  FileFacts facts;
  facts.architecture = folder.encoder.model_type;
  facts.max_tokens = folder.max_tokens;
  facts.hidden_size = folder.encoder.hidden_size;
  if (folder.decoder) {
    PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files,
                              families::DecoderFiles::Open(path, families::DecoderUse::kEmbed));
    facts.parameters = files.parameters;
    facts.weight_bytes = static_cast<int64_t>(files.store->bytes_total());
  } else if (folder.onnx.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto store, families::OpenEncoderTensors(folder.path));
    facts.parameters = ElementsOf(*store);
    facts.weight_bytes = static_cast<int64_t>(store->bytes_total());
  }
  return facts;
}

}  // namespace

Expected<FileFacts> ReadFileFacts(const std::string& path, const std::string& chat_template) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelKind kind, families::KindOfModel(path));
  PENSTOCK_ASSIGN_OR_RETURN(FileFacts facts, kind == families::ModelKind::kDecoder
                                                 ? DecoderFacts(path, chat_template)
                                                 : EncoderFacts(path));
  facts.path = path;
  facts.revision = hub::CommitOfPath(path);
  return facts;
}

}  // namespace penstock::engine

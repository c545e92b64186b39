#include "families/decoder_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/regular_file.h"
#include "families/chat_template_files.h"
#include "families/config_reader.h"
#include "families/decoder_readers.h"
#include "families/list.h"
#include "files/gguf.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

bool NamesReranker(const fs::path& part) {
  std::string name = part.filename().string();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("reranker") != std::string::npos;
}

// Whether the folder is called a reranker, or the file or its folder; or the repository, in the
// hub's cache: "models--OWNER--NAME/snapshots/COMMIT/...". Other folders above say nothing.
bool ModelNamesReranker(const fs::path& path) {
  if (NamesReranker(path)) return true;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) && NamesReranker(path.parent_path())) return true;
  for (fs::path part = path; part.has_relative_path(); part = part.parent_path()) {
    if (part.filename() != "snapshots") continue;
    const fs::path repository = part.parent_path();
    if (repository.filename().string().starts_with("models--")) return NamesReranker(repository);
  }
  return false;
}

// As the path is written, and where links lead: the hub's cache links to files without a name.
bool IsNamedReranker(const std::string& path) {
  std::error_code ignored;
  fs::path written = fs::absolute(path, ignored).lexically_normal();
  if (!written.has_filename()) written = written.parent_path();
  return ModelNamesReranker(written) || ModelNamesReranker(fs::weakly_canonical(written, ignored));
}

std::string FirstArchitecture(const JsonObject& config) {
  const auto names = config.GetStringsOrEmpty("architectures", 64);
  return names.ok() && !names->empty() ? (*names)[0] : "";
}

// What Qwen3-Reranker was trained to read, and how it answers.
PairTemplate Qwen3PairTemplate() {
  return {
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
      "and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
      "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
      "answer the query\n<Query>: ",
      "\n<Document>: ", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"};
}

LogitScore YesOrNo() {
  LogitScore score;
  score.true_token = "yes";
  score.false_token = "no";
  return score;
}

bool HasPairRoles(std::string_view chat_template) {
  const auto has = [&](std::string_view role) {
    return chat_template.find('"' + std::string(role) + '"') != std::string_view::npos ||
           chat_template.find('\'' + std::string(role) + '\'') != std::string_view::npos;
  };
  return has("query") && has("document");
}

// A text with {query} and {document}, as llama.cpp has it.
Expected<PairTemplate> ParsePairTemplate(std::string_view text) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  const size_t query = text.find(kQuery);
  const size_t document = text.find(kDocument);
  if (query == std::string_view::npos || document == std::string_view::npos || document < query) {
    return Status::Unsupported("the template for reranking must have {query} and then {document}",
                               "tokenizer.chat_template.rerank");
  }
  PairTemplate pair;
  pair.before_query = text.substr(0, query);
  const size_t behind = query + kQuery.size();
  pair.before_document = text.substr(behind, document - behind);
  pair.after_document = text.substr(document + kDocument.size());
  return pair;
}

void CopyConfig(const DecoderConfig& from, EncoderConfig* to) {
  to->vocab_size = from.vocab_size;
  to->hidden_size = from.hidden_size;
  to->num_hidden_layers = static_cast<int32_t>(from.layers.size());
  to->num_attention_heads = from.heads;
  to->intermediate_size = from.intermediate_size;
  to->max_position_embeddings = from.context;
}

// add_eos_token of tokenizer_config.json: classes of tokenizers in Python read it, tokenizer.json
// may have it or not.
Status ReadEndToken(const fs::path& root, ModelFolder* folder) {
  const fs::path path = root / "tokenizer_config.json";
  if (!PathExists(path)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path.string(), ModelFolder::kConfigBytesMax));
  const auto read = [&]() -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
    PENSTOCK_ASSIGN_OR_RETURN(const bool add, object.GetBoolOr("add_eos_token", false));
    const auto token = object.Find("eos_token");
    if (!add || !token) return Status::Ok();
    if (token->is_object()) {
      PENSTOCK_ASSIGN_OR_RETURN(const JsonObject entry, object.GetObject("eos_token"));
      PENSTOCK_ASSIGN_OR_RETURN(folder->end_token, entry.GetString("content"));
      return Status::Ok();
    }
    PENSTOCK_ASSIGN_OR_RETURN(folder->end_token, object.GetString("eos_token"));
    return Status::Ok();
  };
  const Status status = read();
  return status.ok() ? status : status.Annotate("tokenizer_config.json");
}

Status ReadPooling(const files::GgufMetadata& metadata, const std::string& key,
                   ModelFolder* folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t type, metadata.GetIntOr(key, 0, 0, 4));
  folder->pooling_declared = type >= 1 && type <= 3;
  folder->pooling = type == 1   ? PoolingMode::kMean
                    : type == 2 ? PoolingMode::kCls
                                : PoolingMode::kLastToken;
  if (type != 4) return Status::Ok();
  folder->task = ModelTask::kReranking;
  folder->encoder.num_labels = 1;
  folder->normalize = false;
  folder->logit_score = YesOrNo();
  PENSTOCK_ASSIGN_OR_RETURN(const ChatTemplates templates, ChatTemplates::OfGguf(metadata));
  const auto found = templates.by_name.find("rerank");
  if (found == templates.by_name.end()) {
    folder->pair_template = Qwen3PairTemplate();
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(folder->pair_template, ParsePairTemplate(found->second));
  return Status::Ok();
}

}  // namespace

bool DecoderEmbeds(const std::string& path, const JsonObject& config) {
  const auto type = config.GetString("model_type");
  const DecoderFamily* const family = type.ok() ? DecoderOfModelType(*type) : nullptr;
  if (family == nullptr) return false;
  return PathExists(fs::path(path) / "modules.json") ||
         FirstArchitecture(config).ends_with(kClassifierSuffix) ||
         (family->reranks_by_name && IsNamedReranker(path));
}

bool DecoderEmbeds(const std::string& path, const files::GgufMetadata& metadata) {
  const auto name = metadata.GetString("general.architecture");
  const DecoderFamily* const family = name.ok() ? DecoderOfGguf(*name) : nullptr;
  if (family == nullptr) return false;
  const auto type = metadata.GetInt(std::string(*name) + ".pooling_type", 1, 4);
  return type.ok() || (family->reranks_by_name && IsNamedReranker(path));
}

Status ReadDecoderFolder(const JsonObject& config, ModelFolder* folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const DecoderReading reading,
                            ReadDecoderJson(config, DecoderUse::kEmbed));
  folder->decoder = true;
  EncoderConfig& encoder = folder->encoder;
  PENSTOCK_ASSIGN_OR_RETURN(encoder.model_type, config.GetString("model_type"));
  PENSTOCK_ASSIGN_OR_RETURN(encoder.architectures, config.GetStringsOrEmpty("architectures", 64));
  CopyConfig(reading.config, &encoder);
  return ReadClassifier(config, &encoder);
}

Status FinishDecoderFolder(ModelFolder* folder) {
  const fs::path root(folder->path);
  PENSTOCK_RETURN_IF_ERROR(ReadEndToken(root, folder));
  if (folder->pooling_declared) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const ChatTemplates templates, ChatTemplates::OfFolder(folder->path));
  const std::string* const chat = templates.Choose("", false);
  if (chat != nullptr && HasPairRoles(*chat)) {
    folder->pair_chat_template = *chat;
    const auto prompt = folder->prompts.find(folder->default_prompt_name);
    if (prompt != folder->prompts.end()) folder->instruction = prompt->second;
  }
  EncoderConfig& encoder = folder->encoder;
  if (folder->logit_score) {
    encoder.num_labels = 1;
    if (!folder->pair_chat_template.empty()) return Status::Ok();
    return Status::Unsupported(
        "a decoder that reranks needs a chat template for messages of the roles query and document",
        "chat_template");
  }
  const DecoderFamily* const family = DecoderOfModelType(encoder.model_type);
  if (!family->reranks_by_name || !IsNamedReranker(folder->path)) return Status::Ok();
  if (folder->pair_chat_template.empty()) folder->pair_template = Qwen3PairTemplate();
  if (encoder.num_labels > 0) return Status::Ok();
  encoder.num_labels = 1;
  folder->logit_score = YesOrNo();
  return Status::Ok();
}

Expected<ModelFolder> ReadDecoderGgufFolder(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto store, files::TensorStore::OpenGguf(path));
  const files::GgufMetadata& metadata = store->gguf()->metadata;
  ModelFolder folder;
  folder.path = folder.tokenizer_path = path;
  folder.decoder = true;
  folder.normalize = true;
  const auto read = [&]() -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(const DecoderReading reading,
                              ReadDecoderGguf(*store, DecoderUse::kEmbed));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string_view name,
                              metadata.GetString("general.architecture"));
    folder.encoder.model_type = name;
    CopyConfig(reading.config, &folder.encoder);
    folder.max_tokens = reading.config.context;
    const std::string key = std::string(name) + ".pooling_type";
    if (metadata.Has(key)) return ReadPooling(metadata, key, &folder);
    folder.task = ModelTask::kReranking;
    folder.encoder.num_labels = 1;
    folder.normalize = false;
    folder.logit_score = YesOrNo();
    folder.pair_template = Qwen3PairTemplate();
    return Status::Ok();
  };
  const Status status = read();
  PENSTOCK_RETURN_IF_ERROR(store->Check());
  if (!status.ok()) return status.Annotate(path);
  return folder;
}

}  // namespace penstock::families

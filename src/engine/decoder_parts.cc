#include "engine/decoder_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat_template.h"
#include "engine/decoder_runner.h"
#include "engine/suffix_tokenizer.h"
#include "families/decoder_files.h"
#include "generate/text_model.h"
#include "log/log.h"
#include "models/embedding_decoder.h"

namespace penstock::engine {
namespace {

// Stand for the texts of a pair where its template is rendered once.
constexpr std::string_view kQueryPlace = "PENSTOCK-PLACE-OF-THE-QUERY";
constexpr std::string_view kDocumentPlace = "PENSTOCK-PLACE-OF-THE-DOCUMENT";

Status TokenOf(const text::Tokenizer& tokenizer, const std::string& text, int32_t* id) {
  if (text.empty()) return Status::Ok();
  *id = tokenizer.TokenToId(text);
  if (*id >= 0) return Status::Ok();
  return Status::Unsupported(
      "the model reranks by the token '" + text + "', which the tokenizer does not have",
      "tokenizer");
}

chat::JsonValue Message(std::string_view role, std::string_view content) {
  chat::JsonValue message = chat::JsonValue::Object();
  message.Set("role", chat::JsonValue(std::string(role)));
  message.Set("content", chat::JsonValue(std::string(content)));
  return message;
}

// The chat template's text around a query and a document.
Expected<families::PairTemplate> RenderPair(const families::ModelFolder& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const chat::ChatTemplate chat,
                            chat::ChatTemplate::Parse(folder.pair_chat_template));
  chat::ChatInput input;
  chat::JsonValue::Array messages;
  if (!folder.instruction.empty()) messages.push_back(Message("system", folder.instruction));
  messages.push_back(Message("query", kQueryPlace));
  messages.push_back(Message("document", kDocumentPlace));
  input.messages = std::move(messages);
  input.add_generation_prompt = folder.logit_score.has_value();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, chat.Render(input));
  const size_t query = text.find(kQueryPlace);
  const size_t document = text.find(kDocumentPlace);
  if (query == std::string::npos || document == std::string::npos || document < query ||
      query != text.rfind(kQueryPlace) || document != text.rfind(kDocumentPlace)) {
    return Status::Unsupported(
        "the chat template must have the query once, and after it the document once",
        "chat_template");
  }
  const size_t behind = query + kQueryPlace.size();
  return families::PairTemplate{text.substr(0, query), text.substr(behind, document - behind),
                                text.substr(document + kDocumentPlace.size())};
}

// Tokens behind every text, or every pair.
Expected<std::vector<int32_t>> SuffixOf(const families::ModelFolder& folder,
                                        const text::Tokenizer& tokenizer) {
  std::vector<int32_t> suffix;
  if (folder.pair_template) {
    PENSTOCK_RETURN_IF_ERROR(tokenizer.EncodeText(folder.pair_template->after_document, &suffix));
    // Else it depends on the document how the text between them is cut into tokens.
    if (suffix.empty() || tokenizer.IsSpecial(suffix[0])) return suffix;
    return Status::Unsupported(
        "what follows the document in the template for reranking must begin with a special token",
        "chat_template");
  }
  if (folder.end_token.empty()) return suffix;
  int32_t end = -1;
  PENSTOCK_RETURN_IF_ERROR(TokenOf(tokenizer, folder.end_token, &end));
  text::Encoding none;
  PENSTOCK_RETURN_IF_ERROR(tokenizer.Combine({}, nullptr, {}, &none));
  if (none.ids.empty() || none.ids.back() != end) suffix.push_back(end);
  return suffix;
}

Status LoadTokenizer(EncoderParts* parts) {
  families::ModelFolder& folder = parts->folder;
  PENSTOCK_ASSIGN_OR_RETURN(parts->tokenizer, text::Tokenizer::FromFile(folder.tokenizer_path));
  const text::Tokenizer& tokenizer = *parts->tokenizer;
  if (folder.logit_score) {
    families::LogitScore& score = *folder.logit_score;
    PENSTOCK_RETURN_IF_ERROR(TokenOf(tokenizer, score.true_token, &score.true_id));
    PENSTOCK_RETURN_IF_ERROR(TokenOf(tokenizer, score.false_token, &score.false_id));
  }
  if (!folder.pair_chat_template.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(folder.pair_template, RenderPair(folder));
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> suffix, SuffixOf(folder, tokenizer));
  if (suffix.empty() && !folder.pair_template) return Status::Ok();
  const bool own_template = !folder.pair_template.has_value();
  parts->tokenizer = std::make_unique<SuffixTokenizer>(std::move(parts->tokenizer),
                                                       std::move(suffix), own_template);
  return Status::Ok();
}

}  // namespace

Status LoadDecoderParts(const EncoderEngineOptions& options, program::Backend* backend,
                        EncoderParts* parts) {
  const families::ModelFolder& folder = parts->folder;
  if (!options.int8_keep.empty()) {
    return Status::InvalidArgument("--int8-keep is for encoders; this model is a decoder",
                                   "int8-keep");
  }
  const Status loaded = LoadTokenizer(parts);
  if (!loaded.ok()) return loaded.Annotate(folder.path);
  PENSTOCK_ASSIGN_OR_RETURN(
      const families::DecoderFiles files,
      families::DecoderFiles::Open(folder.path, families::DecoderUse::kEmbed));
  generate::TextModelOptions memory;
  memory.dtype = options.dtype;
  memory.cache_type =
      options.dtype == numbers::DType::kF32 ? numbers::DType::kF32 : numbers::DType::kBf16;
  memory.memory_bytes = options.granted.weights + options.granted.cache;
  PENSTOCK_ASSIGN_OR_RETURN(const int32_t context,
                            generate::ChooseContext(files, memory, *backend));
  models::DecoderOptions decoder;
  decoder.dtype = options.dtype;
  decoder.context = std::min(context, folder.max_tokens);
  PENSTOCK_ASSIGN_OR_RETURN(auto model,
                            models::EmbeddingDecoder::Load(folder, files, backend, decoder));
  parts->dtype = program::LayerDType(model->decoder().program());
  parts->hidden_size = model->hidden_size();
  parts->embedding_size = model->embedding_size();
  parts->num_labels = model->num_labels();
  parts->max_tokens = model->max_tokens();
  parts->parameters = model->parameters();
  parts->weight_bytes = model->weight_bytes();
  const numbers::DType cache =
      parts->dtype == numbers::DType::kF32 ? numbers::DType::kF32 : numbers::DType::kBf16;
  const int64_t value_bytes = cache == numbers::DType::kF32 ? 4 : 2;
  parts->cache_bytes =
      static_cast<uint64_t>(options.replicas) *
      static_cast<uint64_t>(DecoderRunner::kCachedBytesMax +
                            decoder.context * families::KvBytesPerToken(files.config, value_bytes));
  const std::shared_ptr<const models::EmbeddingDecoder> shared = std::move(model);
  parts->linear_checker = [shared, path = folder.path, cache,
                           backend]() -> Expected<program::KernelDifference> {
    PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles stored,
                              families::DecoderFiles::Open(path, families::DecoderUse::kEmbed));
    return checks::CheckDecoderLinear(shared->decoder(), stored, cache, backend);
  };
  for (int32_t i = 0; i < options.replicas; ++i) {
    parts->runners.push_back(std::make_unique<DecoderRunner>(shared, backend, cache));
  }
  return Status::Ok();
}

}  // namespace penstock::engine

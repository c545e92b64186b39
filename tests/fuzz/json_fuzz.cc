// A request's body: JSON in and out, and the parsers of every API. The whole input is the body.
#include <cmath>
#include <string>

#include "dialects/anthropic/messages.h"
#include "dialects/cohere/cohere.h"
#include "dialects/llama/llama.h"
#include "dialects/ollama/ollama.h"
#include "dialects/openai/chat.h"
#include "dialects/openai/openai.h"
#include "dialects/openai/responses.h"
#include "dialects/penstock/bulk.h"
#include "dialects/penstock/classify.h"
#include "dialects/rerank/rerank.h"
#include "dialects/shared/errors.h"
#include "dialects/shared/fields.h"
#include "dialects/tei/tei.h"
#include "dialects/tgi/tgi.h"
#include "fuzz_util.h"
#include "json/json.h"
#include "serving/error_body.h"

namespace penstock {
namespace {

void Write(JsonElement value, JsonWriter* json) {
  JsonObject object;
  JsonArray array;
  std::string_view text;
  int64_t integer = 0;
  uint64_t natural = 0;
  double number = 0;
  bool truth = false;
  if (value.Get(&object)) {
    json->BeginObject();
    for (const auto& [key, of] : object) {
      json->Key(key);
      Write(of, json);
    }
    json->EndObject();
  } else if (value.Get(&array)) {
    json->BeginArray();
    for (const JsonElement item : array) Write(item, json);
    json->EndArray();
  } else if (value.Get(&text)) {
    json->String(text);
  } else if (value.Get(&integer)) {
    json->Int(integer);
  } else if (value.Get(&natural)) {
    json->Uint(natural);
  } else if (value.Get(&number)) {
    json->Double(number);
  } else if (value.Get(&truth)) {
    json->Bool(truth);
  } else {
    json->Null();
  }
}

std::string Print(JsonElement value) {
  std::string out;
  JsonWriter json(&out);
  Write(value, &json);
  return out;
}

// Printed JSON parses and prints the same again.
void CheckRoundTrip(const JsonDocument& document) {
  const std::string printed = Print(document.root());
  const auto again = JsonDocument::Parse(printed);
  PENSTOCK_CHECK(again.ok());
  PENSTOCK_CHECK(Print(again->root()) == printed);
}

void CheckGetters(const JsonObject& object) {
  object.ForEach([&](std::string_view key, JsonElement) {
    if (const auto number = object.GetInt(key, -5, 100'000); number.ok()) {
      PENSTOCK_CHECK(*number >= -5 && *number <= 100'000);
    }
    if (const auto number = object.GetNumber(key, 0, 1); number.ok()) {
      PENSTOCK_CHECK(*number >= 0 && *number <= 1);
    }
    if (const auto text = object.GetString(key, 16); text.ok()) PENSTOCK_CHECK(text->size() <= 16);
    if (const auto array = object.GetArray(key, 4); array.ok()) {
      PENSTOCK_CHECK(array->size() <= 4);
    }
    (void)object.GetBool(key).ok();
    (void)object.GetStringsOrEmpty(key, 8).ok();
    (void)object.GetStringMapOrEmpty(key).ok();
    if (const auto inner = object.GetObject(key); inner.ok()) CheckGetters(*inner);
  });
}

// An error has a message, and every ErrorBody prints it as JSON.
void CheckError(const Status& status) {
  PENSTOCK_CHECK(!status.ok() && !status.message().empty());
  const Status renamed =
      frontend::WithWireNames(status, {{"inputs", "input"}, {"source", "inputs.source"}});
  for (const serving::ErrorBody error_body :
       {dialects::kOpenAiErrors, dialects::kRerankErrors, dialects::kTeiErrors,
        dialects::kOllamaErrors, dialects::kAnthropicErrors}) {
    const http::HttpResponse response = serving::PrintError(error_body, renamed, "id");
    PENSTOCK_CHECK(response.status >= 400);
    PENSTOCK_CHECK(JsonDocument::Parse(response.body).ok());
  }
}

template <typename T>
bool Parsed(const Expected<T>& call) {
  if (!call.ok()) CheckError(call.status());
  return call.ok();
}

void CheckText(const api::TextOptions& text) {
  if (text.prompt) PENSTOCK_CHECK(text.prompt->size() <= dialects::kPromptBytesMax);
  if (text.prompt_name) PENSTOCK_CHECK(text.prompt_name->size() <= api::kNameBytesMax);
}

void CheckInputs(const std::vector<api::Input>& inputs) {
  for (const api::Input& input : inputs) {
    PENSTOCK_CHECK(input.is_ids ? input.text.empty() : input.ids.empty());
    for (const int32_t id : input.ids) PENSTOCK_CHECK(id >= 0);
  }
}

void CheckTextRequest(const api::TextRequest& request) {
  PENSTOCK_CHECK(request.samples >= 1 && request.samples <= api::TextRequest::kSamplesMax);
  PENSTOCK_CHECK(request.sampling.With({}).Check(std::numeric_limits<int32_t>::max()).ok());
  for (const api::GeneratePrompt& prompt : request.prompts) {
    if (const auto* const chat = std::get_if<api::ChatPrompt>(&prompt.value)) {
      PENSTOCK_CHECK(chat->messages.array() != nullptr && !chat->messages.array()->empty());
      PENSTOCK_CHECK(chat->messages.Print().starts_with("[{"));
    }
  }
}

void CheckDialects(std::string_view body) {
  if (const auto call = dialects::ParseChatCall(body); Parsed(call)) {
    PENSTOCK_CHECK(call->request.prompts.size() == 1);
    CheckTextRequest(call->request);
  }
  // An empty array of prompts is refused by the service, as it refuses empty inputs of each kind.
  if (const auto call = dialects::ParseCompletionCall(body); Parsed(call))
    CheckTextRequest(call->request);
  Parsed(dialects::ParseApplyTemplate(body));
  if (const auto call = dialects::ParseEmbeddingsCall(body); Parsed(call)) {
    PENSTOCK_CHECK(call->request.model.size() <= api::kNameBytesMax);
    CheckInputs(call->request.inputs);
    CheckText(call->request.text);
  }
  Parsed(dialects::ParseClassifyCall(body));
  Parsed(dialects::ParseBulkCall(body));
  const auto parsed = dialects::RequestBody::Parse(body);
  if (!Parsed(parsed)) return;
  const JsonObject& object = parsed->object();
  Parsed(dialects::ParseRerankCall(object));
  if (const auto call = dialects::ParseTeiEmbed(object); Parsed(call)) {
    CheckInputs(call->inputs);
    CheckText(call->text);
  }
  for (const bool streams : {false, true}) {
    if (const auto call = dialects::ParseTgiCall(object, streams); Parsed(call)) {
      CheckTextRequest(call->request);
    }
  }
  if (const auto call = dialects::ParseOllamaGenerate(object); Parsed(call))
    CheckTextRequest(call->request);
  if (const auto call = dialects::ParseOllamaChat(object); Parsed(call))
    CheckTextRequest(call->request);
  if (const auto call = dialects::ParseCohereChat(object); Parsed(call))
    CheckTextRequest(call->request);
  if (const auto call = dialects::ParseMessagesCall(object); Parsed(call))
    CheckTextRequest(call->request);
  if (const auto call = dialects::ParseResponsesCall(object); Parsed(call)) {
    CheckTextRequest(call->request);
    for (const auto& [key, value] : call->echo) PENSTOCK_CHECK(JsonDocument::Parse(value).ok());
  }
  Parsed(dialects::ParseCountTokens(object));
  Parsed(dialects::ParseInputTokens(object));
  if (const auto call = dialects::ParseLlamaInfill(object); Parsed(call))
    CheckTextRequest(call->request);
  const api::ServiceOptions limits;
  if (const auto call = dialects::ParseOllamaEmbed(object, limits); Parsed(call)) {
    CheckInputs(call->request.inputs);
  }
  if (const auto call = dialects::ParseOllamaEmbeddings(object); Parsed(call)) {
    CheckInputs(call->request.inputs);
  }
  for (const int version : {1, 2}) {
    const auto call = dialects::ParseCohereEmbed(object, version, limits);
    if (!Parsed(call)) continue;
    CheckInputs(call->request.inputs);
    for (const dialects::EmbeddingFormat& type : call->types) PENSTOCK_CHECK(type.range > 0);
  }
  Parsed(dialects::ParseTeiRerank(object));
  Parsed(dialects::ParseTeiPredict(object));
  Parsed(dialects::ParseTeiSimilarity(object));
  Parsed(dialects::ParseTeiTokenize(object));
  Parsed(dialects::ParseTeiDecode(object));
  for (const char* task : {"embedding", "reranking", "classification"}) {
    (void)dialects::ChooseTeiRootTask(object, task);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  std::string quoted;
  AppendJsonString(body, &quoted);
  PENSTOCK_CHECK(JsonDocument::Parse(quoted).ok());
  if (const auto document = JsonDocument::Parse(body); document.ok()) {
    CheckRoundTrip(*document);
    if (const auto object = document->Object(); object.ok()) CheckGetters(*object);
  }
  CheckDialects(body);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateJson)

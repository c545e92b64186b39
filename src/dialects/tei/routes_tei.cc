// The routes of text-embeddings-inference.
#include "api/tei_rules.h"
#include "dialects/llama/llama.h"
#include "dialects/rerank/rerank.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/embed_lines.h"
#include "dialects/shared/query.h"
#include "dialects/shared/rows.h"
#include "dialects/tei/tei.h"
#include "dialects/tgi/tgi.h"
#include "dialects/vllm/vllm.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::PrintError;
using serving::Route;
using serving::RouteCall;

void Embed(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiEmbed(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  if (!parsed->normalize) parsed->normalize = api::kTeiNormalize;
  if (WantsLines(*call.request)) return AnswerInLines(call, *std::move(parsed), {}, {});
  call.service->Embed(*std::move(parsed), call.request->context,
                      Answer<api::EmbedResponse>(call, {}, PrintTeiEmbed));
}

void EmbedAll(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiEmbed(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->EmbedAll(*std::move(parsed), call.request->context,
                         Answer<api::EmbedAllResponse>(call, {}, PrintTeiEmbedAll));
}

// TEI answers 424 where the model has no sparse head.
void EmbedSparse(const RouteCall& call) {
  call.respond.Send(PrintError(call.route->error_body, 424, api::TeiNoSparse(), call.request->id));
}

void Predict(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiPredict(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  const bool single = parsed->single;
  call.service->Classify(
      std::move(parsed->request), call.request->context,
      Answer<api::ClassifyResponse>(call, {}, [single](const api::ClassifyResponse& response) {
        return PrintTeiPredict(response, single);
      }));
}

void Similarity(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiSimilarity(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Similarity(
      *std::move(parsed), call.request->context,
      Answer<api::SimilarityResponse>(
          call, {{"source", "inputs.source_sentence"}, {"sentences", "inputs.sentences"}},
          PrintTeiSimilarity));
}

// As vLLM has it: {"prompt"}.
void TokenizePrompt(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseVllmTokenize(object);
  if (!parsed.ok()) return call.Fail(parsed.status());
  const auto model = call.service->Model(parsed->request.model);
  if (!model.ok()) return call.Fail(model.status());
  call.service->Tokenize(
      std::move(parsed->request), call.request->context,
      Answer<api::TokenizeResponse>(call, {{"inputs[0]", "prompt"}, {"inputs", "prompt"}},
                                    [tokens_max = model->max_tokens,
                                     texts = parsed->texts](const api::TokenizeResponse& response) {
                                      return PrintVllmTokens(response, tokens_max, texts);
                                    }));
}

// As llama.cpp's server has it: {"content"}.
void TokenizeContent(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseLlamaTokenize(object);
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Tokenize(
      *std::move(parsed), call.request->context,
      Answer<api::TokenizeResponse>(call, {{"inputs[0]", "content"}, {"inputs", "content"}},
                                    PrintLlamaTokens));
}

void Tokenize(const RouteCall& call, const JsonObject& object) {
  if (!object.Has("inputs")) {
    if (object.Has("content")) return TokenizeContent(call, object);
    if (object.Has("prompt") || object.Has("messages")) return TokenizePrompt(call, object);
  }
  auto parsed = ParseTeiTokenize(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Tokenize(*std::move(parsed), call.request->context,
                         Answer<api::TokenizeResponse>(call, {}, PrintTeiTokenize));
}

void Decode(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiDecode(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Decode(*std::move(parsed), call.request->context,
                       Answer<api::DecodeResponse>(call, {{"inputs", "ids"}}, PrintTeiDecode));
}

void Info(const RouteCall& call) {
  const auto model = call.service->Model(QueryValue(call.request->target, "model"));
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintTeiInfo(*model, call.service->Models(), call.service->options()));
}

// InferenceClient and other clients of TEI and TGI post to the address alone. What is asked for is
// told by the model that is named, by fields that one task alone has, or by the first model.
void Root(const RouteCall& call, const JsonObject& object) {
  const auto name = GetName(object, "model");
  if (!name.ok()) return call.Fail(name.status());
  if (name->empty() && AsksTgi(object) && call.service->TextModel("").ok()) {
    return AnswerTgi(call, object, false);
  }
  const auto model = call.service->Model(*name);
  if (!model.ok()) return call.Fail(model.status());
  if (model->task == api::kGenerationTask) return AnswerTgi(call, object, false);
  switch (ChooseTeiRootTask(object, model->task)) {
    case TeiRootTask::kEmbed:
      return Embed(call, object);
    case TeiRootTask::kSimilarity:
      return Similarity(call, object);
    case TeiRootTask::kRerank:
      return AnswerRerank(call, object);
    case TeiRootTask::kPredict:
      return Predict(call, object);
  }
}

constexpr Route kTeiRoutes[] = {
    {"POST", "/", kTeiErrors, WithObject<Root>,
     About("What the first model is for: /embed, /similarity, /rerank or /predict", "RootRequest",
           "RootAnswer")},
    {"POST", "/invocations", kTeiErrors, WithObject<Root>,
     About("The same, under SageMaker's name", "RootRequest", "RootAnswer")},
    {"POST", "/embed", kTeiErrors, WithObject<Embed>,
     About("Embeddings, as text-embeddings-inference has them", "TeiEmbedRequest", "TeiEmbeddings")
         .Lines("EmbeddingLine")},
    {"POST", "/embed_all", kTeiErrors, WithObject<EmbedAll>,
     About("An embedding of each token", "TeiEmbedAllRequest", "TeiTokenEmbeddings")},
    {"POST", "/embed_sparse", kTeiErrors, EmbedSparse,
     About("Always 424: no sparse model is served", "TeiEmbedRequest", "TeiError", nullptr, 424)},
    {"POST", "/predict", kTeiErrors, WithObject<Predict>,
     About("Labels of a text, of a pair or of several", "TeiPredictRequest", "TeiPredictions")},
    {"POST", "/similarity", kTeiErrors, WithObject<Similarity>,
     About("How similar sentences are to one", "TeiSimilarityRequest", "TeiSimilarities")},
    {"POST", "/tokenize", kTeiErrors, WithObject<Tokenize>,
     About("The tokens of texts, as text-embeddings-inference (\"inputs\"), llama.cpp's server "
           "(\"content\") and vLLM (\"prompt\") have it",
           "AnyTokenizeRequest", "AnyTokens")},
    {"POST", "/decode", kTeiErrors, WithObject<Decode>,
     About("The texts of token ids", "TeiDecodeRequest", "TeiTexts")},
    {"GET", "/info", kTeiErrors, Info,
     About("The models and the limits", nullptr, "Info").Query("Model")},
};

}  // namespace

std::span<const serving::Route> TeiRoutes() { return kTeiRoutes; }

}  // namespace penstock::dialects

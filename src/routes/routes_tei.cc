// The routes of text-embeddings-inference.
#include "api/tei_rules.h"
#include "routes/embed_lines.h"
#include "routes/routes.h"
#include "routes/tei.h"

namespace penstock {
namespace {

void Embed(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiEmbed(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  if (!parsed->normalize) parsed->normalize = kTeiNormalize;
  if (WantsLines(*call.request)) return AnswerInLines(call, *std::move(parsed), false, {});
  call.service->Embed(*std::move(parsed), call.request->context,
                      Answer<EmbedResponse>(call, {}, PrintTeiEmbed));
}

void EmbedAll(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiEmbed(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->EmbedAll(*std::move(parsed), call.request->context,
                         Answer<EmbedAllResponse>(call, {}, PrintTeiEmbedAll));
}

// TEI answers 424 where the model has no sparse head.
void EmbedSparse(const RouteCall& call) {
  call.respond.Send(PrintError(call.route->error_body, 424, TeiNoSparse(), call.request->id));
}

void Rerank(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiRerank(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  std::shared_ptr<const std::vector<std::string>> texts;
  if (parsed->return_text) {
    texts = std::make_shared<const std::vector<std::string>>(parsed->request.documents);
  }
  call.service->Rerank(
      std::move(parsed->request), call.request->context,
      Answer<RerankResponse>(
          call, {{"documents", "texts"}},
          [texts](const RerankResponse& response) { return PrintTeiRerank(response, texts.get()); },
          texts != nullptr ? call.body.size() : 0));
}

void Predict(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiPredict(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  const bool single = parsed->single;
  call.service->Classify(
      std::move(parsed->request), call.request->context,
      Answer<ClassifyResponse>(call, {}, [single](const ClassifyResponse& response) {
        return PrintTeiPredict(response, single);
      }));
}

void Similarity(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiSimilarity(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Similarity(
      *std::move(parsed), call.request->context,
      Answer<SimilarityResponse>(
          call, {{"source", "inputs.source_sentence"}, {"sentences", "inputs.sentences"}},
          PrintTeiSimilarity));
}

void Tokenize(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiTokenize(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Tokenize(*std::move(parsed), call.request->context,
                         Answer<TokenizeResponse>(call, {}, PrintTeiTokenize));
}

void Decode(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiDecode(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Decode(*std::move(parsed), call.request->context,
                       Answer<DecodeResponse>(call, {{"inputs", "ids"}}, PrintTeiDecode));
}

// "model=NAME" of the query picks one of several models.
std::string ModelOfQuery(std::string_view target) {
  const size_t query = target.find('?');
  if (query == std::string_view::npos) return "";
  std::string_view rest = target.substr(query + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find('&'));
    std::string name;
    if (item.starts_with("model=") && PercentDecode(item.substr(6), &name)) return name;
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  }
  return "";
}

void Info(const RouteCall& call) {
  const auto model = call.service->Model(ModelOfQuery(call.request->target));
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintTeiInfo(*model, call.service->Models(), call.service->options()));
}

// InferenceClient and other clients of TEI post to the address alone.
void Root(const RouteCall& call, const JsonObject& object) {
  const auto model = call.service->Model("");
  if (!model.ok()) return call.Fail(model.status());
  if (model->task == kGenerationTask) return AnswerTgi(call, object, false);
  switch (ChooseTeiRootTask(object, model->task)) {
    case TeiRootTask::kEmbed:
      return Embed(call, object);
    case TeiRootTask::kSimilarity:
      return Similarity(call, object);
    case TeiRootTask::kRerank:
      return Rerank(call, object);
    case TeiRootTask::kPredict:
      return Predict(call, object);
  }
}

// Parses the body, once, for a handler.
template <void (*kHandle)(const RouteCall& call, const JsonObject& object)>
void WithObject(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  kHandle(call, body->object());
}

constexpr Route kRoutes[] = {
    {"POST", "/", ErrorBody::kTei, WithObject<Root>},
    {"POST", "/embed", ErrorBody::kTei, WithObject<Embed>, RouteFor::kUsers, true},
    {"POST", "/embed_all", ErrorBody::kTei, WithObject<EmbedAll>},
    {"POST", "/embed_sparse", ErrorBody::kTei, EmbedSparse},
    {"POST", "/rerank", ErrorBody::kTei, WithObject<Rerank>},
    {"POST", "/predict", ErrorBody::kTei, WithObject<Predict>},
    {"POST", "/similarity", ErrorBody::kTei, WithObject<Similarity>},
    {"POST", "/tokenize", ErrorBody::kTei, WithObject<Tokenize>},
    {"POST", "/decode", ErrorBody::kTei, WithObject<Decode>},
    {"GET", "/info", ErrorBody::kTei, Info},
};

}  // namespace

std::span<const Route> TeiRoutes() { return kRoutes; }

}  // namespace penstock

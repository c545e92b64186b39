// Reranking: Jina's, Cohere's and Voyage's form ("documents"), and that of
// text-embeddings-inference ("texts").
#include "dialects/rerank/rerank.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"
#include "dialects/tei/tei.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

void Rerank(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseRerankCall(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  std::shared_ptr<const std::vector<std::string>> documents;
  if (parsed->return_documents) {
    documents = std::make_shared<const std::vector<std::string>>(parsed->request.documents);
  }
  call.service->Rerank(std::move(parsed->request), call.request->context,
                       Answer<api::RerankResponse>(
                           call, std::move(parsed->names),
                           [documents, voyage = parsed->voyage,
                            request = call.request](const api::RerankResponse& response) {
                             return PrintRerank(response, documents.get(), request->id, voyage);
                           },
                           documents != nullptr ? call.request->body_bytes : 0));
}

void RerankTexts(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseTeiRerank(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  std::shared_ptr<const std::vector<std::string>> texts;
  if (parsed->return_text) {
    texts = std::make_shared<const std::vector<std::string>>(parsed->request.documents);
  }
  call.service->Rerank(std::move(parsed->request), call.request->context,
                       Answer<api::RerankResponse>(
                           call, {{"documents", "texts"}},
                           [texts](const api::RerankResponse& response) {
                             return PrintTeiRerank(response, texts.get());
                           },
                           texts != nullptr ? call.request->body_bytes : 0));
}

// Any form; errors are printed in the form of the request, too.
void AnyRerank(const RouteCall& call, const JsonObject& object);

constexpr Route kRerankRoutes[] = {
    {"POST", "/v1/rerank", kRerankErrors, WithObject<Rerank>,
     About("Documents by relevance to a query, as Jina's and Cohere's APIs have it",
           "RerankRequest", "Ranking")},
    {"POST", "/v2/rerank", kRerankErrors, WithObject<Rerank>,
     About("The same as /v1/rerank", "RerankRequest", "Ranking")},
    {"POST", "/v1/reranking", kRerankErrors, WithObject<AnyRerank>,
     About("Documents or texts by relevance to a query, each in its own form", "AnyRerankRequest",
           "AnyRanking")},
    {"POST", "/reranking", kRerankErrors, WithObject<AnyRerank>,
     About("The same as /v1/reranking", "AnyRerankRequest", "AnyRanking")},
    {"POST", "/rerank", kTeiErrors, WithObject<AnyRerank>,
     About("The same as /v1/reranking", "AnyRerankRequest", "AnyRanking")},
};

void AnyRerank(const RouteCall& call, const JsonObject& object) {
  RouteCall in_its_form = call.WithoutBody();
  if (object.Has("documents")) in_its_form.route = &kRerankRoutes[0];
  if (object.Has("texts")) in_its_form.route = &kRerankRoutes[4];
  AnswerRerank(in_its_form, object);
}

}  // namespace

void AnswerRerank(const RouteCall& call, const JsonObject& object) {
  if (!object.Has("documents")) return RerankTexts(call, object);
  if (object.Has("texts")) {
    return call.Fail(
        Status::InvalidArgument("'documents' and 'texts' exclude each other", "documents"));
  }
  Rerank(call, object);
}

std::span<const serving::Route> RerankRoutes() { return kRerankRoutes; }

}  // namespace penstock::dialects

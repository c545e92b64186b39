// OpenAI: embeddings and the list of models.
#include "dialects/openai/openai.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/embed_lines.h"
#include "dialects/shared/query.h"
#include "dialects/shared/rows.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

void OpenAiEmbeddings(const RouteCall& call) {
  auto parsed = ParseEmbeddingsCall(call.body, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  const EmbeddingFormat format = parsed->format;
  if (WantsLines(*call.request)) {
    return AnswerInLines(call, std::move(parsed->request), format, parsed->names);
  }
  call.service->Embed(std::move(parsed->request), call.request->context,
                      Answer<api::EmbedResponse>(call, std::move(parsed->names),
                                                 [format](const api::EmbedResponse& response) {
                                                   return PrintEmbeddings(response, format);
                                                 }));
}

void ListModels(const RouteCall& call) {
  call.Ok(PrintModels(call.service->Models(), QueryValue(call.request->target, "endpoint")));
}

void GetModel(const RouteCall& call) {
  const auto model = call.service->Model(call.PathPart(0));
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintModel(*model));
}

constexpr Route kOpenAiRoutes[] = {
    {"POST", "/v1/embeddings", kOpenAiErrors, OpenAiEmbeddings,
     About("Embeddings, as OpenAI's API has them", "EmbeddingsRequest", "Embeddings")
         .Lines("EmbeddingLine")},
    {"POST", "/embeddings", kOpenAiErrors, OpenAiEmbeddings,
     About("The same as /v1/embeddings", "EmbeddingsRequest", "Embeddings").Lines("EmbeddingLine")},
    {"GET", "/v1/models", kOpenAiErrors, ListModels,
     About("The models that are served", nullptr, "Models")},
    {"GET", "/v1/models/{id}", kOpenAiErrors, GetModel,
     About("One model, by its name or an alias", nullptr, "Model")},
};

}  // namespace

std::span<const serving::Route> OpenAiRoutes() { return kOpenAiRoutes; }

}  // namespace penstock::dialects

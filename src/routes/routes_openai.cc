// OpenAI: embeddings and the list of models.
#include "routes/embed_lines.h"
#include "routes/openai.h"
#include "routes/routes.h"

namespace penstock {
namespace {

void Embeddings(const RouteCall& call) {
  auto parsed = ParseEmbeddingsCall(call.body, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  const bool base64 = parsed->base64;
  if (WantsLines(*call.request)) {
    return AnswerInLines(call, std::move(parsed->request), base64, {{"inputs", "input"}});
  }
  call.service->Embed(
      std::move(parsed->request), call.request->context,
      Answer<EmbedResponse>(call, {{"inputs", "input"}}, [base64](const EmbedResponse& response) {
        return PrintEmbeddings(response, base64);
      }));
}

void ListModels(const RouteCall& call) { call.Ok(PrintModels(call.service->Models())); }

void GetModel(const RouteCall& call) {
  const auto model = call.service->Model(call.PathPart(0));
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintModel(*model));
}

constexpr Route kRoutes[] = {
    {"POST", "/v1/embeddings", ErrorBody::kOpenAi, Embeddings, RouteFor::kUsers, true},
    {"POST", "/embeddings", ErrorBody::kOpenAi, Embeddings, RouteFor::kUsers, true},
    {"GET", "/v1/models", ErrorBody::kOpenAi, ListModels},
    {"GET", "/v1/models/{id}", ErrorBody::kOpenAi, GetModel},
};

}  // namespace

std::span<const Route> OpenAiRoutes() { return kRoutes; }

}  // namespace penstock

// Jina's, Cohere's and Voyage's rerank. (TEI's /rerank is in routes_tei.cc.)
#include "routes/rerank.h"
#include "routes/routes.h"

namespace penstock {
namespace {

void Rerank(const RouteCall& call) {
  auto parsed = ParseRerankCall(call.body, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  std::shared_ptr<const std::vector<std::string>> documents;
  if (parsed->return_documents) {
    documents = std::make_shared<const std::vector<std::string>>(parsed->request.documents);
  }
  call.service->Rerank(std::move(parsed->request), call.request->context,
                       Answer<RerankResponse>(
                           call, std::move(parsed->names),
                           [documents, voyage = parsed->voyage,
                            request = call.request](const RerankResponse& response) {
                             return PrintRerank(response, documents.get(), request->id, voyage);
                           },
                           documents != nullptr ? call.body.size() : 0));
}

constexpr Route kRoutes[] = {
    {"POST", "/v1/rerank", ErrorBody::kRerank, Rerank},
    {"POST", "/v2/rerank", ErrorBody::kRerank, Rerank},
};

}  // namespace

std::span<const Route> RerankRoutes() { return kRoutes; }

}  // namespace penstock

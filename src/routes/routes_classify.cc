// Classification in the manner of vLLM and Jina. (TEI's /predict is in routes_tei.cc.)
#include <ctime>

#include "routes/classify.h"
#include "routes/routes.h"

namespace penstock {
namespace {

void Classify(const RouteCall& call) {
  auto parsed = ParseClassifyCall(call.body, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Classify(
      *std::move(parsed), call.request->context,
      Answer<ClassifyResponse>(call, {{"inputs", "input"}},
                               [request = call.request](const ClassifyResponse& response) {
                                 return PrintClassify(response, request->id, std::time(nullptr));
                               }));
}

constexpr Route kRoutes[] = {
    {"POST", "/v1/classify", ErrorBody::kOpenAi, Classify},
    {"POST", "/classify", ErrorBody::kOpenAi, Classify},
};

}  // namespace

std::span<const Route> ClassifyRoutes() { return kRoutes; }

}  // namespace penstock

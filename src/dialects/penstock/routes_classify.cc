// Classification in the manner of vLLM and Jina. (TEI's /predict is in routes_tei.cc.)
#include <ctime>

#include "dialects/penstock/classify.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

void Classify(const RouteCall& call) {
  auto parsed = ParseClassifyCall(call.body, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  std::shared_ptr<std::vector<std::string>> texts;  // Cohere's answer repeats them
  if (parsed->cohere) {
    texts = std::make_shared<std::vector<std::string>>();
    for (const api::ClassifyInput& input : parsed->request.inputs) texts->push_back(input.first);
  }
  frontend::FieldNames names;
  if (!parsed->cohere) names = {{"inputs", "input"}};
  call.service->Classify(
      std::move(parsed->request), call.request->context,
      Answer<api::ClassifyResponse>(
          call, std::move(names),
          [request = call.request, texts](const api::ClassifyResponse& response) {
            return PrintClassify(response, request->id, std::time(nullptr), texts.get());
          },
          texts == nullptr ? 0 : call.body.size()));
}

constexpr Route kClassifyRoutes[] = {
    {"POST", "/v1/classify", kOpenAiErrors, Classify,
     About("Labels of texts or of pairs", "ClassifyRequest", "Classification")},
    {"POST", "/classify", kOpenAiErrors, Classify,
     About("The same as /v1/classify", "ClassifyRequest", "Classification")},
};

}  // namespace

std::span<const serving::Route> ClassifyRoutes() { return kClassifyRoutes; }

}  // namespace penstock::dialects

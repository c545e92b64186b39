// Cohere: embed and chat. (Its rerank is in routes_rerank.cc.)
#include "dialects/cohere/cohere.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/rows.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

template <int kVersion>
void Embed(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  auto parsed = ParseCohereEmbed(body->object(), kVersion, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  std::vector<std::string> texts;
  for (const api::Input& input : parsed->request.inputs) texts.push_back(input.text);
  call.service->Embed(
      std::move(parsed->request), call.request->context,
      Answer<api::EmbedResponse>(
          call, std::move(parsed->names),
          [types = std::move(parsed->types),
           texts = std::make_shared<const std::vector<std::string>>(std::move(texts)),
           request = call.request](const api::EmbedResponse& response) {
            return PrintCohereEmbed(response, types, *texts, request->id, kVersion);
          },
          call.body.size()));
}

void CohereChat(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  auto parsed = ParseCohereChat(body->object(), &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  auto printer = NewCohereChatPrinter(*parsed, http::NewRequestId());
  AnswerWithText(call, std::move(parsed->request), std::move(printer), std::move(parsed->names));
}

constexpr Route kCohereRoutes[] = {
    {"POST", "/v1/embed", kRerankErrors, Embed<1>,
     About("Embeddings, as Cohere's older API has them", "CohereEmbedRequest", "CohereEmbeddings")},
    {"POST", "/v2/embed", kRerankErrors, Embed<2>,
     About("Embeddings, as Cohere's API has them", "CohereEmbedRequest", "CohereEmbeddings")},
    {"POST", "/v2/chat", kRerankErrors, CohereChat,
     About("The next message of a chat, as Cohere's API has it", "CohereChatRequest", "CohereChat",
           "CohereChatEvent")},
};

}  // namespace

std::span<const serving::Route> CohereRoutes() { return kCohereRoutes; }

}  // namespace penstock::dialects

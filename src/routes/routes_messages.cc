// Anthropic: messages and the count of their tokens.
#include "routes/event_stream.h"
#include "routes/messages.h"
#include "routes/routes.h"

namespace penstock::routes {
namespace {

void Messages(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseMessagesCall(object, &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  ResolvePlaceholder(*call.service, &parsed->request.model);
  auto printer = NewMessagesPrinter(*parsed, http::NewRequestId());
  AnswerWithText(call, std::move(parsed->request), std::move(printer), std::move(parsed->names));
}

void CountTokens(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseCountTokens(object, &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  ResolvePlaceholder(*call.service, &parsed->model);
  call.service->Render(*std::move(parsed), call.request->context,
                       Answer<api::RenderResponse>(call, {}, PrintTokenCount));
}

constexpr Route kMessagesRoutes[] = {
    {"POST", "/v1/messages", ErrorBody::kAnthropic, WithObject<Messages>,
     About("The next message of a chat, as Anthropic's API has it", "MessagesRequest",
           "AnthropicMessage", "AnthropicEvent")},
    {"POST", "/v1/messages/count_tokens", ErrorBody::kAnthropic, WithObject<CountTokens>,
     About("The tokens of a chat, as Anthropic's API has them", "CountTokensRequest",
           "TokenCount")},
};

}  // namespace

std::span<const Route> MessagesRoutes() { return kMessagesRoutes; }

}  // namespace penstock::routes

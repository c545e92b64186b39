// Anthropic: messages and the count of their tokens.
#include "dialects/anthropic/messages.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/rows.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

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
    {"POST", "/v1/messages", kAnthropicErrors, WithObject<Messages>,
     About("The next message of a chat, as Anthropic's API has it", "MessagesRequest",
           "AnthropicMessage", "AnthropicEvent")},
    {"POST", "/v1/messages/count_tokens", kAnthropicErrors, WithObject<CountTokens>,
     About("The tokens of a chat, as Anthropic's API has them", "CountTokensRequest",
           "TokenCount")},
};

}  // namespace

std::span<const serving::Route> MessagesRoutes() { return kMessagesRoutes; }

}  // namespace penstock::dialects

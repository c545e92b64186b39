// OpenAI: responses, and the count of their input's tokens.
#include "dialects/openai/responses.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/rows.h"
#include "jobs/file_store.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

void Responses(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseResponsesCall(object, &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  ResolvePlaceholder(*call.service, &parsed->request.model);
  auto printer = NewResponsesPrinter(&*parsed, http::NewRequestId(), jobs::UnixSeconds());
  AnswerWithText(call, std::move(parsed->request), std::move(printer), std::move(parsed->names));
}

void InputTokens(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseInputTokens(object, &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  ResolvePlaceholder(*call.service, &parsed->model);
  call.service->Render(
      *std::move(parsed), call.request->context,
      Answer<api::RenderResponse>(call, {{"messages", "input"}}, PrintInputTokens));
}

constexpr Route kResponsesRoutes[] = {
    {"POST", "/v1/responses", kOpenAiErrors, WithObject<Responses>,
     About("The next items of a conversation, as OpenAI's Responses have them", "ResponsesRequest",
           "Response", "ResponseEvent")},
    {"POST", "/responses", kOpenAiErrors, WithObject<Responses>,
     About("The same as /v1/responses", "ResponsesRequest", "Response", "ResponseEvent")},
    {"POST", "/v1/responses/input_tokens", kOpenAiErrors, WithObject<InputTokens>,
     About("The tokens of a conversation", "InputTokensRequest", "InputTokens")},
};

}  // namespace

std::span<const serving::Route> ResponsesRoutes() { return kResponsesRoutes; }

}  // namespace penstock::dialects

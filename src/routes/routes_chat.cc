// OpenAI: chat completions and completions; llama.cpp's server: what a chat template makes.
#include "jobs/file_store.h"
#include "routes/chat.h"
#include "routes/chat_print.h"
#include "routes/event_stream.h"
#include "routes/routes.h"

namespace penstock::routes {

void ResolvePlaceholder(const api::Service& service, std::string* name) {
  if ((*name == "dummy" || *name == "tgi") && !service.Model(*name).ok()) name->clear();
}

namespace {

void Chat(const RouteCall& call) {
  auto parsed = ParseChatCall(call.body, &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  ResolvePlaceholder(*call.service, &parsed->request.model);
  auto printer = NewChatPrinter(*parsed, http::NewRequestId(), jobs::UnixSeconds());
  AnswerWithText(call, std::move(parsed->request), std::move(printer), parsed->names);
}

void Complete(const RouteCall& call) {
  auto parsed = ParseCompletionCall(call.body, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  ResolvePlaceholder(*call.service, &parsed->request.model);
  auto printer = NewCompletionPrinter(*parsed, http::NewRequestId(), jobs::UnixSeconds());
  AnswerWithText(call, std::move(parsed->request), std::move(printer), parsed->names);
}

void ApplyTemplate(const RouteCall& call) {
  auto parsed = ParseApplyTemplate(call.body, &call.request->context);
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Render(*std::move(parsed), call.request->context,
                       Answer<api::RenderResponse>(call, {}, PrintApplyTemplate));
}

constexpr Route kChatRoutes[] = {
    {"POST", "/v1/chat/completions", ErrorBody::kOpenAi, Chat,
     About("The next message of a chat, as OpenAI's API has it", "ChatRequest", "ChatCompletion",
           "ChatChunk")},
    {"POST", "/chat/completions", ErrorBody::kOpenAi, Chat,
     About("The same as /v1/chat/completions", "ChatRequest", "ChatCompletion", "ChatChunk")},
    {"POST", "/v1/completions", ErrorBody::kOpenAi, Complete,
     About("Texts that go on after prompts, as OpenAI's API has them", "CompletionRequest",
           "Completion", "CompletionChunk")},
    {"POST", "/completions", ErrorBody::kOpenAi, Complete,
     About("The same as /v1/completions", "CompletionRequest", "Completion", "CompletionChunk")},
    {"POST", "/apply-template", ErrorBody::kOpenAi, ApplyTemplate,
     About("What the model's chat template makes of messages", "ApplyTemplateRequest",
           "AppliedTemplate")},
};

}  // namespace

std::span<const Route> ChatRoutes() { return kChatRoutes; }

}  // namespace penstock::routes

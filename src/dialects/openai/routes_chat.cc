// OpenAI: chat completions and completions; llama.cpp's server: what a chat template makes.
#include "dialects/openai/chat.h"
#include "dialects/openai/chat_print.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/rows.h"
#include "jobs/file_store.h"

namespace penstock::dialects {

using serving::About;
using serving::Route;
using serving::RouteCall;

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
    {"POST", "/v1/chat/completions", kOpenAiErrors, Chat,
     About("The next message of a chat, as OpenAI's API has it", "ChatRequest", "ChatCompletion",
           "ChatChunk")},
    {"POST", "/chat/completions", kOpenAiErrors, Chat,
     About("The same as /v1/chat/completions", "ChatRequest", "ChatCompletion", "ChatChunk")},
    {"POST", "/v1/completions", kOpenAiErrors, Complete,
     About("Texts that go on after prompts, as OpenAI's API has them", "CompletionRequest",
           "Completion", "CompletionChunk")},
    {"POST", "/completions", kOpenAiErrors, Complete,
     About("The same as /v1/completions", "CompletionRequest", "Completion", "CompletionChunk")},
    {"POST", "/apply-template", kOpenAiErrors, ApplyTemplate,
     About("What the model's chat template makes of messages", "ApplyTemplateRequest",
           "AppliedTemplate")},
};

}  // namespace

std::span<const serving::Route> ChatRoutes() { return kChatRoutes; }

}  // namespace penstock::dialects

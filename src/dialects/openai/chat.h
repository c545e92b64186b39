// Parses OpenAI's POST /v1/chat/completions and POST /v1/completions, and llama.cpp's POST
// /apply-template. Pure functions.
// Sources: OpenAI's API reference; the additional fields of vLLM and llama.cpp's server.
//
// Unknown fields are ignored, as OpenAI's clients send some that mean nothing here ("user",
// "store", "metadata"). Fields that would change the text and are not implemented are refused by
// name.
#pragma once

#include <string>
#include <string_view>

#include "api/generate_types.h"
#include "api/service.h"
#include "base/status.h"
#include "dialects/shared/fields.h"
#include "frontend/wire_names.h"
#include "json/json.h"

namespace penstock::dialects {

inline constexpr size_t kMessagesMax = 4096;
inline constexpr size_t kToolsMax = 256;

// A request for text.
struct TextCall {
  api::TextRequest request;
  bool stream = false;
  bool include_usage = false;  // a streamed answer ends with the usage
  bool has_functions = false;  // calls are told in their old form (legacy_functions.h)
  frontend::FieldNames names;  // native to wire, for errors of the service
  IgnoredFields ignored;       // that the answer's header names
};

// Clients that were given an address alone send a placeholder for the model's name ("dummy",
// "tgi"): then *name is emptied, which stands for the first that generates text, unless a model is
// served under it.
void ResolvePlaceholder(const api::Service& service, std::string* name);

// `context`: of the request, which pays for what its conversation takes (chat_messages.h).
Expected<TextCall> ParseChatCall(std::string_view body, const RequestContext* context = nullptr);
Expected<TextCall> ParseCompletionCall(std::string_view body,
                                       const api::ServiceOptions& limits = {});

// What stands between two texts is to be written.
api::GeneratePrompt FillBetween(std::string prefix, std::string suffix);

// {messages, tools, chat_template_kwargs, add_generation_prompt, continue_final_message, model}.
Expected<api::RenderRequest> ParseApplyTemplate(std::string_view body,
                                                const RequestContext* context = nullptr);
// {"prompt": "..."}
std::string PrintApplyTemplate(const api::RenderResponse& response);

}  // namespace penstock::dialects

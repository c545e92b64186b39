#include "dialects/openai/chat.h"

#include <algorithm>

#include "dialects/openai/chat_messages.h"
#include "dialects/openai/legacy_functions.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/grammar_fields.h"
#include "dialects/shared/sampling_fields.h"

namespace penstock::dialects {
namespace {

// Of OpenAI's /v1/completions where max_tokens is absent.
constexpr int32_t kCompletionTokensDefault = 16;

constexpr RefusedField kRefused[] = {
    {"use_beam_search", ""},
    {"prompt_logprobs", ""},
    {"truncate_prompt_tokens", "a prompt is never cut"},
    {"logits_processors", ""},
};
constexpr RefusedField kChatRefused[] = {
    {"audio", "the models here write text"},
    {"prediction", ""},
    {"web_search_options", ""},
    {"chat_template", "the model's own is used (--chat-template sets another)"},
    {"documents", "put them into a message"},
    {"echo", ""},
};
constexpr RefusedField kCompletionRefused[] = {
    {"prompt_embeds", ""},
};

Status OneOf(const std::string& path, std::string_view choices, std::string_view is) {
  return Status::InvalidArgument("'" + path + "' must be one of " + std::string(choices) +
                                     ", is \"" + std::string(is.substr(0, 40)) + "\"",
                                 path);
}

Status ParseModalities(const JsonObject& object) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto modalities,
                            object.GetStringsOrEmpty("modalities", kFieldsMax));
  for (const std::string& each : modalities) {
    if (each != "text") {
      return Status::InvalidArgument(
          "'modalities' has \"" + each.substr(0, 40) + "\"; only \"text\" is supported",
          "modalities");
    }
  }
  return Status::Ok();
}

// What both APIs have.
Status ParseCommon(const JsonObject& object, int32_t tokens_min, TextCall* call) {
  PENSTOCK_ASSIGN_OR_RETURN(call->request.keep_alive, GetKeepAlive(object));
  PENSTOCK_ASSIGN_OR_RETURN(call->request.cache_salt, GetCacheSalt(object));
  api::TextRequest& request = call->request;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kRefused));
  PENSTOCK_ASSIGN_OR_RETURN(request.grammar, ReadGrammar(object));
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_ASSIGN_OR_RETURN(call->stream, object.GetBoolOr("stream", false));
  request.streams = call->stream;
  if (object.Has("stream_options")) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject options, object.GetObject("stream_options"));
    if (!call->stream) {
      return Status::InvalidArgument("'stream_options' is for requests with 'stream': true",
                                     "stream_options");
    }
    PENSTOCK_ASSIGN_OR_RETURN(call->include_usage, options.GetBoolOr("include_usage", false));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto samples,
                            GetOptionalInt(object, "n", 1, api::TextRequest::kSamplesMax));
  request.samples = samples.value_or(1);
  PENSTOCK_ASSIGN_OR_RETURN(const auto best_of, GetOptionalInt(object, "best_of", 0, INT32_MAX));
  if (best_of.value_or(request.samples) != request.samples) {
    return Status::InvalidArgument("'best_of' is not supported, unless it is n", "best_of");
  }
  PENSTOCK_RETURN_IF_ERROR(ParseSampling(object, &request.sampling));
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto most, GetOptionalInt(object, key, tokens_min, INT32_MAX));
    if (!most) continue;
    request.sampling.options.max_tokens = most;
    call->names = {{"max_tokens", key}};
  }
  return Status::Ok();
}

Status ParseTools(const JsonObject& object, const RequestContext* context, api::ChatPrompt* chat,
                  api::TextRequest* request) {
  PENSTOCK_ASSIGN_OR_RETURN(request->parallel_calls, object.GetBoolOr("parallel_tool_calls", true));
  std::vector<reply::ReplyTool> tools;
  if (HasFunctions(object)) {
    PENSTOCK_RETURN_IF_ERROR(ReadFunctions(object, context, chat, &tools, request));
    return SetTools(std::move(tools), request);
  }
  PENSTOCK_RETURN_IF_ERROR(ReadTools(object, context, chat, &tools));
  const auto choice = object.Find("tool_choice");
  if (choice) {
    std::string_view word = "a function";
    if (choice->is_object()) {
      PENSTOCK_ASSIGN_OR_RETURN(const JsonObject named, object.GetObject("tool_choice"));
      PENSTOCK_ASSIGN_OR_RETURN(const JsonObject function, named.GetObject("function"));
      PENSTOCK_ASSIGN_OR_RETURN(request->required_tool, function.GetString("name"));
      request->requires_call = true;
    } else if (!choice->Get(&word) || (word != "none" && word != "auto" && word != "required")) {
      return OneOf("tool_choice", "\"none\", \"auto\", \"required\" and a function", word);
    }
    request->requires_call |= word == "required";
    if (request->requires_call && tools.empty()) {
      return Status::InvalidArgument("'tool_choice' asks for a call, and there are no 'tools'",
                                     "tool_choice");
    }
    if (word == "none") {
      chat->tools = {};
      tools.clear();
    }
  }
  return SetTools(std::move(tools), request);
}

Status ReadTemplateOptions(const JsonObject& object, const RequestContext* context,
                           api::ChatPrompt* chat) {
  if (object.Has("chat_template_kwargs")) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject kwargs, object.GetObject("chat_template_kwargs"));
    PENSTOCK_ASSIGN_OR_RETURN(chat->kwargs, ToJsonValue(*object.Find("chat_template_kwargs"),
                                                        "chat_template_kwargs", context, chat));
    const chat::JsonValue* const thinks = chat->kwargs.Find("enable_thinking");
    if (thinks != nullptr && thinks->boolean() != nullptr && *thinks->boolean()) {
      chat->thinking_field = "chat_template_kwargs.enable_thinking";
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string effort, GetName(object, "reasoning_effort"));
  if (!effort.empty() && chat->kwargs.Find("reasoning_effort") == nullptr) {
    chat->kwargs.Set("reasoning_effort", effort);
  }
  PENSTOCK_ASSIGN_OR_RETURN(chat->continue_final_message,
                            object.GetBoolOr("continue_final_message", false));
  PENSTOCK_ASSIGN_OR_RETURN(
      chat->add_generation_prompt,
      object.GetBoolOr("add_generation_prompt", !chat->continue_final_message));
  if (chat->continue_final_message && chat->add_generation_prompt) {
    return Status::InvalidArgument(
        "'continue_final_message' and 'add_generation_prompt' exclude each other",
        "continue_final_message");
  }
  return Status::Ok();
}

}  // namespace

Expected<TextCall> ParseChatCall(std::string_view body, const RequestContext* context) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  TextCall call;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kChatRefused));
  PENSTOCK_RETURN_IF_ERROR(ParseModalities(object));
  PENSTOCK_RETURN_IF_ERROR(ParseCommon(object, 1, &call));
  api::TextRequest& request = call.request;
  request.parses_reply = true;
  sample::SamplingOptions& options = request.sampling.options;
  PENSTOCK_ASSIGN_OR_RETURN(options.logprobs, object.GetBoolOr("logprobs", false));
  PENSTOCK_ASSIGN_OR_RETURN(const auto top,
                            GetOptionalInt(object, "top_logprobs", 0, sample::kTopLogprobsMax));
  if (top.value_or(0) > 0 && !options.logprobs) {
    return Status::InvalidArgument("'top_logprobs' is for requests with 'logprobs': true",
                                   "top_logprobs");
  }
  options.top_logprobs = top.value_or(0);
  PENSTOCK_RETURN_IF_ERROR(CheckSampling(request.sampling));
  api::ChatPrompt chat;
  PENSTOCK_RETURN_IF_ERROR(ReadMessages(object, context, &chat));
  PENSTOCK_RETURN_IF_ERROR(ParseTools(object, context, &chat, &request));
  call.has_functions = HasFunctions(object);
  if (call.has_functions) {
    call.names.insert(call.names.end(), {{"tools", "functions"}, {"tool_choice", "function_call"}});
  }
  PENSTOCK_RETURN_IF_ERROR(ReadTemplateOptions(object, context, &chat));
  request.prompts.push_back(PromptOf("messages", std::move(chat)));
  return call;
}

Expected<TextCall> ParseCompletionCall(std::string_view body, const api::ServiceOptions& limits) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  TextCall call;
  PENSTOCK_RETURN_IF_ERROR(RefuseFields(object, kCompletionRefused));
  PENSTOCK_RETURN_IF_ERROR(ParseCommon(object, 0, &call));
  api::TextRequest& request = call.request;
  request.max_tokens_default = kCompletionTokensDefault;
  PENSTOCK_ASSIGN_OR_RETURN(request.echoes_prompt, object.GetBoolOr("echo", false));
  sample::SamplingOptions& options = request.sampling.options;
  PENSTOCK_ASSIGN_OR_RETURN(const auto logprobs,
                            GetOptionalInt(object, "logprobs", 0, sample::kTopLogprobsMax));
  options.logprobs = logprobs.has_value();
  options.top_logprobs = logprobs.value_or(0);
  request.scores_prompt = options.logprobs && request.echoes_prompt;
  if (options.max_tokens == 0) {
    if (!request.echoes_prompt) {
      return Status::InvalidArgument("'max_tokens' may be 0 where the prompt is echoed: 'echo'",
                                     "max_tokens");
    }
    request.prompt_only = true;
    options.max_tokens.reset();
    options.min_tokens = 0;
  }
  PENSTOCK_RETURN_IF_ERROR(CheckSampling(request.sampling));
  PENSTOCK_ASSIGN_OR_RETURN(const bool special, object.GetBoolOr("add_special_tokens", true));
  std::vector<api::Input> inputs;
  bool single = false;
  PENSTOCK_RETURN_IF_ERROR(ParseInputs(object, "prompt", limits, &inputs, &single));
  PENSTOCK_ASSIGN_OR_RETURN(std::string suffix, object.GetStringOr("suffix", ""));
  if (!suffix.empty()) {
    if (inputs.size() != 1 || inputs[0].is_ids || request.echoes_prompt) {
      return Status::InvalidArgument("'suffix' is for one prompt that is a text, without 'echo'",
                                     "suffix");
    }
    request.prompts.push_back(FillBetween(std::move(inputs[0].text), std::move(suffix)));
    return call;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    api::GeneratePrompt prompt;
    prompt.add_special_tokens = special;
    if (!single) prompt.field = "prompt[" + std::to_string(i) + "]";
    if (inputs[i].is_ids) {
      prompt.value = std::move(inputs[i].ids);
    } else {
      prompt.value = std::move(inputs[i].text);
    }
    request.prompts.push_back(std::move(prompt));
  }
  return call;
}

api::GeneratePrompt FillBetween(std::string prefix, std::string suffix) {
  api::FillPrompt fill;
  fill.prefix = std::move(prefix);
  fill.suffix = std::move(suffix);
  api::GeneratePrompt prompt;
  prompt.value = std::move(fill);
  return prompt;
}

Expected<api::RenderRequest> ParseApplyTemplate(std::string_view body,
                                                const RequestContext* context) {
  PENSTOCK_ASSIGN_OR_RETURN(const RequestBody parsed, RequestBody::Parse(body));
  const JsonObject& object = parsed.object();
  api::RenderRequest request;
  PENSTOCK_ASSIGN_OR_RETURN(request.model, GetName(object, "model"));
  PENSTOCK_RETURN_IF_ERROR(ReadMessages(object, context, &request.chat));
  PENSTOCK_RETURN_IF_ERROR(ReadTools(object, context, &request.chat, nullptr));
  PENSTOCK_RETURN_IF_ERROR(ReadTemplateOptions(object, context, &request.chat));
  return request;
}

std::string PrintApplyTemplate(const api::RenderResponse& response) {
  std::string out;
  JsonWriter(&out).BeginObject().Field("prompt", response.prompt).EndObject();
  return out;
}

}  // namespace penstock::dialects

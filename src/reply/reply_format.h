// How a chat model writes what is not plain text: its thinking, and its calls of tools. Told from
// the model's chat template, since the template shows the model these markers.
//
// Plain values, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::reply {

enum class ToolForm {
  kNone,       // calls are not recognised: all is text
  kHermes,     // <tool_call>{"name": "f", "arguments": {..}}</tool_call>: Hermes 2 Pro, Qwen 2.5, 3
  kLlama,      // {"name": "f", "parameters": {..}}, after <|python_tag|> or alone: Llama 3.1 to 3.3
  kMistral,    // [TOOL_CALLS][{"name": "f", "arguments": {..}}]
  kQwenCoder,  // <tool_call><function=f><parameter=key>value</parameter></function></tool_call>
  kMistralNames,  // [TOOL_CALLS]f[ARGS]{..}; each of Mistral's two is understood for both
};

constexpr bool IsMistral(ToolForm form) {
  return form == ToolForm::kMistral || form == ToolForm::kMistralNames;
}

struct ReplyFormat {
  std::string think_begin, think_end;  // both empty: the model does not think
  bool begins_thinking = false;        // the prompt ends inside a thinking block
  ToolForm tools = ToolForm::kNone;
};

// By the markers that `chat_template` (Jinja source) contains; begins_thinking stays false.
//
// Thinking: "</think>" -> <think> and </think>; else "[/THINK]" -> [THINK] and [/THINK].
// Tools, the first that holds:
//   "<function=" and "<parameter="                                              kQwenCoder
//   "<tool_call>" and the key "arguments", not "<arg_key>" nor "<tool_sep>"     kHermes
//   "[TOOL_CALLS]", and "[ARGS]" or not                           kMistralNames or kMistral
//   "<|python_tag|>", or "<|start_header_id|>" and the key "parameters"         kLlama
// The two that are excluded from kHermes mark the arguments of GLM and Hunyuan, which are no JSON.
ReplyFormat DetectReplyFormat(std::string_view chat_template);

// Whether a chat template has a place for tools, and for being told to think: it names them, or
// shows the markers of calls or of thinking, so that the model knows them.
bool TakesTools(std::string_view chat_template);
bool TakesThinking(std::string_view chat_template);

// Whether `prompt`, as the template made it, ends with the begin of thinking, and perhaps
// whitespace: then the reply begins inside.
bool PromptOpensThinking(const ReplyFormat& format, std::string_view prompt);

// The markers that some tokenizers hold as special tokens. The text given to a ReplyParser must
// have them, though special tokens are left out of text otherwise.
std::vector<std::string> MarkerTokens(const ReplyFormat& format);

}  // namespace penstock::reply

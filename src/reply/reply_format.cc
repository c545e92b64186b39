#include "reply/reply_format.h"

#include <array>
#include <utility>

namespace penstock::reply {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A key of the JSON that a template shows; its quotes are escaped inside a string of Jinja.
bool HasKey(std::string_view text, const std::string& key) {
  return Has(text, "\"" + key + "\"") || Has(text, "\\\"" + key + "\\\"");
}

ToolForm FormOf(std::string_view text) {
  if (Has(text, "<function=") && Has(text, "<parameter=")) return ToolForm::kQwenCoder;
  if (Has(text, "<tool_call>") && HasKey(text, "arguments") && !Has(text, "<arg_key>") &&
      !Has(text, "<tool_sep>")) {
    return ToolForm::kHermes;
  }
  if (Has(text, "[TOOL_CALLS]")) {
    return Has(text, "[ARGS]") ? ToolForm::kMistralNames : ToolForm::kMistral;
  }
  if (Has(text, "<|python_tag|>")) return ToolForm::kLlama;
  if (Has(text, "<|start_header_id|>") && HasKey(text, "parameters")) return ToolForm::kLlama;
  return ToolForm::kNone;
}

}  // namespace

ReplyFormat DetectReplyFormat(std::string_view chat_template) {
  ReplyFormat format;
  if (Has(chat_template, "</think>")) {
    format.think_begin = "<think>";
    format.think_end = "</think>";
  } else if (Has(chat_template, "[/THINK]")) {
    format.think_begin = "[THINK]";
    format.think_end = "[/THINK]";
  }
  format.tools = FormOf(chat_template);
  return format;
}

bool TakesTools(std::string_view chat_template) {
  return Has(chat_template, "tools") || FormOf(chat_template) != ToolForm::kNone;
}

bool TakesThinking(std::string_view chat_template) {
  return Has(chat_template, "thinking") || Has(chat_template, "reasoning_effort") ||
         !DetectReplyFormat(chat_template).think_end.empty();
}

bool PromptOpensThinking(const ReplyFormat& format, std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(" \t\r\n");
  return !format.think_begin.empty() && last != std::string_view::npos &&
         prompt.substr(0, last + 1).ends_with(format.think_begin);
}

std::vector<std::string> MarkerTokens(const ReplyFormat& format) {
  std::vector<std::string> tokens;
  if (!format.think_begin.empty()) tokens = {format.think_begin, format.think_end};
  switch (format.tools) {
    case ToolForm::kNone:
      break;
    case ToolForm::kHermes:
    case ToolForm::kQwenCoder:
      tokens.insert(tokens.end(), {"<tool_call>", "</tool_call>"});
      break;
    case ToolForm::kLlama:
      tokens.push_back("<|python_tag|>");
      break;
    case ToolForm::kMistral:
    case ToolForm::kMistralNames:
      tokens.insert(tokens.end(), {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"});
      break;
  }
  return tokens;
}

}  // namespace penstock::reply

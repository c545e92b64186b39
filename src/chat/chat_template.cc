#include "chat/chat_template.h"

#include <string_view>

#include "chat/jinja_builtins.h"
#include "chat/jinja_interp.h"
#include "chat/jinja_lexer.h"
#include "chat/jinja_parser.h"
#include "chat/jinja_scope.h"
#include "chat/jinja_search.h"
#include "unicode/utf8.h"

namespace penstock::chat {
namespace {

using jinja::Interp;
using jinja::Kind;
using jinja::Value;

// What transformers puts behind the content that is to be continued.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kMarkWord = "CONTINUE_FINAL_MESSAGE_TAG";
constexpr const char* kReasoningNames[] = {"reasoning_content", "thinking", "reasoning"};

// The input outlives the rendering.
Value ToValue(Interp& interp, const JsonValue& json) {
  return jinja::FromJsonValue(interp, json, jinja::Texts::kBorrowed);
}

Status Refused(std::string message, const char* field = "messages") {
  return Status::InvalidArgument(std::move(message), field);
}

void Set(Interp& interp, const Value& dict, std::string_view key, Value value) {
  dict.as<jinja::DictObject>().Set(interp, Value::Borrowed(key), std::move(value));
}

// Reasoning comes under several names; templates read the first, that of gpt-oss `thinking`.
Value WithReasoning(Interp& interp, const JsonValue& message, Value value) {
  const JsonValue* reasoning = nullptr;
  for (const char* name : kReasoningNames) {
    if (const JsonValue* found = message.Find(name); found != nullptr && !found->is_null()) {
      reasoning = found;
      break;
    }
  }
  if (reasoning == nullptr) return value;
  const Value text = ToValue(interp, *reasoning);
  Value with = interp.NewDict();
  Set(interp, with, "thinking", text);
  for (const auto& [key, item] : value.as<jinja::DictObject>().entries) {
    with.as<jinja::DictObject>().Set(interp, key, item);
  }
  Set(interp, with, "reasoning_content", text);
  return with;
}

Value Marked(Interp& interp, std::string_view text) {
  return interp.Text(std::string(text) + std::string(kMark));
}

// Marks the end of the last message's content; *content gets the text that is continued.
Status MarkFinal(Interp& interp, const Value& message, std::string* content) {
  const Value* found = message.as<jinja::DictObject>().Find("content");
  if (found == nullptr || found->is_none()) {
    return Refused("continue_final_message is set, but the last message has no content");
  }
  if (found->is_string()) {
    *content = found->text();
    Set(interp, message, "content", Marked(interp, found->text()));
    return Status::Ok();
  }
  if (found->is(Kind::kList)) {
    const Value list = *found;
    const auto& parts = list.as<jinja::ListObject>().items;
    for (size_t i = parts.size(); i-- > 0;) {
      if (!parts[i].is_dict()) continue;
      const Value* text = parts[i].as<jinja::DictObject>().Find("text");
      if (text == nullptr) continue;
      if (!text->is_string()) break;
      *content = text->text();
      Set(interp, parts[i], "text", Marked(interp, text->text()));
      return Status::Ok();
    }
  }
  return Refused("continue_final_message is set, but the last message has no text to continue");
}

std::string_view Strip(std::string_view text) { return jinja::StripRight(jinja::StripLeft(text)); }

// Cuts the text at the mark.
Expected<std::string> CutAtMark(std::string text, std::string_view content) {
  const size_t mark = text.rfind(kMarkWord);
  if (mark == text.npos || jinja::FindText(text, Strip(content)) == text.npos) {
    return Refused(
        "continue_final_message is set, but the chat template does not show the last message's "
        "content as it is");
  }
  const bool whole = std::string_view(text).substr(mark).starts_with(kMark);
  text.resize(mark);
  if (!whole) text.resize(jinja::StripRight(text).size());
  return text;
}

Status SetVariables(Interp& interp, const ChatInput& input) {
  for (const auto& [name, text] : input.special_tokens) {
    interp.Set(name, jinja::BorrowedText(interp, text));
  }
  interp.Set("tools", input.tools ? ToValue(interp, *input.tools) : Value::None());
  interp.Set("documents", input.documents ? ToValue(interp, *input.documents) : Value::None());
  interp.Set("add_generation_prompt", Value::Bool(input.add_generation_prompt));
  const JsonValue::Object* variables = input.variables.object();
  if (variables == nullptr) {
    return Refused("'chat_template_kwargs' must be an object", "chat_template_kwargs");
  }
  for (const auto& [name, value] : *variables) {
    if (name == "messages" || name == "tools" || name == "documents") {
      return Refused("'chat_template_kwargs' may not set '" + name + "'", "chat_template_kwargs");
    }
    interp.Set(name, ToValue(interp, value));
  }
  return Status::Ok();
}

Status SetMessages(Interp& interp, const ChatInput& input, std::string* continued) {
  const JsonValue::Array* messages = input.messages.array();
  if (messages == nullptr) return Refused("'messages' must be an array");
  jinja::ListBuilder values(interp.heap());
  values.Reserve(messages->size());
  for (const JsonValue& message : *messages) {
    if (message.object() == nullptr) return Refused("each of 'messages' must be an object");
    values.Add(WithReasoning(interp, message, ToValue(interp, message)));
  }
  if (input.continue_final_message) {
    if (input.add_generation_prompt) {
      return Refused("continue_final_message and add_generation_prompt do not go together",
                     "continue_final_message");
    }
    if (values.items().empty()) {
      return Refused("continue_final_message is set, but there is no message");
    }
    PENSTOCK_RETURN_IF_ERROR(MarkFinal(interp, values.items().back(), continued));
  }
  interp.Set("messages", values.Done());
  return Status::Ok();
}

Status RenderError(const jinja::Error& error, int line) {
  if (!error.request.ok()) return error.request;
  if (error.raised) return Refused(error.message);
  const std::string at = "the chat template failed at line " + std::to_string(line) + ": ";
  return Status(error.code, at + error.message, "messages");
}

}  // namespace

Expected<ChatTemplate> ChatTemplate::Parse(std::string source, const jinja::Limits& limits) {
  if (source.size() > kSourceBytesMax) {
    return Status::InvalidArgument("the chat template has " + std::to_string(source.size()) +
                                       " bytes; at most " + std::to_string(kSourceBytesMax) +
                                       " are allowed",
                                   "chat_template");
  }
  auto tree = std::make_shared<jinja::Template>();
  unicode::AppendSanitizedUtf8(source, &tree->source);
  try {
    tree->body = jinja::Parser(jinja::Tokenize(tree->source)).Parse();
    jinja::BindVariables(tree.get());
  } catch (const jinja::Error& error) {
    return Status(error.code, "the chat template is refused, " + error.message, "chat_template");
  }
  return ChatTemplate(std::move(tree), limits);
}

Expected<std::string> ChatTemplate::Render(const ChatInput& input,
                                           const RequestContext* request) const {
  Interp interp(*tree_, limits_, input.now, request);
  try {
    std::string continued;
    PENSTOCK_RETURN_IF_ERROR(SetVariables(interp, input));
    PENSTOCK_RETURN_IF_ERROR(SetMessages(interp, input, &continued));
    if (input.continue_final_message && source().find("content") == std::string::npos) {
      return Refused("continue_final_message is set, but the chat template reads no content");
    }
    std::string text = interp.Render();
    if (!input.continue_final_message) return text;
    return CutAtMark(std::move(text), continued);
  } catch (const jinja::Error& error) {
    return RenderError(error, interp.line());
  }
}

const std::set<std::string>& ChatTemplate::variables() const { return tree_->reads; }

const std::string& ChatTemplate::source() const { return tree_->source; }

}  // namespace penstock::chat

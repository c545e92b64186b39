// Chat templates: from messages to the text that a model reads. A model brings its template as a
// Jinja program; this module has an interpreter of its own for it (jinja_*.h), equal to Python's
// jinja2 as Hugging Face transformers sets it up: trim_blocks, lstrip_blocks, loop controls, the
// immutable sandbox, tojson without the escaping of HTML, raise_exception, strftime_now and
// {% generation %}.
//
//   source ── jinja_lexer ─> tokens ── jinja_parser ─> tree ── jinja_scope ─> places of variables
//   ChatInput ── values ─> jinja_interp (eval, exec, ops, filters, methods) ─> text
//
// Templates come from strangers: what one rendering may take is bounded (jinja::Limits). Not
// supported, and named when a template is parsed: inheritance, include, import, autoescape, the
// filters pprint, random, striptags, urlize, wordwrap and xmlattr, the function lipsum. Integers
// have 64 bits; beyond that is an error.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "chat/jinja_value.h"
#include "chat/json_value.h"

namespace penstock {
struct RequestContext;
}  // namespace penstock

namespace penstock::chat {

namespace jinja {
struct Template;
}

// What a template reads. The names are those that transformers gives its templates.
struct ChatInput {
  JsonValue messages = JsonValue::Array();  // an array of objects
  std::optional<JsonValue> tools;           // an array; absent: none
  std::optional<JsonValue> documents;
  bool add_generation_prompt = false;
  // The text ends where the last message's content ends, so that the model goes on with it.
  bool continue_final_message = false;
  // chat_template_kwargs: further variables, such as enable_thinking. May set
  // add_generation_prompt, not messages, tools or documents.
  JsonValue variables = JsonValue::Object();
  // bos_token, eos_token and the like, with their texts.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  // For strftime_now, in local time.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

// A parsed template. Copies share the tree; Render may run in any number of threads.
class ChatTemplate {
 public:
  static constexpr size_t kSourceBytesMax = 4 << 20;

  // kInvalidArgument: not Jinja; kUnsupported: asks for what is not implemented. Messages say the
  // line; the field is chat_template.
  static Expected<ChatTemplate> Parse(std::string source, const jinja::Limits& limits = {});

  // kInvalidArgument, field messages: the template refuses them (raise_exception: its own message)
  // or fails on them, and the message says the line. kUnprocessable: past a limit.
  // `request`: from whose memory the rendering takes what it holds until it ends, and which is
  // asked whether it is still wanted while its values are read; the errors are those of
  // RequestMemory::Take and RequestContext::CheckWanted. Null: nothing is taken.
  Expected<std::string> Render(const ChatInput& input,
                               const RequestContext* request = nullptr) const;

  // Variables that it takes from outside, as far as it names them: messages, tools,
  // enable_thinking, ...
  const std::set<std::string>& variables() const;
  bool Reads(const std::string& variable) const { return variables().contains(variable); }
  const std::string& source() const;

 private:
  ChatTemplate(std::shared_ptr<const jinja::Template> tree, const jinja::Limits& limits)
      : tree_(std::move(tree)), limits_(limits) {}
  std::shared_ptr<const jinja::Template> tree_;
  jinja::Limits limits_;
};

}  // namespace penstock::chat

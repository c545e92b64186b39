// jinja_parity: the C++ half of jinja_parity.py. Renders cases with ChatTemplate.
//
//   jinja_parity CASES RESULTS
//
// Both are lines of JSON. A case: {"template": TEXT, "input": {"messages": [...], "tools": [...],
// "documents": [...], "add_generation_prompt": BOOL, "continue_final_message": BOOL,
// "variables": {...}, "special_tokens": {NAME: TEXT}, "now": SECONDS}}; all of the input may be
// absent, and so may be the template: then it is that of the case before. A result: {"text": TEXT}
// or {"error": MESSAGE, "code": NAME, "stage": "parse" or "render"}.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "chat/chat_template.h"
#include "json/json_writer.h"

namespace penstock {
namespace {

chat::ChatInput ReadInput(const chat::JsonValue& json) {
  chat::ChatInput input;
  input.now = std::chrono::system_clock::from_time_t(0);
  if (const chat::JsonValue* value = json.Find("messages")) input.messages = *value;
  if (const chat::JsonValue* value = json.Find("tools")) input.tools = *value;
  if (const chat::JsonValue* value = json.Find("documents")) input.documents = *value;
  if (const chat::JsonValue* value = json.Find("variables")) input.variables = *value;
  const auto flag = [&](const char* name) {
    const chat::JsonValue* value = json.Find(name);
    return value != nullptr && value->boolean() != nullptr && *value->boolean();
  };
  input.add_generation_prompt = flag("add_generation_prompt");
  input.continue_final_message = flag("continue_final_message");
  const chat::JsonValue* tokens = json.Find("special_tokens");
  if (tokens != nullptr && tokens->object() != nullptr) {
    for (const auto& [name, text] : *tokens->object()) {
      if (text.string() != nullptr) input.special_tokens.emplace_back(name, *text.string());
    }
  }
  const chat::JsonValue* now = json.Find("now");
  if (now != nullptr && now->integer() != nullptr) {
    input.now = std::chrono::system_clock::from_time_t(*now->integer());
  }
  return input;
}

std::string Result(const Expected<std::string>& text, const char* stage) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  if (text.ok()) {
    json.Field("text", *text);
  } else {
    json.Field("error", text.status().message());
    json.Field("code", StatusCodeName(text.code()));
    json.Field("stage", stage);
  }
  json.EndObject();
  return out;
}

int Run(const char* cases_path, const char* results_path) {
  std::ifstream cases(cases_path);
  std::ofstream results(results_path);
  if (!cases || !results) {
    std::fprintf(stderr, "cannot open %s or %s\n", cases_path, results_path);
    return 2;
  }
  std::optional<Expected<chat::ChatTemplate>> parsed;
  std::string line;
  while (std::getline(cases, line)) {
    const auto json = chat::JsonValue::Parse(line);
    if (!json.ok()) {
      results << Result(json.status(), "case") << '\n';
      continue;
    }
    const chat::JsonValue* source = json->Find("template");
    if (source != nullptr) parsed.emplace(chat::ChatTemplate::Parse(*source->string()));
    const chat::JsonValue* input = json->Find("input");
    if (!parsed->ok()) {
      results << Result(parsed->status(), "parse") << '\n';
    } else {
      results << Result((*parsed)->Render(ReadInput(input == nullptr ? chat::JsonValue() : *input)),
                        "render")
              << '\n';
    }
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: jinja_parity CASES RESULTS\n");
    return 2;
  }
  return penstock::Run(argv[1], argv[2]);
}

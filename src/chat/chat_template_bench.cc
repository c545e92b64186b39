// What a chat template costs: parsed once at load, rendered for every request.
#include <benchmark/benchmark.h>

#include <string>

#include "chat/chat_template.h"

namespace penstock::chat {
namespace {

// As templates with tools and reasoning are: a walk from the end, macros, tests by content.
constexpr const char* kTemplate =
    R"({%- macro text(content) %}{% if content is string %}{{ content }}
{%- else %}{% for part in content %}{{ part.text }}{% endfor %}{% endif %}{% endmacro %}
{%- if tools %}{{- '<|im_start|>system\n# Tools\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}
{{- '<|im_end|>\n' }}{% endif %}
{%- set ns = namespace(last=messages|length - 1, open=true) %}
{%- for message in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}
{%- if ns.open and message.role == 'user' and not message.content.startswith('<tool_response>') %}
{%- set ns.open = false %}{% set ns.last = index %}{% endif %}{% endfor %}
{%- for message in messages %}{% set content = text(message.content) %}
{%- if message.role == 'assistant' and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}
{{- '<|im_start|>' + message.role + '\n' + content|trim + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %})";

ChatInput Chat(int64_t messages) {
  JsonValue::Array list;
  for (int64_t i = 0; i < messages; ++i) {
    JsonValue message;
    message.Set("role", i % 2 == 0 ? "user" : "assistant");
    message.Set("content", std::string(i % 2 == 0 ? 200 : 800, 'a' + static_cast<char>(i % 26)));
    list.push_back(std::move(message));
  }
  ChatInput input;
  input.messages = std::move(list);
  input.tools = *JsonValue::Parse(R"([{"type": "function", "function": {"name": "get_weather",
      "description": "Weather of a place", "parameters": {"type": "object", "properties":
      {"location": {"type": "string"}}, "required": ["location"]}}}])");
  input.add_generation_prompt = true;
  return input;
}

void BM_Parse(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ChatTemplate::Parse(kTemplate));
}
BENCHMARK(BM_Parse);

void BM_Render(benchmark::State& state) {
  const auto parsed = ChatTemplate::Parse(kTemplate);
  const ChatInput input = Chat(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(parsed->Render(input));
}
BENCHMARK(BM_Render)->Arg(2)->Arg(20)->Arg(200);

}  // namespace
}  // namespace penstock::chat

BENCHMARK_MAIN();

#include "chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <thread>

namespace penstock::chat {
namespace {

using testing::HasSubstr;

JsonValue Json(std::string_view text) {
  auto value = JsonValue::Parse(text);
  EXPECT_TRUE(value.ok()) << text << ": " << value.status().ToString();
  return value.ok() ? *std::move(value) : JsonValue();
}

// The text, or "error: " and the message.
std::string Render(std::string_view source, const ChatInput& input = {}) {
  const auto parsed = ChatTemplate::Parse(std::string(source));
  if (!parsed.ok()) return "error: " + parsed.status().message();
  const auto text = parsed->Render(input);
  return text.ok() ? *text : "error: " + text.status().message();
}

ChatInput With(std::string_view variables) {
  ChatInput input;
  input.variables = Json(variables);
  return input;
}

ChatInput Chat(std::string_view messages) {
  ChatInput input;
  input.messages = Json(messages);
  return input;
}

constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}";

TEST(ChatTemplate, FromJson) {
  const auto parsed = [](std::string_view text, std::string_view then = "|tojson") {
    return Render("{{ (text|from_json)" + std::string(then) + " }}",
                  With(JsonValue(JsonValue::Object{{"text", std::string(text)}}).Print()));
  };
  EXPECT_EQ(parsed(R"({"a":[1,2.5,true,null,"x\u00e9\n"],"b":{"c":-3},"":{}})"),
            R"({"a": [1, 2.5, true, null, "xé\n"], "b": {"c": -3}, "": {}})");
  EXPECT_EQ(parsed(R"({"city": "Oslo", "days": 3})", ".items()|map('join', '=')|join(';')"),
            "city=Oslo;days=3");
  EXPECT_EQ(parsed(" 7 ", " + 1"), "8");
  EXPECT_EQ(parsed(R"("a" )", " ~ 'b'"), "ab");
  // As DeepSeek's templates call it, on arguments that came as a text.
  EXPECT_EQ(Render("{% for m in messages %}{% for c in m.tool_calls %}"
                   "{% for k, v in (c.function.arguments|from_json).items() %}{{ k }}:{{ v }} "
                   "{% endfor %}{% endfor %}{% endfor %}",
                   Chat(R"([{"role": "assistant", "tool_calls": [{"function":
                       {"name": "f", "arguments": "{\"x\": 1, \"y\": [2]}"}}]}])")),
            "x:1 y:[2] ");
  for (const char* bad : {"", "{", "[1,]", "nope", "{'a': 1}", "1 2", "\"\\ud800\""}) {
    EXPECT_THAT(parsed(bad), HasSubstr("failed at line 1: from_json: ")) << bad;
  }
  EXPECT_THAT(parsed(std::string(65, '[') + std::string(65, ']')),
              HasSubstr("failed at line 1: from_json: "));
  EXPECT_THAT(Render("{{ 5|from_json }}"), HasSubstr("from_json: a text is expected"));
  EXPECT_THAT(Render("{{ '1'|from_json(2) }}"), HasSubstr("from_json"));
}

TEST(ChatTemplate, AChat) {
  ChatInput input = Chat(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_EQ(Render(kChatMl, input), "<|im_start|>user\nHi<|im_end|>\n");
  input.add_generation_prompt = true;
  EXPECT_EQ(Render(kChatMl, input), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, VariablesFromOutside) {
  ChatInput input = With(R"({"enable_thinking": false})");
  input.special_tokens = {{"bos_token", "<s>"}};
  input.tools = Json(R"([{"name": "f"}])");
  EXPECT_EQ(Render("{{ bos_token }}{{ enable_thinking }}{{ tools[0].name }}{{ documents }}", input),
            "<s>FalsefNone");
  EXPECT_EQ(Render("{{ tools is defined }}{{ tools is none }}{{ nope is defined }}{{ nope }}"),
            "TrueTrueFalse");
  const auto parsed = ChatTemplate::Parse(
      "{% set a = 1 %}{{ a }}{% if enable_thinking %}{% for x in tools %}{{ x }}{% endfor %}"
      "{% endif %}{{ range(2)|list }}{% macro m(p) %}{{ inner }}{{ p }}{% endmacro %}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_THAT(parsed->variables(), testing::ElementsAre("enable_thinking", "inner", "tools"));
  EXPECT_TRUE(parsed->Reads("tools"));
  EXPECT_FALSE(parsed->Reads("a"));
}

TEST(ChatTemplate, AddGenerationPromptMayComeWithTheVariables) {
  EXPECT_EQ(Render("{{ add_generation_prompt }}", With(R"({"add_generation_prompt": true})")),
            "True");
  EXPECT_THAT(Render("x", With(R"({"messages": []})")), HasSubstr("may not set 'messages'"));
}

TEST(ChatTemplate, WhatATemplateRaisesIsTheMessage) {
  const auto parsed = ChatTemplate::Parse("a\n{{ raise_exception('Roles must ' ~ 'alternate') }}");
  ASSERT_TRUE(parsed.ok());
  const Status status = parsed->Render({}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "Roles must alternate");
  EXPECT_EQ(status.field(), "messages");
}

TEST(ChatTemplate, OtherFailuresNameTheLine) {
  EXPECT_EQ(Render("a\n\n{{ x.y }}"),
            "error: the chat template failed at line 3: 'x' is undefined");
  EXPECT_EQ(Render("{% if a %}\n{{ b"),
            "error: the chat template is refused, line 2: unexpected "
            "end of the template");
}

TEST(ChatTemplate, WhatIsMissingIsNamedWhenItIsParsed) {
  const auto refused = [](const char* source) {
    const Status status = ChatTemplate::Parse(source).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << source;
    EXPECT_EQ(status.field(), "chat_template");
    return status.message();
  };
  EXPECT_THAT(refused("\n{% if a %}{{ b|nope }}{% endif %}"), HasSubstr("line 2: filter 'nope'"));
  EXPECT_THAT(refused("{{ b is nope }}"), HasSubstr("test 'nope'"));
  EXPECT_THAT(refused("{% for x in y %}{{ nope(x) }}{% endfor %}"), HasSubstr("function 'nope'"));
  EXPECT_THAT(refused("{{ b|map('nope')|list }}"), HasSubstr("filter 'nope'"));
  EXPECT_THAT(refused("{{ b|selectattr('a', 'nope')|list }}"), HasSubstr("test 'nope'"));
  for (const char* tag : {"include", "import", "extends", "from", "block", "autoescape"}) {
    EXPECT_THAT(refused((std::string("\n\n{% ") + tag + " 'x' %}").c_str()),
                HasSubstr("line 3: {% " + std::string(tag) + " %} is not supported"));
  }
}

TEST(ChatTemplate, WhatATemplateAsksForItselfMayBeMissing) {
  EXPECT_EQ(Render("{% if f is defined %}{{ f(1) }}{% endif %}a"), "a");
  EXPECT_EQ(Render("{% if 'nope' is filter %}{{ 1|nope }}{% endif %}a"), "a");
  EXPECT_EQ(Render("{% if a %}{% macro f() %}b{% endmacro %}{% endif %}{{ f() if a else 'c' }}"),
            "c");
}

TEST(ChatTemplate, ReasoningComesUnderSeveralNames) {
  const auto read = [](std::string_view message) {
    return Render("{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}", Chat(message));
  };
  EXPECT_EQ(read(R"([{"role": "assistant", "reasoning": "r"}])"), "r|r");
  EXPECT_EQ(read(R"([{"thinking": "t", "reasoning": "r"}])"), "t|t");
  EXPECT_EQ(read(R"([{"reasoning_content": "c", "thinking": "t"}])"), "c|t");
  EXPECT_EQ(read(R"([{"reasoning": null}])"), "|");
}

TEST(ChatTemplate, ContinuesTheLastMessage) {
  ChatInput input = Chat(R"([{"role": "user", "content": "Hi"},
                             {"role": "assistant", "content": "Well, "}])");
  input.continue_final_message = true;
  EXPECT_EQ(Render(kChatMl, input),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nWell, ");
  // A template that trims: the space is gone.
  EXPECT_EQ(Render("{% for m in messages %}[{{ m.content|trim }}]{% endfor %}", input),
            "[Hi][Well,");
  EXPECT_THAT(Render("{{ messages[0].content }}", input), HasSubstr("continue_final_message"));
  EXPECT_THAT(Render("{{ messages[-1].content|upper }}", input), HasSubstr("as it is"));
  input.messages = Json(R"([{"role": "a", "content": [{"type": "text", "text": "x"},
                                                      {"type": "text", "text": "y"}, {"k": 1}]}])");
  EXPECT_EQ(Render("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}", input), "<x><y");
  input.messages = Json(R"([{"role": "assistant", "content": null}])");
  EXPECT_THAT(Render(kChatMl, input), HasSubstr("no content"));
  input.messages = Json("[]");
  EXPECT_THAT(Render(kChatMl, input), HasSubstr("no message"));
  input.add_generation_prompt = true;
  EXPECT_THAT(Render(kChatMl, input), HasSubstr("do not go together"));
}

TEST(ChatTemplate, MessagesMustBeObjects) {
  EXPECT_THAT(Render("", Chat("{}")), HasSubstr("must be an array"));
  EXPECT_THAT(Render("", Chat("[1]")), HasSubstr("must be an object"));
}

TEST(ChatTemplate, TextThatIsNotUtf8IsMended) {
  ChatInput input;
  JsonValue message;
  message.Set("content", std::string("a\xff\xe4"));
  input.messages = JsonValue::Array{message};
  EXPECT_EQ(Render("{{ messages[0].content|length }}{{ messages[0].content[::-1] }}", input),
            "3\xEF\xBF\xBD\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(Render("a\xff{{ '\xe4' }}"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ChatTemplate, TheTimeIsLocal) {
  ChatInput input;
  input.now = std::chrono::system_clock::from_time_t(1'752'148'800);
  std::time_t seconds = 1'752'148'800;
  char text[64];
  std::strftime(text, sizeof text, "%d %b %Y %H:%M", std::localtime(&seconds));
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y %H:%M') }}", input), text);
  EXPECT_EQ(Render("[{{ strftime_now('') }}]", input), "[]");
}

TEST(ChatTemplate, WhiteSpaceOfBlocks) {
  EXPECT_EQ(Render("  {% if true %}\n  a\n  {% endif %}\nb\n"), "  a\nb");
  EXPECT_EQ(Render("a  {%- if true -%}  b  {%- endif %}  c"), "ab  c");
  EXPECT_EQ(Render("  {%+ if true +%}\nx{% endif %}"), "  \nx");
  EXPECT_EQ(Render("  {{ 1 }}\n  {# c #}\nx\r\ny\r"), "  1\nx\ny");
  EXPECT_EQ(Render("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
}

TEST(ChatTemplate, WhatABlockSetsIsItsOwn) {
  EXPECT_EQ(Render("{% set a = 1 %}{% for x in [1, 2] %}{{ a }}{% set a = 9 %}{{ a }}{% endfor %}"
                   "{{ a }}"),
            "19191");
  EXPECT_EQ(Render("{% set ns = namespace(n=0) %}{% for x in [1, 2] %}{% set ns.n = ns.n + x %}"
                   "{% endfor %}{{ ns.n }}"),
            "3");
  EXPECT_EQ(Render("{% if false %}{% set tools = 1 %}{% endif %}{{ tools }}"), "None");
  EXPECT_EQ(Render("{% macro m() %}{{ q }}{% endmacro %}{% set q = 5 %}{{ m() }}"), "5");
}

TEST(ChatTemplate, IntegersHave64Bits) {
  EXPECT_EQ(Render("{{ 2 ** 62 }}"), "4611686018427387904");
  EXPECT_THAT(Render("{{ 2 ** 63 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ 9223372036854775808 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ (-9223372036854775807 - 1) // -1 }}"), HasSubstr("64 bits"));
  EXPECT_EQ(Render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
}

TEST(ChatTemplate, CopiesAndThreadsShareTheTree) {
  const auto parsed = ChatTemplate::Parse(std::string(kChatMl));
  ASSERT_TRUE(parsed.ok());
  const ChatTemplate copy = *parsed;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&copy, i] {
      const std::string name = std::to_string(i);
      JsonValue message;
      message.Set("role", "user");
      message.Set("content", name);
      ChatInput input;
      input.messages = JsonValue::Array{message};
      for (int n = 0; n < 200; ++n) {
        EXPECT_EQ(*copy.Render(input), "<|im_start|>user\n" + name + "<|im_end|>\n");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace penstock::chat

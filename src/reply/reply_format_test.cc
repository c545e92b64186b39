#include "reply/reply_format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "json/json.h"

namespace penstock::reply {
namespace {

TEST(ReplyFormat, ByMarkers) {
  EXPECT_EQ(DetectReplyFormat("").tools, ToolForm::kNone);
  EXPECT_FALSE(TakesTools("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_TRUE(TakesTools("{% if tools %}{{ tools | tojson }}{% endif %}"));
  EXPECT_TRUE(TakesTools("{{ '[TOOL_CALLS]' }}"));
  for (const char* thinks : {"{% if enable_thinking %}", "{{ '</think>' }}",
                             "{{ reasoning_effort }}", "{% if thinking %}"}) {
    EXPECT_TRUE(TakesThinking(thinks)) << thinks;
  }
  EXPECT_FALSE(TakesThinking("{% if tools %}<tool_call>{% endif %}"));
  EXPECT_EQ(DetectReplyFormat("").think_begin, "");
  EXPECT_EQ(DetectReplyFormat("{{ '<think>' }}..</think>").think_end, "</think>");
  EXPECT_EQ(DetectReplyFormat("[THINK]..[/THINK]").think_begin, "[THINK]");
  EXPECT_EQ(DetectReplyFormat("<tool_call>{\"name\": 1, \"arguments\": 2}").tools,
            ToolForm::kHermes);
  EXPECT_EQ(DetectReplyFormat("\"<tool_call>{\\\"arguments\\\": 2}\"").tools, ToolForm::kHermes);
  EXPECT_EQ(DetectReplyFormat("<tool_call>f<arg_key>a \"arguments\"").tools, ToolForm::kNone);
  EXPECT_EQ(DetectReplyFormat("<tool_call><function=f><parameter=a>").tools, ToolForm::kQwenCoder);
  EXPECT_EQ(DetectReplyFormat("<function=f>{} \"arguments\"").tools, ToolForm::kNone);
  EXPECT_EQ(DetectReplyFormat("[TOOL_CALLS]").tools, ToolForm::kMistral);
  EXPECT_EQ(DetectReplyFormat("[TOOL_CALLS] [ARGS]").tools, ToolForm::kMistralNames);
  EXPECT_EQ(DetectReplyFormat("<|python_tag|>").tools, ToolForm::kLlama);
  EXPECT_EQ(DetectReplyFormat("\"parameters\"").tools, ToolForm::kNone);
}

TEST(ReplyFormat, ThePromptMayOpenThinking) {
  const ReplyFormat thinks = DetectReplyFormat("<think></think>");
  EXPECT_TRUE(PromptOpensThinking(thinks, "<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(PromptOpensThinking(thinks, "<think>"));
  EXPECT_FALSE(PromptOpensThinking(thinks, "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(PromptOpensThinking(thinks, "<|im_start|>assistant\n"));
  EXPECT_FALSE(PromptOpensThinking(thinks, " \n"));
  EXPECT_FALSE(PromptOpensThinking(ReplyFormat(), "<think>"));
}

TEST(ReplyFormat, Markers) {
  EXPECT_TRUE(MarkerTokens(ReplyFormat()).empty());
  EXPECT_EQ(MarkerTokens(DetectReplyFormat("[TOOL_CALLS]")).front(), "[TOOL_CALLS]");
  EXPECT_EQ(MarkerTokens(DetectReplyFormat("<think></think><|python_tag|>")).size(), 3u);
}

constexpr std::array<std::pair<ToolForm, const char*>, 6> kToolForms = {{
    {ToolForm::kNone, "none"},
    {ToolForm::kHermes, "hermes"},
    {ToolForm::kLlama, "llama"},
    {ToolForm::kMistral, "mistral"},
    {ToolForm::kMistralNames, "mistral with names"},
    {ToolForm::kQwenCoder, "qwen_coder"},
}};

const char* ToolFormName(ToolForm form) {
  for (const auto& [named, name] : kToolForms) {
    if (named == form) return name;
  }
  return "?";
}

// The templates of the test data whose form is known by their models' pages; all others have none.
TEST(ReplyFormat, RealTemplates) {
  const std::map<std::string, std::string> expected = {
      {"mistralai/Mistral-7B-Instruct-v0.3 (JSON Schema)", "mistral"},
      {"CISCai/Mistral-7B-Instruct-v0.3-SOTA-GGUF", "mistral"},
      {"mistralai/Mistral-Nemo-Instruct-2407", "mistral"},
      {"NousResearch/Hermes-2-Pro-Llama-3-8B (JSON Schema)", "hermes"},
      {"meta-llama/Llama-3.1-8B-Instruct", "llama"},
      {"meta-llama/Llama-3.2-11B-Vision-Instruct", "llama"},
      {"deepseek-ai/DeepSeek-R1", "none, thinks"},
      {"Qwen/Qwen2.5-7B-Instruct", "hermes"},
      {"Qwen/Qwen3-0.6B", "hermes, thinks"},
      {"Qwen/Qwen3.5-4B", "qwen_coder, thinks"},
      {"HuggingFaceTB/SmolLM3-3B", "hermes, thinks"},
      {"moonshotai/Kimi-K2-Thinking", "none, thinks"},
      {"LiquidAI/LFM2.5-VL-450M", "none, thinks"},
      {"zai-org/GLM-5.1", "none, thinks"},
  };
  const char* data = std::getenv("PENSTOCK_TESTDATA");
  const std::string root =
      data != nullptr ? data : std::string(PENSTOCK_SOURCE_DIR) + "/../shared/testdata";
  const std::string path = root + "/huggingface__huggingface.js/jinja_e2e.json";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "NO TEST DATA at " << path << ": set PENSTOCK_TESTDATA";
  }
  const auto document = JsonDocument::ParseFile(path, 16 << 20);
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  size_t templates = 0, found = 0;
  for (const char* group : {"default", "custom"}) {
    const auto models = document->Object()->GetObject(group);
    ASSERT_TRUE(models.ok());
    models->ForEach([&](std::string_view name, JsonElement) {
      const auto text = models->GetObject(name)->GetString("chat_template");
      ASSERT_TRUE(text.ok()) << name;
      const ReplyFormat format = DetectReplyFormat(*text);
      const std::string told =
          std::string(ToolFormName(format.tools)) + (format.think_begin.empty() ? "" : ", thinks");
      const auto known = expected.find(std::string(name));
      EXPECT_EQ(told, known == expected.end() ? "none" : known->second) << name;
      found += known != expected.end();
      ++templates;
    });
  }
  EXPECT_EQ(templates, 53u);
  EXPECT_EQ(found, expected.size());
}

}  // namespace
}  // namespace penstock::reply

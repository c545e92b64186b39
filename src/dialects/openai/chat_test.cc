#include "dialects/openai/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/openai/chat_messages.h"
#include "threads/byte_budget.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;

const char* const kHello = R"("messages":[{"role":"user","content":"hi"}])";

TextCall Parsed(const std::string& more = "") {
  auto call = ParseChatCall(std::string("{") + kHello + (more.empty() ? "" : ",") + more + "}");
  EXPECT_TRUE(call.ok()) << more << ": " << call.status().ToString();
  return call.ok() ? *std::move(call) : TextCall();
}

const api::ChatPrompt& Chat(const TextCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompts.at(0).value);
}

TEST(ParseChat, WhatIsAbsentIsTheModels) {
  const TextCall call = Parsed();
  const api::TextRequest& request = call.request;
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(request.samples, 1);
  EXPECT_FALSE(call.stream);
  EXPECT_TRUE(request.parses_reply);
  EXPECT_EQ(request.tools, nullptr);
  EXPECT_FALSE(request.sampling.temperature || request.sampling.top_p || request.sampling.top_k);
  EXPECT_FALSE(request.sampling.options.max_tokens);
  EXPECT_FALSE(request.max_tokens_default);
  EXPECT_TRUE(Chat(call).add_generation_prompt);
  EXPECT_EQ(Chat(call).messages.Print(), R"([{"role":"user","content":"hi"}])");
  sample::GenerationDefaults model;
  model.temperature = 0.5f;
  model.max_new_tokens = 7;
  model.stop_strings = {"x"};
  const sample::SamplingOptions options = request.sampling.With(model);
  EXPECT_EQ(options.temperature, 0.5f);
  EXPECT_FALSE(options.max_tokens);
  EXPECT_EQ(options.stop, std::vector<std::string>{"x"});
}

TEST(ParseChat, TakesEveryFieldOfSampling) {
  const TextCall call = Parsed(
      R"("temperature":0.7,"top_p":0.9,"top_k":40,"min_p":0.05,"repetition_penalty":1.1,
         "presence_penalty":-1,"frequency_penalty":2,"seed":-1,"stop":["a","b"],
         "include_stop_str_in_output":true,"stop_token_ids":[5],"ignore_eos":true,
         "logit_bias":{"3":-100,"7":1.5},"max_tokens":5,"max_completion_tokens":6,"n":2,
         "stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":4,
         "user":"u","store":true,"metadata":{"a":"b"},"response_format":{"type":"text"},
         "unknown":[1],"min_tokens":5,"functions":null,"modalities":["text"])");
  const api::TextRequest& request = call.request;
  const sample::SamplingOptions options = request.sampling.With({});
  EXPECT_EQ(options.temperature, 0.7f);
  EXPECT_EQ(options.top_p, 0.9f);
  EXPECT_EQ(options.top_k, 40);
  EXPECT_EQ(options.min_p, 0.05f);
  EXPECT_EQ(options.repetition_penalty, 1.1f);
  EXPECT_EQ(options.presence_penalty, -1);
  EXPECT_EQ(options.frequency_penalty, 2);
  EXPECT_EQ(options.seed, ~uint64_t{0});
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(options.include_stop && options.ignore_eos && options.logprobs);
  EXPECT_EQ(options.stop_token_ids, std::vector<int32_t>{5});
  ASSERT_EQ(options.logit_bias.size(), 2u);
  EXPECT_EQ(options.logit_bias[1].id, 7);
  EXPECT_EQ(options.max_tokens, 6);
  EXPECT_EQ(options.min_tokens, 5);
  EXPECT_EQ(options.top_logprobs, 4);
  EXPECT_EQ(request.samples, 2);
  EXPECT_TRUE(call.stream && request.streams && call.include_usage);
}

TEST(ParseChat, MessagesAreAsTemplatesWantThem) {
  const auto call = ParseChatCall(
      R"({"messages":[{"role":"system","content":[{"type":"text","text":"a"},"b"],"name":"n"},
          {"role":"assistant","content":null,"reasoning":"r","tool_calls":[
            {"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
            {"id":"2","type":"function","function":{"name":"f","arguments":"not JSON"}}]},
          {"role":"tool","tool_call_id":"1","content":"ok"}]})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(Chat(*call).messages.Print(),
            R"([{"role":"system","content":"a\nb","name":"n"},)"
            R"({"role":"assistant","content":"","reasoning":"r","tool_calls":[)"
            R"({"id":"1","type":"function","function":{"name":"f","arguments":{"x":1}}},)"
            R"({"id":"2","type":"function","function":{"name":"f","arguments":"not JSON"}}],)"
            R"("reasoning_content":"r"},)"
            R"({"role":"tool","tool_call_id":"1","content":"ok"}])");
}

TEST(ParseChat, ToolsReachTemplateAndParser) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  const TextCall call = Parsed(tools + R"(,"parallel_tool_calls":false)");
  ASSERT_NE(call.request.tools, nullptr);
  ASSERT_NE(call.request.tools->Find("f"), nullptr);
  EXPECT_EQ(call.request.tools->Find("f")->parameters, R"({"type":"object"})");
  EXPECT_FALSE(call.request.parallel_calls);
  EXPECT_FALSE(Chat(call).tools.is_null());
  const TextCall none = Parsed(tools + R"(,"tool_choice":"none")");
  EXPECT_EQ(none.request.tools, nullptr);
  EXPECT_TRUE(Chat(none).tools.is_null());
  EXPECT_TRUE(Chat(Parsed(R"("tools":[])")).tools.is_null());
}

TEST(ParseChat, TemplateOptions) {
  const TextCall call =
      Parsed(R"("chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low",
                "continue_final_message":true)");
  EXPECT_EQ(Chat(call).kwargs.Print(), R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_TRUE(Chat(call).continue_final_message);
  EXPECT_FALSE(Chat(call).add_generation_prompt);
  EXPECT_EQ(Chat(call).thinking_field, "");
  EXPECT_EQ(Chat(Parsed(R"("chat_template_kwargs":{"enable_thinking":true})")).thinking_field,
            "chat_template_kwargs.enable_thinking");
}

struct Refused {
  const char* fields;
  const char* field;
};

TEST(ParseChat, RefusesByName) {
  for (const Refused& each : {
           Refused{R"("response_format":{"type":"structural_tag"})", "response_format"},
           {R"("response_format":{"type":"json_object"},"guided_regex":"a")", "guided_regex"},
           {R"("guided_regex":"a","tools":[{"type":"function","function":{"name":"f"}}])",
            "guided_regex"},
           {R"("tool_choice":"required")", "tool_choice"},
           {R"("tool_choice":{"type":"function"})", "tool_choice.function"},
           {R"("tool_choice":"some")", "tool_choice"},
           {R"("functions":[{}])", "functions[0].name"},
           {R"("function_call":"auto")", "function_call"},
           {R"("audio":{"voice":"x"})", "audio"},
           {R"("modalities":["audio"])", "modalities"},
           {R"("prediction":{"type":"content"})", "prediction"},
           {R"("web_search_options":{"a":1})", "web_search_options"},
           {R"("min_tokens":-1)", "min_tokens"},
           {R"("min_tokens":3,"max_tokens":2)", "min_tokens"},
           {R"("guided_regex":3)", "guided_regex"},
           {R"("grammar":{})", "grammar"},
           {R"("echo":true)", "echo"},
           {R"("chat_template":"a")", "chat_template"},
           {R"("best_of":2)", "best_of"},
           {R"("n":0)", "n"},
           {R"("n":17)", "n"},
           {R"("temperature":2.5)", "temperature"},
           {R"("top_k":-2)", "top_k"},
           {R"("seed":"x")", "seed"},
           {R"("seed":1.5)", "seed"},
           {R"("stop":5)", "stop"},
           {R"("stop":["a",5])", "stop[1]"},
           {R"("stop_token_ids":[-1])", "stop_token_ids[0]"},
           {R"("logit_bias":[1])", "logit_bias"},
           {R"("logit_bias":{"-1":1})", "logit_bias.-1"},
           {R"("logit_bias":{"1":"x"})", "logit_bias.1"},
           {R"("max_tokens":0)", "max_tokens"},
           {R"("max_completion_tokens":-1)", "max_completion_tokens"},
           {R"("top_logprobs":2)", "top_logprobs"},
           {R"("logprobs":3)", "logprobs"},
           {R"("stream_options":{})", "stream_options"},
           {R"("tools":[{"type":"x"}])", "tools[0].type"},
           {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
           {R"("tools":{})", "tools"},
           {R"("chat_template_kwargs":5)", "chat_template_kwargs"},
           {R"("continue_final_message":true,"add_generation_prompt":true)",
            "continue_final_message"},
       }) {
    const auto call = ParseChatCall(std::string("{") + kHello + "," + each.fields + "}");
    ASSERT_FALSE(call.ok()) << each.fields;
    EXPECT_EQ(call.code(), StatusCode::kInvalidArgument) << each.fields;
    EXPECT_EQ(call.status().field(), each.field) << call.status().ToString();
  }
}

TEST(ParseChat, RefusesMessages) {
  const std::string many(kMessagesMax * 3, ' ');
  for (const Refused& each : {
           Refused{R"({})", "messages"},
           {R"({"messages":[]})", "messages"},
           {R"({"messages":5})", "messages"},
           {R"({"messages":[5]})", "messages[0]"},
           {R"({"messages":[{"role":5}]})", "messages[0].role"},
           {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
           {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
           {R"({"messages":[{"role":"tool","content":null}]})", "messages[0].content"},
           {R"({"messages":[{"role":"tool","content":[{"type":"document","document":{}}]}]})",
            "messages[0].content[0].document.data"},
           {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
            "messages[0].content[0].type"},
           {R"({"messages":[{"role":"user","content":[{"type":"text","text":5}]}]})",
            "messages[0].content[0].text"},
           {R"({"messages":[{"role":"user","content":[5]}]})", "messages[0].content[0]"},
           {R"({"messages":[{"role":"assistant","tool_calls":5}]})", "messages[0].tool_calls"},
           {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})",
            "messages[0].tool_calls[0].function"},
           {R"({"messages":[{"role":"assistant","function_call":{}}]})",
            "messages[0].function_call.name"},
       }) {
    const auto call = ParseChatCall(each.fields);
    ASSERT_FALSE(call.ok()) << each.fields;
    EXPECT_EQ(call.status().field(), each.field) << call.status().ToString();
  }
  std::string body = R"({"messages":[0)";
  for (size_t i = 0; i < kMessagesMax; ++i) body += ",0";
  EXPECT_EQ(ParseChatCall(body + "]}").status().field(), "messages");
}

TEST(ParseCompletion, PromptsOfAllKinds) {
  const auto call = ParseCompletionCall(R"({"prompt":["a","b"],"n":2,"echo":true})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  ASSERT_EQ(call->request.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::string>(call->request.prompts[1].value), "b");
  EXPECT_EQ(call->request.prompts[1].field, "prompt[1]");
  EXPECT_TRUE(call->request.prompts[1].add_special_tokens);
  EXPECT_EQ(call->request.max_tokens_default, 16);
  EXPECT_TRUE(call->request.echoes_prompt);
  EXPECT_FALSE(call->request.parses_reply);
  const auto ids = ParseCompletionCall(R"({"prompt":[1,2],"logprobs":0,"max_tokens":3})");
  ASSERT_TRUE(ids.ok()) << ids.status().ToString();
  EXPECT_EQ(std::get<std::vector<int32_t>>(ids->request.prompts.at(0).value),
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(ids->request.prompts[0].field, "prompt");
  EXPECT_TRUE(ids->request.sampling.options.logprobs);
  EXPECT_EQ(ids->request.sampling.options.max_tokens, 3);
  EXPECT_FALSE(ids->request.scores_prompt || ids->request.prompt_only);
  const auto scored = ParseCompletionCall(R"({"prompt":"a","echo":true,"logprobs":1})");
  ASSERT_TRUE(scored.ok());
  EXPECT_TRUE(scored->request.scores_prompt && !scored->request.prompt_only);
  const auto alone = ParseCompletionCall(
      R"({"prompt":"a","echo":true,"logprobs":5,"max_tokens":0,"min_tokens":3})");
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  EXPECT_TRUE(alone->request.scores_prompt && alone->request.prompt_only);
  EXPECT_FALSE(alone->request.sampling.options.max_tokens);
  for (const Refused& each :
       {Refused{R"({})", "prompt"},
        {R"({"prompt":"a","max_tokens":0})", "max_tokens"},
        {R"({"prompt":"a","echo":true,"max_tokens":-1})", "max_tokens"},
        {R"({"prompt":["a","b"],"suffix":"c"})", "suffix"},
        {R"({"prompt":"a","echo":true,"suffix":"c"})", "suffix"},
        {R"({"prompt":"a","logprobs":21})", "logprobs"},
        {R"({"prompt":"a","response_format":{"type":"json_schema"}})", "response_format.schema"}}) {
    EXPECT_EQ(ParseCompletionCall(each.fields).status().field(), each.field) << each.fields;
  }
}

TEST(Completion, FillsBetweenTwoTexts) {
  const auto call = ParseCompletionCall(R"({"prompt":"a","suffix":"b"})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  const auto& fill = std::get<api::FillPrompt>(call->request.prompts.at(0).value);
  EXPECT_EQ(fill.prefix, "a");
  EXPECT_EQ(fill.suffix, "b");
}

TEST(ApplyTemplate, TakesWhatATemplateReads) {
  const auto request = ParseApplyTemplate(
      R"({"model":"m","messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->model, "m");
  EXPECT_FALSE(request->chat.add_generation_prompt);
  EXPECT_EQ(PrintApplyTemplate({"a\"b"}), R"({"prompt":"a\"b"})");
}

TEST(Chat, ObjectsOfAConversationHaveABound) {
  const auto object = [](size_t members) {
    std::string text = "{\"a0\":0";
    for (size_t i = 1; i < members; ++i) text += ",\"a" + std::to_string(i) + "\":0";
    return text + "}";
  };
  const auto status = [](const std::string& fields) {
    return ParseChatCall("{" + fields + "}").status();
  };
  const std::string hello = R"("messages":[{"role":"user","content":"a"}],)";
  EXPECT_TRUE(status(hello + R"("chat_template_kwargs":)" + object(kMembersMax)).ok());
  const Status many = status(hello + R"("chat_template_kwargs":)" + object(kMembersMax + 1));
  EXPECT_EQ(many.code(), StatusCode::kUnprocessable);
  EXPECT_EQ(many.field(), "chat_template_kwargs");
  EXPECT_THAT(many.message(), testing::HasSubstr("4097 members; the limit is 4096"));
  const std::string large = object(5000);
  EXPECT_EQ(status(R"("messages":[{"role":"user","content":"a","x":)" + large + "}]").field(),
            "messages");
  EXPECT_EQ(status(hello + R"("tools":[{"type":"function","function":{"name":"f","parameters":)" +
                   large + "}}]")
                .field(),
            "tools");
  std::string arguments;
  JsonWriter(&arguments).String(large);
  EXPECT_EQ(status(R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
                   R"("arguments":)" +
                   arguments + "}}]}]")
                .code(),
            StatusCode::kUnprocessable)
      << "and in JSON that is a text";
}

TEST(Chat, WhatAConversationTakesIsCountedForAsLongAsItLives) {
  const auto budget = std::make_shared<ByteBudget>(16 << 20);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  std::string body =
      R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"v":[0)";
  for (int i = 1; i < 100'000; ++i) body += ",0";
  body += "]}}";
  {
    const auto call = ParseChatCall(body, &context);
    ASSERT_TRUE(call.ok()) << call.status().ToString();
    EXPECT_GE(budget->used(), 100'000 * static_cast<int64_t>(sizeof(chat::JsonValue)));
    EXPECT_LT(budget->used(), 120'000 * static_cast<int64_t>(sizeof(chat::JsonValue)));
    // A copy of the call keeps it, a conversation that has been rendered does not.
    TextCall copy = *call;
    EXPECT_EQ(std::get<api::ChatPrompt>(copy.request.prompts[0].value).held.use_count(), 2);
  }
  EXPECT_EQ(budget->used(), 0);
  ASSERT_TRUE(context.memory->Take(15 << 20).ok());
  EXPECT_EQ(ParseChatCall(body, &context).code(), StatusCode::kPayloadTooLarge);
  context.cancel = std::make_shared<CancelToken>();
  context.cancel->Cancel();
  EXPECT_EQ(ParseApplyTemplate(body, &context).code(), StatusCode::kPayloadTooLarge)
      << "memory comes before the values";
  context.memory->Give(15 << 20);
  EXPECT_EQ(ParseApplyTemplate(body, &context).code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace penstock::dialects

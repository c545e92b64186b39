#include "dialects/cohere/cohere.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/print_test_util.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;

Expected<CohereEmbedCall> Embed(const std::string& text, int version = 2) {
  return Parsed(
      [version](const JsonObject& object) { return ParseCohereEmbed(object, version, {}); }, text);
}

TEST(Cohere, EmbedTakesTextsAndInputs) {
  const auto texts =
      Embed(R"({"model":"m","texts":["a","b"],"input_type":"search_query","output_dimension":8,)"
            R"("embedding_types":["float","int8","base64","ubinary","int8"],"priority":1})");
  ASSERT_TRUE(texts.ok()) << texts.status().ToString();
  EXPECT_EQ(texts->request.inputs[1].text, "b");
  EXPECT_EQ(texts->request.text.input_type, api::InputType::kQuery);
  EXPECT_EQ(texts->request.text.truncate, true);
  EXPECT_EQ(texts->request.dimensions, 8);
  EXPECT_EQ(texts->request.printed_value_bytes, 16 + 5 + 6 + 5);
  ASSERT_EQ(texts->types.size(), 4u);
  EXPECT_TRUE(texts->types[2].base64);
  const auto inputs = Embed(
      R"({"model":"m","inputs":[{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],)"
      R"("truncate":"NONE"})");
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->request.inputs[0].text, "a\nb");
  EXPECT_EQ(inputs->request.text.truncate, false);
  EXPECT_EQ(inputs->types.size(), 1u);
  EXPECT_TRUE(Embed(R"({"texts":["a"]})", 1)->types.empty());
}

TEST(Cohere, EmbedRefusesByName) {
  const auto field = [](const std::string& text) { return Embed(text).status().field(); };
  EXPECT_EQ(field(R"({"model":"m"})"), "texts");
  EXPECT_EQ(field(R"({"texts":["a"],"images":["x"]})"), "images");
  EXPECT_EQ(field(R"({"texts":["a"],"max_tokens":5})"), "max_tokens");
  EXPECT_EQ(field(R"({"texts":["a"],"embedding_types":["int4"]})"), "embedding_types");
  EXPECT_EQ(field(R"({"texts":["a"],"inputs":[]})"), "inputs");
  EXPECT_EQ(field(R"({"inputs":[{"content":[{"type":"image_url"}]}]})"),
            "inputs[0].content[0].type");
  EXPECT_EQ(field(R"({"inputs":[5]})"), "inputs[0]");
  EXPECT_EQ(field(R"({"texts":["a"],"input_type":"image"})"), "input_type");
}

TEST(Cohere, PrintsEmbeddingsByType) {
  api::EmbedResponse response{"m", 2, {1, 0, 0, -1}, {}, {}};
  response.usage.prompt_tokens = 3;
  const std::string text = PrintCohereEmbed(
      response, {{EmbeddingType::kInt8}, {EmbeddingType::kFloat, true}}, {"a", "b"}, "r", 2);
  EXPECT_THAT(text, HasSubstr(R"("response_type":"embeddings_by_type","embeddings":{"int8":)"
                              R"([[126,0],[0,-128]],"base64":["AACAPwAAAAA=","AAAAAAAAgL8="]})"));
  EXPECT_THAT(text,
              HasSubstr(R"("texts":["a","b"],"meta":{"api_version":{"version":"2"},)"
                        R"("billed_units":{"input_tokens":3}},"quantization":{"type":"int8")"));
  EXPECT_THAT(
      PrintCohereEmbed(response, {}, {"a", "b"}, "r", 1),
      HasSubstr(R"("response_type":"embeddings_floats","embeddings":[[1.0,0.0],[0.0,-1.0]])"));
}

TextCall Chat(const std::string& more) {
  auto call = Parsed(ParseCohereChat,
                     R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + more + "}");
  EXPECT_TRUE(call.ok()) << more << ": " << call.status().ToString();
  return call.ok() ? *std::move(call) : TextCall();
}

TEST(Cohere, ChatTakesItsNames) {
  const TextCall call =
      Chat(R"(,"k":5,"p":0.5,"temperature":0.3,"max_tokens":7,"stop_sequences":["x"],"seed":1,)"
           R"("stream":true,"logprobs":true,"thinking":{"type":"disabled"},"safety_mode":"OFF")");
  const sample::SamplingOptions options = call.request.sampling.With({});
  EXPECT_EQ(options.top_k, 5);
  EXPECT_EQ(options.top_p, 0.5f);
  EXPECT_EQ(options.max_tokens, 7);
  EXPECT_EQ(options.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(options.logprobs && call.stream);
  const auto& chat = std::get<api::ChatPrompt>(call.request.prompts[0].value);
  EXPECT_EQ(chat.kwargs.Print(), R"({"enable_thinking":false})");
  const auto plan =
      Parsed(ParseCohereChat, R"({"messages":[{"role":"assistant","tool_plan":"I look.",
      "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]})");
  EXPECT_THAT(std::get<api::ChatPrompt>(plan->request.prompts[0].value).messages.Print(),
              HasSubstr(R"("content":"I look.")"));
}

TEST(Cohere, ChatTakesWhatItAnswered) {
  const TextCall call =
      Chat(R"(,"response_format":{"type":"text"},"tool_choice":"NONE",)"
           R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}])");
  EXPECT_EQ(call.request.tools, nullptr);
  const auto turns = Parsed(ParseCohereChat, R"({"messages":[
      {"role":"assistant","content":[{"type":"thinking","thinking":"t"},
                                     {"type":"text","text":"a"}]},
      {"role":"tool","tool_call_id":"1","content":[
          {"type":"document","document":{"data":"r"}}]}]})");
  ASSERT_TRUE(turns.ok()) << turns.status().ToString();
  const std::string text =
      std::get<api::ChatPrompt>(turns->request.prompts[0].value).messages.Print();
  EXPECT_THAT(text, HasSubstr(R"("content":"a","reasoning_content":"t")"));
  EXPECT_THAT(text, HasSubstr(R"("content":"r")"));
}

TEST(Cohere, StreamsALogprobForEveryToken) {
  using Kind = reply::ReplyDelta::Kind;
  const auto printer = NewCohereChatPrinter(Chat(R"(,"logprobs":true)"), "r");
  std::string out;
  api::GeneratedPart part;
  part.token = api::TokenInfo{};
  for (const Kind kind : {Kind::kMarkup, Kind::kReasoning, Kind::kContent, Kind::kCallBegin,
                          Kind::kCallArguments, Kind::kCallEnd}) {
    reply::ReplyDelta delta;
    delta.kind = kind;
    delta.text = kind == Kind::kCallEnd ? "" : "x";
    part.deltas = {delta};
    printer->Part(part, &out);
  }
  part.deltas = {};
  printer->Part(part, &out);
  size_t count = 0;
  for (size_t at = 0; (at = out.find("\"logprobs\":{", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 7u) << out;
}

TEST(Cohere, ChatRefusesByName) {
  const auto field = [](const std::string& more) {
    return Parsed(ParseCohereChat, R"({"messages":[{"role":"user","content":"hi"}],)" + more + "}")
        .status()
        .field();
  };
  EXPECT_EQ(field(R"("documents":["d"])"), "documents");
  EXPECT_EQ(field(R"("response_format":{"type":"json"})"), "response_format");
  EXPECT_EQ(field(R"("tool_choice":"REQUIRED")"), "tool_choice");
  EXPECT_EQ(field(R"("p":2)"), "p");
  EXPECT_EQ(field(R"("raw_prompting":true)"), "raw_prompting");
  EXPECT_EQ(field(R"("thinking":{"type":"enabled","token_budget":5})"), "thinking.token_budget");
}

TEST(Cohere, StreamsBlocks) {
  using Kind = reply::ReplyDelta::Kind;
  const auto printer = NewCohereChatPrinter(Chat(""), "r");
  std::string out;
  printer->Begin({"m", {}}, &out);
  const reply::ReplyDelta call = CallBegin("c", "f");
  api::GeneratedPart part;
  part.deltas = {Delta(Kind::kReasoning, "t"),      Delta(Kind::kContent, "a"),
                 Delta(Kind::kContent, "b"),        call,
                 Delta(Kind::kCallArguments, "{}"), Delta(Kind::kCallEnd, "")};
  printer->Part(part, &out);
  api::ChoiceEnd end;
  end.calls = 1;
  printer->End(end, &out);
  api::GenerateEnd all;
  all.usage = {4, 1, 5};
  printer->Finish(all, &out);
  EXPECT_THAT(
      EventTypes(out),
      testing::ElementsAre("message-start", "content-start", "content-delta", "content-end",
                           "content-start", "content-delta", "content-delta", "content-end",
                           "tool-call-start", "tool-call-delta", "tool-call-end", "message-end"));
  EXPECT_THAT(
      out,
      HasSubstr(
          R"({"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"b"}}}})"));
  EXPECT_THAT(out, HasSubstr(R"("finish_reason":"TOOL_CALL")"));
  EXPECT_THAT(out, HasSubstr(R"("tokens":{"input_tokens":4,"output_tokens":5},"cached_tokens":1)"));
  out.clear();
  printer->Error(Status::Internal("broken"), "", &out);
  EXPECT_THAT(out, HasSubstr(R"("finish_reason":"ERROR","error":"broken")"));
}

TEST(Cohere, PrintsAWholeAnswer) {
  GeneratedAnswer answer;
  GeneratedChoice* const choice = answer.At(0);
  choice->content = "hi";
  choice->reasoning = "t";
  choice->reason = generate::FinishReason::kLength;
  EXPECT_THAT(
      NewCohereChatPrinter(Chat(""), "r")->Whole(answer),
      HasSubstr(R"({"id":"r","finish_reason":"MAX_TOKENS","message":{"role":"assistant",)"
                R"("content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"hi"}]})"));
}

}  // namespace
}  // namespace penstock::dialects

#include "dialects/llama/llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

using testing::HasSubstr;
using testing::Not;

Expected<LlamaCall> Parsed(std::string_view body) {
  return ParseLlamaCompletion(RequestBody::Parse(body)->object());
}

TEST(Llama, CompletionFieldsBecomeSampling) {
  const auto call = Parsed(
      R"({"prompt":"a","n_predict":9,"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,)"
      R"("repeat_penalty":1.2,"repeat_last_n":64,"seed":7,"stop":["x"],"n_probs":2,"stream":true,)"
      R"("cache_prompt":true,"id_slot":-1,"typical_p":1,"mirostat":0})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  const sample::SamplingOptions options = call->request.sampling.With({});
  EXPECT_EQ(options.temperature, 0.5f);
  EXPECT_EQ(options.repetition_penalty, 1.2f);
  EXPECT_EQ(options.repetition_window, 64);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.top_logprobs, 2);
  EXPECT_EQ(call->request.max_tokens_default, 9);
  EXPECT_TRUE(call->request.streams && call->probabilities && !call->tokens);
  // Negative ones are no limit; 0 reads the prompt alone.
  const auto open = Parsed(R"({"prompt":[5,6],"n_predict":-1})");
  EXPECT_FALSE(open->request.max_tokens_default || open->request.prompt_only);
  EXPECT_EQ(std::get<std::vector<int32_t>>(open->request.prompts.at(0).value).size(), 2u);
  EXPECT_TRUE(Parsed(R"({"prompt":"a","n_predict":0})")->request.prompt_only);
  for (const char* drawn : {"-1", "4294967295"}) {
    EXPECT_FALSE(Parsed(R"({"prompt":"a","seed":)" + std::string(drawn) + "}")
                     ->request.sampling.options.seed);
  }
}

TEST(Llama, WhatWouldChangeTheTextIsRefusedByName) {
  for (const auto& [field, value] :
       std::initializer_list<std::pair<std::string, std::string>>{{"grammar", "3"},
                                                                  {"json_schema", "3"},
                                                                  {"mirostat", "2"},
                                                                  {"typical_p", "0.5"},
                                                                  {"dry_multiplier", "0.8"},
                                                                  {"samplers", R"(["top_k"])"},
                                                                  {"n_probs", "21"},
                                                                  {"temperature", "9"},
                                                                  {"repeat_penalty", "0"}}) {
    EXPECT_EQ(Parsed(R"({"prompt":"a",")" + field + "\":" + value + "}").status().field(), field);
  }
  EXPECT_EQ(Parsed(R"({"prompt":["a","b"]})").status().field(), "prompt");
  EXPECT_EQ(Parsed("{}").status().field(), "prompt");
}

api::GeneratedPart Part(const std::string& text, int32_t id) {
  api::GeneratedPart part;
  reply::ReplyDelta delta;
  delta.kind = reply::ReplyDelta::Kind::kContent;
  delta.text = text;
  part.deltas = {delta};
  part.token = api::TokenInfo();
  part.token->id = id;
  return part;
}

TEST(Llama, Infill) {
  const auto parsed = [](const std::string& text) {
    const auto body = RequestBody::Parse(text);
    return ParseLlamaInfill(body->object());
  };
  const auto call = parsed(R"({"input_prefix":"a","input_suffix":"b","prompt":"c","n_predict":5,)"
                           R"("input_extra":[{"filename":"f","text":"t"},{"text":"u"}]})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  const auto& fill = std::get<api::FillPrompt>(call->request.prompts.at(0).value);
  EXPECT_EQ(fill.prefix + fill.suffix + fill.begun, "abc");
  ASSERT_EQ(fill.files.size(), 2u);
  EXPECT_EQ(fill.files[0].name, "f");
  EXPECT_EQ(call->request.max_tokens_default, 5);
  EXPECT_EQ(parsed("{}").status().field(), "input_prefix");
  EXPECT_EQ(parsed(R"({"input_prefix":"a","input_extra":[5]})").status().field(), "input_extra[0]");
  EXPECT_EQ(parsed(R"({"input_prefix":"a","input_extra":[{"text":5}]})").status().field(),
            "input_extra[0].text");
  EXPECT_EQ(parsed(R"({"input_prefix":"a","temperature":9})").status().field(), "temperature");
}

TEST(Llama, StreamsPartsAndAnEnd) {
  const auto call =
      Parsed(R"({"prompt":"a","stream":true,"return_tokens":true,"stop":["x","yz"]})");
  const auto printer = NewLlamaPrinter(*call);
  std::string out;
  printer->Begin({"m", {"a"}}, &out);
  EXPECT_EQ(out, "");
  printer->Part(Part("b\n", 5), &out);
  EXPECT_EQ(out, "data: {\"index\":0,\"content\":\"b\\n\",\"tokens\":[5],\"stop\":false}\n\n");
  out.clear();
  api::ChoiceEnd end;
  end.stop_string = 1;
  printer->End(end, &out);
  EXPECT_EQ(out, "");
  api::GenerateEnd all;
  all.usage = {4, 1, 5};
  all.times = {std::chrono::milliseconds(6), std::chrono::milliseconds(10)};
  printer->Finish(all, &out);
  EXPECT_THAT(out, HasSubstr(R"("content":"","tokens":[],"stop":true,"model":"m","prompt":"a",)"
                             R"("tokens_predicted":5,"tokens_evaluated":4,"tokens_cached":1,)"
                             R"("has_new_line":true,"truncated":false,"stop_type":"word",)"
                             R"("stopping_word":"yz")"));
  EXPECT_THAT(out, HasSubstr(R"("prompt_n":3,"prompt_ms":6.0,"prompt_per_token_ms":2.0,)"
                             R"("prompt_per_second":500.0,"predicted_n":5,"predicted_ms":10.0)"));
}

TEST(Llama, AnswersWhole) {
  const auto call = Parsed(R"({"prompt":"a"})");
  const auto printer = NewLlamaPrinter(*call);
  GeneratedAnswer answer;
  answer.model = "m";
  answer.prompts = {"a"};
  answer.At(0)->content = "bc";
  answer.At(0)->reason = generate::FinishReason::kLength;
  const std::string out = printer->Whole(answer);
  EXPECT_THAT(out, HasSubstr(R"({"index":0,"content":"bc","tokens":[],"stop":true,"model":"m")"));
  EXPECT_THAT(out, HasSubstr(R"("stop_type":"limit","stopping_word":"")"));
  EXPECT_THAT(out, Not(HasSubstr("completion_probabilities")));
}

TEST(Llama, TokensAndTexts) {
  const auto tokenize = [](std::string_view body) {
    return ParseLlamaTokenize(RequestBody::Parse(body)->object());
  };
  EXPECT_FALSE(tokenize(R"({"content":"a"})")->add_special_tokens);
  EXPECT_TRUE(tokenize(R"({"content":"a","add_special":true})")->add_special_tokens);
  EXPECT_EQ(tokenize(R"({"content":"a","with_pieces":true})").status().field(), "with_pieces");
  EXPECT_EQ(tokenize(R"({"content":"a","parse_special":false})").status().field(), "parse_special");
  api::TokenizeResponse tokens;
  tokens.inputs.resize(1);
  tokens.inputs[0].resize(1);
  tokens.inputs[0][0].id = 5;
  EXPECT_EQ(PrintLlamaTokens(tokens), R"({"tokens":[5]})");
  const auto decode = ParseDetokenize(RequestBody::Parse(R"({"tokens":[5,6]})")->object());
  ASSERT_TRUE(decode.ok());
  EXPECT_FALSE(decode->skip_special_tokens);
  EXPECT_EQ(PrintDetokenized({{"a b"}}), R"({"content":"a b","prompt":"a b"})");
}

TEST(Llama, PropsAndSlotsTellNoPath) {
  api::ModelInfo model;
  model.name = "m";
  model.path = "/secret/place";
  model.context = 64;
  model.sequences_max = 2;
  model.chat_template = "{{ x }}";
  const std::string props = PrintLlamaProps(model);
  EXPECT_THAT(props, HasSubstr(R"({"default_generation_settings":{"n_ctx":64},"total_slots":2)"));
  EXPECT_THAT(props, HasSubstr(R"("chat_template":"{{ x }}")"));
  EXPECT_THAT(props, Not(HasSubstr("secret")));
  EXPECT_EQ(PrintLlamaSlots(model, 1),
            R"([{"id":0,"n_ctx":64,"speculative":false,"is_processing":true},)"
            R"({"id":1,"n_ctx":64,"speculative":false,"is_processing":false}])");
}

}  // namespace
}  // namespace penstock::dialects

#include "dialects/ollama/ollama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/sha256.h"
#include "dialects/ollama/ollama_models.h"
#include "dialects/ollama/ollama_print.h"
#include "dialects/shared/print_test_util.h"
#include "json/json.h"

namespace penstock::dialects {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

OllamaTextCall Chat(const std::string& more) {
  auto call = Parsed(ParseOllamaChat,
                     R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + more + "}");
  EXPECT_TRUE(call.ok()) << more << ": " << call.status().ToString();
  return call.ok() ? *std::move(call) : OllamaTextCall();
}

Status Refused(const std::string& text) { return Parsed(ParseOllamaGenerate, text).status(); }

const api::ChatPrompt& ChatOf(const OllamaTextCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompts.at(0).value);
}

TEST(Ollama, OptionsBecomeSampling) {
  const OllamaTextCall call = Chat(
      R"("options":{"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"repeat_penalty":1.2,
         "repeat_last_n":64,"seed":7,"stop":["x"],"num_predict":9,"num_ctx":4096,"num_gpu":1,
         "typical_p":1,"mirostat":0,"unknown":[1]},"keep_alive":"5m","think":true)");
  EXPECT_TRUE(call.stream);
  EXPECT_TRUE(call.request.streams);
  EXPECT_TRUE(call.request.whole_calls);
  const sample::SamplingOptions options = call.request.sampling.With({});
  EXPECT_EQ(options.temperature, 0.5f);
  EXPECT_EQ(options.top_k, 3);
  EXPECT_EQ(options.repetition_penalty, 1.2f);
  EXPECT_EQ(options.repetition_window, 64);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(options.max_tokens);
  EXPECT_EQ(call.request.max_tokens_default, 9);
  EXPECT_EQ(call.request.keep_alive, std::chrono::minutes(5));
  EXPECT_EQ(ChatOf(call).kwargs.Print(), R"({"enable_thinking":true})");
  EXPECT_FALSE(Chat("\"stream\":false").request.max_tokens_default) << "the model's";
  for (const char* none : {"0", "-1", "-2"}) {
    const OllamaTextCall unbounded = Chat(std::string(R"("options":{"num_predict":)") + none + "}");
    EXPECT_EQ(unbounded.request.max_tokens_default, std::numeric_limits<int32_t>::max());
  }
  std::vector<std::pair<std::string, std::string>> headers;
  call.ignored.AddHeader(&headers);
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(headers[0].first, "X-Penstock-Ignored-Options");
  EXPECT_EQ(headers[0].second, "unknown");
  EXPECT_EQ(ChatOf(call).thinking_field, "think");
  EXPECT_EQ(ChatOf(Chat(R"("think":false)")).thinking_field, "");
  EXPECT_EQ(ChatOf(Chat(R"("think":"low")")).kwargs.Print(),
            R"({"reasoning_effort":"low","enable_thinking":true})");
}

TEST(Ollama, NamesThatAreNoOptionAreTold) {
  const auto header = [](const std::string& options) {
    const OllamaTextCall call = Chat("\"options\":" + options);
    const auto headers = NewOllamaPrinter(call, Clock::now())->headers();
    return headers.empty() ? "" : headers[0].first + ": " + headers[0].second;
  };
  EXPECT_EQ(header(R"({"num_ctx":1,"use_mmap":true,"mirostat_tau":5,"top_k":1})"), "");
  EXPECT_EQ(header(R"({"temprature":1,"top_k":1,"maxTokens":2})"),
            "X-Penstock-Ignored-Options: temprature, maxTokens");
  // No byte of a name can end the header, and the header stays short.
  EXPECT_EQ(header(R"({"a\r\nSet-Cookie: b":1})"), "X-Penstock-Ignored-Options: a??Set-Cookie??b");
  std::string many = "{";
  for (int i = 0; i < 50; ++i) many += "\"" + std::string(100, 'x') + std::to_string(i) + "\":1,";
  many.back() = '}';
  EXPECT_LT(header(many).size(), 400u);
}

TEST(Ollama, FillsBetweenTwoTexts) {
  const auto call =
      Parsed(ParseOllamaGenerate, R"({"model":"m","prompt":"","suffix":"b","raw":true})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_FALSE(call->loads);
  EXPECT_EQ(std::get<api::FillPrompt>(call->request.prompts.at(0).value).suffix, "b");
}

TEST(Ollama, WhatWouldChangeTheTextIsRefusedByName) {
  const std::string begin = R"({"model":"m","prompt":"a",)";
  for (const auto& [field, value] : std::initializer_list<std::pair<std::string, std::string>>{
           {"format", R"("yaml")"},
           {"format", "3"},
           {"images", R"(["aGk="])"},
           {"context", "[1,2]"},
           {"template", R"("{{ .Prompt }}")"}}) {
    const Status status = Refused(begin + "\"" + field + "\":" + value + "}");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
    EXPECT_EQ(status.field(), field);
  }
  EXPECT_EQ(Refused(begin + R"("options":{"mirostat":1}})").field(), "options.mirostat");
  EXPECT_EQ(Refused(begin + R"("options":{"typical_p":0.5}})").field(), "options.typical_p");
  EXPECT_EQ(Refused(begin + R"("options":{"temperature":9}})").field(), "options.temperature");
  EXPECT_EQ(Refused(begin + R"("raw":true,"system":"b"})").field(), "raw");
  EXPECT_EQ(Refused(begin + R"("think":5})").field(), "think");
  EXPECT_EQ(Refused(R"({"prompt":"a"})").field(), "model");
  EXPECT_TRUE(Refused(begin + R"("format":"","suffix":null,"images":[],"context":[]})").ok());
  const Status image =
      Parsed(ParseOllamaChat,
             R"({"model":"m","messages":[{"role":"user","content":"a","images":["aGk="]}]})")
          .status();
  EXPECT_EQ(image.field(), "messages[0].images");
}

TEST(Ollama, PromptsAreConversationsUnlessRaw) {
  const auto asked =
      Parsed(ParseOllamaGenerate, R"({"model":"m","prompt":"a","system":"b","stream":false})");
  ASSERT_TRUE(asked.ok());
  EXPECT_FALSE(asked->stream || asked->loads || asked->plain);
  EXPECT_EQ(ChatOf(*asked).messages.Print(),
            R"([{"role":"system","content":"b"},{"role":"user","content":"a"}])");
  const auto plain = Parsed(ParseOllamaGenerate, R"({"model":"m","prompt":"a"})");
  EXPECT_EQ(plain->plain, "a");
  const auto raw = Parsed(ParseOllamaGenerate, R"({"model":"m","prompt":"a","raw":true})");
  EXPECT_EQ(std::get<std::string>(raw->request.prompts[0].value), "a");
  EXPECT_FALSE(raw->request.parses_reply);
  EXPECT_TRUE(Parsed(ParseOllamaGenerate, R"({"name":"m","keep_alive":0})")->loads);
  EXPECT_TRUE(Parsed(ParseOllamaChat, R"({"model":"m","messages":[]})")->loads);
}

TEST(Ollama, MessagesAreAsTemplatesWantThem) {
  const auto call = Parsed(ParseOllamaChat, R"({"model":"m","messages":[
      {"role":"assistant","content":"","thinking":"t","tool_calls":[
        {"function":{"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","content":"r","tool_name":"f"}],
      "tools":[{"type":"function","function":{"name":"f"}}]})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  const std::string text = ChatOf(*call).messages.Print();
  EXPECT_THAT(text, HasSubstr(R"("reasoning_content":"t","reasoning":"t")"));
  EXPECT_THAT(text, HasSubstr(R"("tool_name":"f","name":"f")"));
  EXPECT_NE(call->request.tools, nullptr);
}

TEST(Ollama, EmbeddingsTakeTextsAlone) {
  const auto parse = [](const JsonObject& object) { return ParseOllamaEmbed(object, {}); };
  const auto one = Parsed(parse, R"({"model":"m","input":"a","dimensions":4,"truncate":false})");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->request.inputs.size(), 1u);
  EXPECT_EQ(one->request.dimensions, 4);
  EXPECT_EQ(one->request.normalize, true);
  EXPECT_EQ(one->request.text.truncate, false);
  EXPECT_EQ(Parsed(parse, R"({"model":"m","input":["a","b"]})")->request.text.truncate, true);
  EXPECT_TRUE(Parsed(parse, R"({"model":"m","input":[]})")->loads);
  EXPECT_TRUE(Parsed(parse, R"({"model":"m","input":""})")->loads);
  EXPECT_FALSE(Parsed(parse, R"({"model":"m","input":[""]})")->loads);
  EXPECT_TRUE(one->request.inputs[0].single);
  EXPECT_EQ(Parsed(parse, R"({"model":"m","input":[[1,2]]})").status().field(), "input[0]");
  EXPECT_EQ(Parsed(parse, R"({"input":"a"})").status().field(), "model");
  api::EmbedResponse response{"m", 2, {1, 0, 0, 1}, {}, {}};
  response.usage.prompt_tokens = 3;
  EXPECT_THAT(PrintOllamaEmbed(response, std::chrono::nanoseconds(5)),
              HasSubstr(R"("embeddings":[[1.0,0.0],[0.0,1.0]],"total_duration":5,)"
                        R"("prompt_eval_count":3)"));
  EXPECT_EQ(PrintOllamaEmbeddings(response), R"({"embedding":[1.0,0.0,0.0,1.0]})");
  EXPECT_TRUE(Parsed(ParseOllamaEmbeddings, R"({"model":"m","prompt":""})")->loads);
}

reply::ReplyDelta Delta(reply::ReplyDelta::Kind kind, const std::string& text) {
  reply::ReplyDelta delta;
  delta.kind = kind;
  delta.text = text;
  return delta;
}

TEST(Ollama, StreamsALineForEachPart) {
  OllamaTextCall call = Chat(R"("logprobs":true)");
  const auto printer = NewOllamaPrinter(call, Clock::now());
  EXPECT_TRUE(printer->lines());
  std::string out;
  printer->Begin({"m", {}}, &out);
  EXPECT_EQ(out, "");
  api::GeneratedPart part;
  part.deltas = {Delta(reply::ReplyDelta::Kind::kReasoning, "t"),
                 Delta(reply::ReplyDelta::Kind::kContent, "a\nb")};
  part.token = api::TokenInfo();
  part.token->bytes = "a";
  printer->Part(part, &out);
  EXPECT_THAT(out, HasSubstr(R"("message":{"role":"assistant","content":"a\nb","thinking":"t"})"));
  EXPECT_THAT(out, HasSubstr(R"("logprobs":[{"token":"a")"));
  EXPECT_THAT(out, EndsWith("\"done\":false}\n"));
  out.clear();
  reply::ReplyDelta begin = Delta(reply::ReplyDelta::Kind::kCallBegin, "");
  begin.name = "f";
  part.deltas = {begin, Delta(reply::ReplyDelta::Kind::kCallArguments, "{\"x\":\n1}"),
                 Delta(reply::ReplyDelta::Kind::kCallEnd, "")};
  part.token.reset();
  printer->Part(part, &out);
  // On one line, whatever the model wrote.
  EXPECT_THAT(out, HasSubstr(R"("function":{"name":"f","arguments":{"x":1}})"));
  out.clear();
  part.deltas = {Delta(reply::ReplyDelta::Kind::kMarkup, " ")};
  printer->Part(part, &out);
  EXPECT_EQ(out, "");
  api::ChoiceEnd end;
  end.reason = generate::FinishReason::kContext;
  printer->End(end, &out);
  api::GenerateEnd all;
  all.usage = {4, 0, 5};
  all.times = {std::chrono::milliseconds(2), std::chrono::milliseconds(3)};
  printer->Finish(all, &out);
  EXPECT_THAT(out, HasSubstr(R"("done":true,"done_reason":"length")"));
  EXPECT_THAT(out,
              HasSubstr(R"("prompt_eval_count":4,"prompt_eval_duration":2000000,"eval_count":5,)"
                        R"("eval_duration":3000000})"));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
}

TEST(Ollama, TellsOfModels) {
  api::ModelInfo model;
  model.name = "m";
  model.task = api::kGenerationTask;
  model.architecture = "llama";
  model.parameters = 134'515'008;
  model.context = 2048;
  model.chat_template = "{% if tools %}";
  const std::string shown = PrintOllamaShow(model);
  EXPECT_THAT(shown, HasSubstr(R"("parameter_size":"134.5M")"));
  EXPECT_THAT(shown, HasSubstr(R"("llama.context_length":2048)"));
  EXPECT_THAT(shown, HasSubstr(R"("parameters":"num_ctx                        2048")"));
  EXPECT_THAT(shown, HasSubstr(R"("capabilities":["completion","tools"])"));
  const std::string tags = PrintOllamaTags({model});
  EXPECT_THAT(tags, HasSubstr(R"("modified_at":"1970-01-01T00:00:00.000000000Z")"));
  EXPECT_THAT(tags, HasSubstr("\"digest\":\"" + Sha256Hex("m@") + "\""));
  EXPECT_EQ(PrintOllamaLoadedModels({model}), R"({"models":[]})");
  model.chat_template = "{% if tools %}<think></think>";
  EXPECT_THAT(PrintOllamaShow(model), HasSubstr(R"(["completion","tools","thinking"])"));
  model.name = "acme/Tiny-GGUF:Q8_0";
  EXPECT_THAT(PrintOllamaShow(model), HasSubstr(R"("general.basename":"Tiny-GGUF")"));
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Ollama, ListsEachNameOfWhatItsClientsCanUse) {
  std::vector<api::ModelInfo> models(6);
  models[0].name = "acme/chat";
  models[0].aliases = {"chat", "fast"};
  models[0].task = api::kGenerationTask;
  models[1].name = "embed";
  models[1].task = "embedding";
  models[2].name = "later";  // what it does is not known yet
  models[3].name = "rank";
  models[3].task = "reranking";
  models[4].name = "labels";
  models[4].task = "classification";
  models[5].name = "add";
  models[5].task = api::kTensorTask;
  const auto document = JsonDocument::Parse(PrintOllamaTags(models));
  ASSERT_TRUE(document.ok());
  std::vector<std::string> names, digests;
  for (const JsonElement entry : *document->Object()->GetArray("models")) {
    JsonObject object;
    ASSERT_TRUE(entry.Get(&object));
    names.push_back(*object.GetString("name"));
    EXPECT_EQ(*object.GetString("model"), names.back());
    digests.push_back(*object.GetString("digest"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"acme/chat", "chat", "fast", "embed", "later"}));
  EXPECT_EQ(digests[0], digests[2]);  // the same model
}

}  // namespace
}  // namespace penstock::dialects

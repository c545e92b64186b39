#include "api/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <thread>

#include "api/scores.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"
#include "telemetry/snapshot.h"

namespace penstock::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Calls a behaviour of the service and waits for its answer.
template <typename Response, typename Request>
Expected<Response> Call(Service* service,
                        void (Service::*method)(Request, RequestContext, Callback<Response>),
                        Request request, RequestContext context = {}) {
  std::promise<Expected<Response>> promise;
  (service->*method)(std::move(request), std::move(context),
                     [&](Expected<Response> result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

std::vector<Input> Texts(std::vector<std::string> texts) {
  std::vector<Input> inputs;
  for (auto& text : texts) inputs.push_back({std::move(text), {}, false});
  return inputs;
}

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    Add("embedder", engine::FakeParts(families::ModelTask::kEmbedding),
        [](engine::EncoderParts* parts) {
          parts->folder.prompts = {{"query", "t10 "}, {"passage", "t20 "}, {"empty", ""}};
        });
    Add("reranker", engine::FakeParts(families::ModelTask::kReranking));
    Add("classifier", engine::FakeParts(families::ModelTask::kClassification, 3));
    Start({});
  }
  void Add(const std::string& name, engine::EncoderParts parts,
           const std::function<void(engine::EncoderParts*)>& change = nullptr) {
    if (change) change(&parts);
    engine::EncoderEngineOptions options;
    options.name = name;
    ASSERT_TRUE(registry_
                    .AddLoaded(std::make_unique<engine::EncoderEngine>(std::move(parts), options,
                                                                       &metrics_))
                    .ok());
  }
  void Start(ServiceOptions limits) {
    service_ = std::make_unique<Service>(&registry_, limits, &metrics_);
  }
  Expected<EmbedResponse> Embed(EmbedRequest request, RequestContext context = {}) {
    return Call(service_.get(), &Service::Embed, std::move(request), std::move(context));
  }
  Expected<EmbedResponse> EmbedTexts(std::vector<std::string> texts) {
    EmbedRequest request;
    request.inputs = Texts(std::move(texts));
    return Embed(std::move(request));
  }
  Expected<RerankResponse> Rerank(RerankRequest request) {
    return Call(service_.get(), &Service::Rerank, std::move(request));
  }
  Expected<ClassifyResponse> Classify(ClassifyRequest request) {
    return Call(service_.get(), &Service::Classify, std::move(request));
  }

  metrics::Metrics metrics_;
  registry::Registry registry_{nullptr, &metrics_};
  std::unique_ptr<Service> service_;
};

void ExpectError(const Status& status, StatusCode code, const std::string& field,
                 const std::string& part) {
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_EQ(status.field(), field) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(part));
}

TEST_F(ServiceTest, EmbedsInOrderAndReportsUsageAndTruncation) {
  const auto response = EmbedTexts({"t2 t3", "", "t9 t9 t9 t9 t9 t9 t9 t9 t9"});
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->model, "embedder");
  EXPECT_EQ(response->dimensions, 4);
  // [sum of ids, length, 3, 4]; [CLS] + [SEP] add 1 and two tokens; the model takes 8.
  EXPECT_THAT(response->values, ElementsAre(6, 4, 3, 4, 1, 2, 3, 4, 55, 8, 3, 4));
  EXPECT_EQ(response->usage.prompt_tokens, 14);
  EXPECT_EQ(response->truncation.inputs, 1);
  EXPECT_EQ(response->truncation.tokens, 3);
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_truncated_tokens_total 3\n"));
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_tokens_total{behaviour=\"embed\"} 14\n"));
}

TEST_F(ServiceTest, ManyInputsKeepTheirOrder) {
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back("t" + std::to_string(2 + i % 98));
  const auto response = EmbedTexts(texts);
  ASSERT_TRUE(response.ok());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(response->values[4 * i], 3 + i % 98) << i;
}

TEST_F(ServiceTest, DimensionsAndNormalize) {
  EmbedRequest request;
  request.inputs = Texts({"t2", "t5"});  // sums 3 and 6, length 3
  request.dimensions = 2;
  EXPECT_THAT(Embed(request)->values, ElementsAre(3, 3, 6, 3));
  request.dimensions = 3;
  request.normalize = true;
  const auto response = Embed(request);
  ASSERT_EQ(response->values.size(), 6u);
  EXPECT_FLOAT_EQ(response->values[0], 1 / std::sqrt(3.0f));
  EXPECT_FLOAT_EQ(response->values[3], 6 / std::sqrt(54.0f));
  for (const int32_t bad : {0, -1, 5}) {
    request.dimensions = bad;
    ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "dimensions", "1 to 4");
  }
}

TEST_F(ServiceTest, IdsAreTakenAsTheyAre) {
  EmbedRequest request;
  request.inputs = {{"", {7, 8}, true}, {"", {1, 1, 1, 1, 1, 1, 1, 1, 50}, true}};
  EXPECT_THAT(Embed(request)->values, ElementsAre(15, 2, 3, 4, 8, 8, 3, 4));
  request.text.side = text::TruncationSide::kLeft;
  EXPECT_EQ(Embed(request)->values[4], 57);
  request.inputs[1].ids = {4, 100};
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "inputs[1]",
              "inputs[1][1]: 100 is not a token id; the vocabulary has 100, so they are 0 to 99");
  request.inputs[1].ids = {-1};
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "inputs[1]", "-1 is not");
  request.inputs[1].ids = {};
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "inputs[1]", "no token ids");
  request.inputs[1].ids = {4};
  request.text.prompt = "t3 ";
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "prompt", "token ids");
}

TEST_F(ServiceTest, TruncationOffNamesTheInputAndTheLimit) {
  EmbedRequest request;
  request.inputs = Texts({"t2", "t2 t2 t2 t2 t2 t2 t2"});
  request.text.truncate = false;
  ExpectError(Embed(request).status(), StatusCode::kPayloadTooLarge, "inputs[1]",
              "inputs[1] has 9 tokens; the model takes 8");
  Start({.auto_truncate = false});
  request.text.truncate = std::nullopt;
  EXPECT_FALSE(Embed(request).ok());
  request.text.truncate = true;
  EXPECT_TRUE(Embed(request).ok());
}

TEST_F(ServiceTest, Prompts) {
  EmbedRequest request;
  request.inputs = Texts({"t2"});
  request.text.prompt_name = "query";
  EXPECT_EQ(Embed(request)->values[0], 13);
  request.text.prompt = "x";
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "prompt_name", "exclude");
  request.text = {};
  request.text.prompt = "t30 t31 ";
  EXPECT_EQ(Embed(request)->values[0], 64);
  request.text = {};
  request.text.input_type = InputType::kDocument;
  EXPECT_EQ(Embed(request)->values[0], 23);
  request.text = {};
  request.text.prompt_name = "nope";
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "prompt_name",
              "it has empty, passage, query");
}

TEST_F(ServiceTest, DefaultPrompt) {
  Add("prompted", engine::FakeParts(families::ModelTask::kEmbedding),
      [](engine::EncoderParts* parts) {
        parts->folder.prompts = {{"p", "t10 "}};
        parts->folder.default_prompt_name = "p";
      });
  EmbedRequest request;
  request.model = "prompted";
  request.inputs = Texts({"t2"});
  EXPECT_EQ(Embed(request)->values[0], 13);
  request.text.prompt = "";
  EXPECT_EQ(Embed(request)->values[0], 3);
}

TEST_F(ServiceTest, LimitsAreNamed) {
  Start({.inputs_per_request = 2, .input_bytes = 5});
  ExpectError(EmbedTexts({}).status(), StatusCode::kInvalidArgument, "inputs", "inputs is empty");
  ExpectError(EmbedTexts({"a", "b", "c"}).status(), StatusCode::kPayloadTooLarge, "inputs",
              "3 entries; the limit is 2");
  ExpectError(EmbedTexts({"a", "t2 t22"}).status(), StatusCode::kPayloadTooLarge, "inputs[1]",
              "6 bytes; the limit is 5");
}

TEST_F(ServiceTest, AnEmptyTextNeedsSpecialTokens) {
  EmbedRequest request;
  request.inputs = Texts({"t2", " "});
  EXPECT_TRUE(Embed(request).ok());
  request.add_special_tokens = false;
  ExpectError(Embed(request).status(), StatusCode::kInvalidArgument, "inputs[1]", "no tokens");
}

TEST_F(ServiceTest, EmbedAllGivesEveryToken) {
  EmbedRequest request;
  request.inputs = Texts({"t5", ""});
  const auto response = Call(service_.get(), &Service::EmbedAll, request);
  ASSERT_TRUE(response.ok());
  EXPECT_THAT(response->token_counts, ElementsAre(3, 2));
  EXPECT_THAT(response->values,
              ElementsAre(0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0));
  request.dimensions = 2;
  EXPECT_EQ(Call(service_.get(), &Service::EmbedAll, request).status().field(), "dimensions");
}

TEST_F(ServiceTest, RerankSortsCutsAndScores) {
  RerankRequest request;
  request.query = "t40";
  request.documents = {"t5", "t30", "t5", "t20"};  // logits: (40 + d + 2 - 50) / 10
  request.raw_scores = true;
  auto response = Rerank(request);
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->model, "reranker");  // the default of its task
  std::vector<int32_t> order;
  for (const auto& item : response->items) order.push_back(item.index);
  EXPECT_THAT(order, ElementsAre(1, 3, 0, 2));
  EXPECT_FLOAT_EQ(response->items[0].score, 2.2f);
  request.raw_scores = std::nullopt;
  request.top_n = 1;
  response = Rerank(request);
  ASSERT_EQ(response->items.size(), 1u);
  EXPECT_FLOAT_EQ(response->items[0].score, Sigmoid(2.2f));
  request.top_n = 10;
  EXPECT_EQ(Rerank(request)->items.size(), 4u);
}

TEST_F(ServiceTest, EachDocumentMayHaveItsOwnQuery) {
  RerankRequest request;
  request.queries = {"t40", "t3", "t40"};
  request.documents = {"t5", "t30", "t20"};  // logits: (query + document + 2 - 50) / 10
  request.raw_scores = true;
  auto response = Rerank(request);
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  std::vector<float> scores(3);
  for (const auto& item : response->items) scores.at(static_cast<size_t>(item.index)) = item.score;
  EXPECT_FLOAT_EQ(scores[0], -0.3f);
  EXPECT_FLOAT_EQ(scores[1], -1.5f);
  EXPECT_FLOAT_EQ(scores[2], 1.2f);
  request.queries[1] = "";
  ExpectError(Rerank(request).status(), StatusCode::kInvalidArgument, "queries[1]", "empty");
  request.queries.pop_back();
  ExpectError(Rerank(request).status(), StatusCode::kInvalidArgument, "queries",
              "2 texts for 3 documents");
}

TEST_F(ServiceTest, ADecoderReadsEachPairAsItWouldAlone) {
  Add("decoder", engine::FakeParts(families::ModelTask::kReranking),
      [](engine::EncoderParts* parts) {
        parts->folder.pair_template = families::PairTemplate{"t1 ", " t7 ", ""};
      });
  RerankRequest request;
  request.model = "decoder";
  request.raw_scores = true;
  request.queries = {"t40", "t3"};
  request.documents = {"t5", "t30"};
  const auto pairs = Rerank(request);
  ASSERT_TRUE(pairs.ok()) << pairs.status().ToString();
  for (const auto& item : pairs->items) {
    RerankRequest alone;
    alone.model = "decoder";
    alone.raw_scores = true;
    alone.query = request.queries[static_cast<size_t>(item.index)];
    alone.documents = {request.documents[static_cast<size_t>(item.index)]};
    const auto answer = Rerank(alone);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_FLOAT_EQ(answer->items[0].score, item.score);
  }
  EXPECT_EQ(pairs->items.size(), 2u);
}

TEST_F(ServiceTest, RerankRespectsTheFoldersActivation) {
  Add("identity", engine::FakeParts(families::ModelTask::kReranking),
      [](engine::EncoderParts* parts) {
        parts->folder.encoder.cross_encoder_activation = "identity";
      });
  RerankRequest request;
  request.model = "identity";
  request.query = "t40";
  request.documents = {"t30"};
  EXPECT_FLOAT_EQ(Rerank(request)->items[0].score, 2.2f);
  request.raw_scores = false;
  EXPECT_FLOAT_EQ(Rerank(request)->items[0].score, Sigmoid(2.2f));
}

TEST_F(ServiceTest, RerankRefusals) {
  RerankRequest request;
  ExpectError(Rerank(request).status(), StatusCode::kInvalidArgument, "query", "empty");
  request.query = "t2";
  ExpectError(Rerank(request).status(), StatusCode::kInvalidArgument, "documents", "empty");
  request.documents = {""};
  EXPECT_TRUE(Rerank(request).ok());
  request.top_n = 0;
  ExpectError(Rerank(request).status(), StatusCode::kInvalidArgument, "top_n", "at least 1");
  request.top_n = 1;
  request.text.prompt = "x";
  ExpectError(Rerank(request).status(), StatusCode::kInvalidArgument, "prompt", "rerank");
}

TEST_F(ServiceTest, ClassifySoftmaxSigmoidAndRaw) {
  ClassifyRequest request;
  request.inputs = {{"t59", std::nullopt}, {"t2", "t46"}};  // logits 1 2 3; and 0 0 0
  auto response = Classify(request);
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->model, "classifier");
  EXPECT_THAT(response->labels, ElementsAre("label0", "label1", "label2"));
  const auto& first = response->inputs[0];
  EXPECT_EQ(first[0].id, 2);
  EXPECT_EQ(first[2].id, 0);
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_FLOAT_EQ(first[0].score, static_cast<float>(std::exp(3.0) / sum));
  EXPECT_FLOAT_EQ(response->inputs[1][0].score, 1.0f / 3);
  request.raw_scores = true;
  EXPECT_FLOAT_EQ(Classify(request)->inputs[0][0].score, 3);
  request.raw_scores = false;
  request.model = "reranker";  // one label: sigmoid
  EXPECT_FLOAT_EQ(Classify(request)->inputs[0][0].score, Sigmoid(1));
}

TEST_F(ServiceTest, TaskMismatchSaysWhatTheModelCanDo) {
  EmbedRequest embed;
  embed.model = "reranker";
  embed.inputs = Texts({"t2"});
  ExpectError(Embed(embed).status(), StatusCode::kUnprocessable, "model",
              "model 'reranker' is for reranking: it offers rerank and classify, not embed");
  RerankRequest rerank;
  rerank.model = "embedder";
  ExpectError(Rerank(rerank).status(), StatusCode::kUnprocessable, "model", "not rerank");
  ClassifyRequest classify;
  classify.model = "embedder";
  ExpectError(Classify(classify).status(), StatusCode::kUnprocessable, "model", "not classify");
  embed.model = "nobody";
  ExpectError(Embed(embed).status(), StatusCode::kNotFound, "model", "served: embedder");
}

TEST_F(ServiceTest, SimilarityByTheModelsFunction) {
  SimilarityRequest request;
  request.source = "t2";
  request.sentences = {"t2", "t50"};
  const auto response = Call(service_.get(), &Service::Similarity, request);
  ASSERT_TRUE(response.ok());
  EXPECT_FLOAT_EQ(response->scores[0], 1);
  const std::vector<float> a = {3, 3, 3, 4}, b = {51, 3, 3, 4};
  EXPECT_FLOAT_EQ(response->scores[1], SimilarityOf("cosine", a, b));
  request.sources = {"t50", "t2"};
  const auto pairs = Call(service_.get(), &Service::Similarity, request);
  ASSERT_TRUE(pairs.ok()) << pairs.status().ToString();
  ASSERT_EQ(pairs->scores.size(), 2u);
  for (const float score : pairs->scores) EXPECT_FLOAT_EQ(score, response->scores[1]);
  request.sources = {"t50"};
  EXPECT_EQ(Call(service_.get(), &Service::Similarity, request).status().field(), "sources");
  request.sources.clear();
  request.sentences.clear();
  EXPECT_EQ(Call(service_.get(), &Service::Similarity, request).status().field(), "sentences");
}

TEST_F(ServiceTest, TokenizeAndDecode) {
  TokenizeRequest request;
  request.inputs = {"t7 word", ""};
  request.prompt_name = "query";
  const auto response = Call(service_.get(), &Service::Tokenize, request);
  ASSERT_TRUE(response.ok());
  ASSERT_EQ(response->inputs[0].size(), 5u);
  EXPECT_TRUE(response->inputs[0][0].special);
  EXPECT_EQ(response->inputs[0][2].text, "t7");
  EXPECT_EQ(response->inputs[0][2].offset, (text::TokenOffset{4, 6}));  // of the prompted text
  EXPECT_EQ(response->inputs[1].size(), 3u);
  DecodeRequest decode;
  decode.inputs = {{0, 7, 8, 1}, {}};
  EXPECT_THAT(Call(service_.get(), &Service::Decode, decode)->texts, ElementsAre("t7 t8", ""));
  decode.inputs = {{100}};
  ExpectError(Call(service_.get(), &Service::Decode, decode).status(), StatusCode::kInvalidArgument,
              "inputs[0]", "100 is not a token id");
}

TEST_F(ServiceTest, CancelledAndExpiredRequests) {
  EmbedRequest request;
  request.inputs = Texts({"t2"});
  RequestContext context;
  context.cancel = std::make_shared<CancelToken>();
  context.cancel->Cancel();
  EXPECT_EQ(Embed(request, context).status().code(), StatusCode::kCancelled);
  context = {};
  context.deadline = Clock::now();
  EXPECT_EQ(Embed(request, context).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr(R"(penstock_dropped_total{model="embedder",reason="expired"} 1)"));
  EXPECT_THAT(metrics_.Render(), HasSubstr(R"(penstock_errors_total{kind="cancelled"} 1)"));
}

// While a model loads for long, requests for models that are there are not refused.
TEST_F(ServiceTest, WaitsForAModelLeaveThePlacesToOthers) {
  std::promise<void> gate;
  const auto loader =
      [this, open = gate.get_future().share()](
          const registry::ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
    if (spec.name == "far") open.wait();
    return std::unique_ptr<engine::Model>(std::make_unique<engine::EncoderEngine>(
        engine::FakeParts(families::ModelTask::kEmbedding), spec.options.encoder, &metrics_));
  };
  registry::Registry registry(nullptr, &metrics_, loader, {.on_demand = true});
  for (const char* name : {"here", "far"}) {
    registry::ModelSpec spec;
    spec.name = spec.reference = name;
    ASSERT_TRUE(registry.Add(std::move(spec)).ok());
  }
  registry.StartLoading();
  ASSERT_TRUE(registry.Load("here").get().ok());
  service_ =
      std::make_unique<Service>(&registry, ServiceOptions{.concurrent_requests = 2}, &metrics_);
  EmbedRequest request;
  request.inputs = Texts({"t2"});
  request.model = "far";
  std::promise<bool> answers[2];
  for (std::promise<bool>& answer : answers) {
    service_->Embed(request, {}, [&](Expected<EmbedResponse> r) { answer.set_value(r.ok()); });
  }
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_requests_in_flight 0\n"));
  const Status third = Embed(request).status();
  EXPECT_EQ(third.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(third.message(), HasSubstr("wait for models that are being loaded; the limit is 2"));
  EXPECT_EQ(third.retry_after_s(), 1);
  request.model = "here";
  EXPECT_TRUE(Embed(request).ok());
  RequestContext kept;
  kept.keep_alive = registry::KeepAlive(1000);
  EXPECT_TRUE(Embed(request, kept).ok());
  gate.set_value();
  for (std::promise<bool>& answer : answers) EXPECT_TRUE(answer.get_future().get());
  EXPECT_TRUE(service_->Drain(std::chrono::seconds(20)));
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_requests_in_flight 0\n"));
  service_.reset();
}

TEST_F(ServiceTest, ConcurrentRequestsAreLimitedAndDrained) {
  std::promise<void> gate;
  auto open = gate.get_future().share();
  Add("slow", engine::FakeParts(families::ModelTask::kEmbedding, 0, [open] { open.wait(); }));
  Start({.concurrent_requests = 2});
  EmbedRequest request;
  request.model = "slow";
  request.inputs = Texts({"t2"});
  std::atomic<int> ok{0};
  for (int i = 0; i < 2; ++i) {
    service_->Embed(request, {}, [&](Expected<EmbedResponse> r) { ok += r.ok(); });
  }
  const Status full = EmbedTexts({"t2"}).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(full.retry_after_s(), 1);
  EXPECT_THAT(full.message(), HasSubstr("--max-concurrent-requests"));
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_requests_in_flight 2\n"));
  EXPECT_TRUE(service_->Ready());
  service_->StopAccepting();
  EXPECT_FALSE(service_->Ready());
  EXPECT_EQ(EmbedTexts({"t2"}).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(service_->Drain(std::chrono::milliseconds(10)));
  gate.set_value();
  EXPECT_TRUE(service_->Drain(std::chrono::seconds(20)));
  EXPECT_EQ(ok, 2);
}

TEST_F(ServiceTest, AClientWithAllPlacesShutsNoOtherOut) {
  std::promise<void> gate;
  auto open = gate.get_future().share();
  Add("slow", engine::FakeParts(families::ModelTask::kEmbedding, 0, [open] { open.wait(); }));
  Start({.concurrent_requests = 8});
  EmbedRequest request;
  request.model = "slow";
  request.inputs = Texts({"t2"});
  std::atomic<int> ok{0};
  const auto send = [&](uint64_t client) {
    Status refused;
    RequestContext context;
    context.client = client;
    service_->Embed(request, context, [&](Expected<EmbedResponse> r) {
      ok += r.ok();
      if (r.status().code() == StatusCode::kResourceExhausted) refused = r.status();
    });
    return refused;
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(send(1).ok());
  EXPECT_THAT(send(1).message(), HasSubstr("8 requests are being worked on; the limit is 8"));
  EXPECT_TRUE(send(2).ok());
  EXPECT_THAT(send(1).message(),
              HasSubstr("9 requests are being worked on, 8 of them of this client, whose share is "
                        "4; the limit is 8 (--max-concurrent-requests)"));
  EXPECT_EQ(send(2).code(), StatusCode::kResourceExhausted);  // an eighth over the limit
  gate.set_value();
  EXPECT_TRUE(service_->Drain(std::chrono::seconds(20)));
  EXPECT_EQ(ok, 9);
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_requests_in_flight 0\n"));
}

TEST_F(ServiceTest, ModelsAreDescribed) {
  const auto models = service_->Models();
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].task, "embedding");
  EXPECT_EQ(models[0].dimensions, 4);
  EXPECT_TRUE(models[0].ready);
  EXPECT_EQ(models[2].labels.size(), 3u);
  EXPECT_EQ(service_->Model("")->name, "embedder");
  EXPECT_EQ(service_->Model("x").status().code(), StatusCode::kNotFound);
}

TEST_F(ServiceTest, TheAnswerCarriesTheNameThatWasAsked) {
  Add("owner/other", engine::FakeParts(families::ModelTask::kEmbedding));
  EmbedRequest request;
  request.inputs = Texts({"t2"});
  request.model = "other";
  EXPECT_EQ(Embed(request)->model, "other");
  EXPECT_EQ(service_->Model("other")->name, "owner/other");
  EXPECT_EQ(service_->Model("other")->aliases, std::vector<std::string>({"other"}));
  // Two models embed, so an unknown name is neither; one classifies.
  registry_.AcceptAnyName();
  request.model = "text-embedding-3-small";
  EXPECT_EQ(Embed(request).status().code(), StatusCode::kNotFound);
  ClassifyRequest classify;
  classify.inputs = {{"t2", std::nullopt}};
  classify.model = "any";
  EXPECT_EQ(Classify(classify)->model, "any");
}

TEST_F(ServiceTest, TokenizationWorkersAreTold) {
  EXPECT_GT(service_->options().tokenization_workers, 0);
  ServiceOptions limits;
  limits.tokenization_workers = 3;
  Start(limits);
  EXPECT_EQ(service_->options().tokenization_workers, 3);
  EXPECT_EQ(service_->TakeSnapshot().tokenization.workers, 3);
}

TEST_F(ServiceTest, EverySeriesIsThereFromTheStart) {
  const std::string text = metrics_.Render();
  for (const char* series :
       {"penstock_requests_total{behaviour=\"rerank\",outcome=\"ok\"} 0\n",
        "penstock_request_duration_seconds_count{behaviour=\"embed\"} 0\n",
        "penstock_errors_total{kind=\"internal\"} 0\n", "penstock_truncated_inputs_total 0\n",
        "penstock_tokenize_duration_seconds_count 0\n",
        "penstock_queue_requests{model=\"embedder\",lane=\"interactive\"} 0\n",
        "penstock_batch_tokens_count{model=\"embedder\"} 0\n",
        "penstock_batch_sequences_count{model=\"embedder\"} 0\n",
        "penstock_batch_duration_seconds_count{model=\"embedder\"} 0\n",
        "penstock_dropped_total{model=\"embedder\",reason=\"queue_full\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
}

TEST_F(ServiceTest, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        std::vector<std::string> texts(1 + i % 70, "t" + std::to_string(2 + t));
        const auto response = EmbedTexts(texts);
        wrong += !response.ok() || response->values.size() != 4 * texts.size() ||
                 response->values[4 * (texts.size() - 1)] != 3 + t;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace penstock::api

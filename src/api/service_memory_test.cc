// Bounds of requests: slots by priority class, bytes of responses, memory in flight; and their
// turns on the workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"
#include "base/eventually_test_util.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::api {
namespace {

using testing::HasSubstr;

class ServiceMemoryTest : public testing::Test {
 protected:
  void Start(ServiceOptions limits, int32_t max_tokens = 4096) {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding, 1, [this] {
      if (hold_.valid()) hold_.wait();
    });
    parts.max_tokens = max_tokens;
    engine::EncoderEngineOptions options;
    options.name = "embedder";
    ASSERT_TRUE(registry_
                    .AddLoaded(std::make_unique<engine::EncoderEngine>(std::move(parts), options,
                                                                       &metrics_))
                    .ok());
    service_ = std::make_unique<Service>(&registry_, limits, &metrics_);
  }
  RequestContext Context(Priority priority = Priority::kInteractive) {
    RequestContext context;
    context.priority = priority;
    context.memory = service_->NewRequestMemory(priority);
    return context;
  }
  template <typename Response>
  using Method = void (Service::*)(EmbedRequest, RequestContext, Callback<Response>);
  template <typename Response>
  std::future<Expected<Response>> Begin(Method<Response> method, EmbedRequest request,
                                        RequestContext context) {
    auto promise = std::make_shared<std::promise<Expected<Response>>>();
    (service_.get()->*method)(
        std::move(request), std::move(context),
        [promise](Expected<Response> result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  static EmbedRequest Ids(size_t inputs, size_t ids) {
    EmbedRequest request;
    for (size_t i = 0; i < inputs; ++i) {
      Input input;
      input.ids.assign(ids, 7);
      input.is_ids = true;
      request.inputs.push_back(std::move(input));
    }
    return request;
  }
  double InflightBytes() const {
    const std::string text = metrics_.Render();
    const std::string name = "\npenstock_inflight_bytes ";
    return std::stod(text.substr(text.find(name) + name.size()));
  }

  std::shared_future<void> hold_;
  metrics::Metrics metrics_;
  registry::Registry registry_{nullptr, &metrics_};
  std::unique_ptr<Service> service_;
};

TEST_F(ServiceMemoryTest, BulkTakesThreeQuartersOfThePlaces) {
  std::promise<void> open;
  hold_ = open.get_future().share();
  ServiceOptions limits;
  limits.concurrent_requests = 4;
  Start(limits);
  std::vector<std::future<Expected<EmbedResponse>>> taken;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(Begin(&Service::Embed, Ids(1, 2), Context(Priority::kBulk)));
  }
  const Status refused = Begin(&Service::Embed, Ids(1, 2), Context(Priority::kBulk)).get().status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("3 requests are being worked on; the limit for bulk "
                                           "requests is 3"));
  taken.push_back(Begin(&Service::Embed, Ids(1, 2), Context()));  // interactive work gets in
  open.set_value();
  for (auto& one : taken) EXPECT_TRUE(one.get().ok());
}

TEST_F(ServiceMemoryTest, AResponseThatWouldBeTooLongIsRefusedBeforeItIsMade) {
  ServiceOptions limits;
  limits.response_bytes = 64 << 10;
  Start(limits);
  // 4 values a token, 16 bytes each: 1024 tokens fit.
  EXPECT_TRUE(Begin(&Service::EmbedAll, Ids(1, 1024), Context()).get().ok());
  const Status refused = Begin(&Service::EmbedAll, Ids(1, 1025), Context()).get().status();
  EXPECT_EQ(refused.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(refused.message(), HasSubstr("65600 bytes; the limit is 65536"));
  EXPECT_THAT(refused.message(), HasSubstr("--max-response-bytes"));
  // The size of texts is known once they are tokenized.
  EmbedRequest texts;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "t5 ";
  texts.inputs.push_back({text, {}, false});
  EXPECT_EQ(Begin(&Service::EmbedAll, texts, Context()).get().status().code(),
            StatusCode::kPayloadTooLarge);
  EXPECT_TRUE(Begin(&Service::Embed, texts, Context()).get().ok());
}

TEST_F(ServiceMemoryTest, MemoryIsTakenBeforeTheModelIsAskedAndComesBack) {
  std::promise<void> open;
  hold_ = open.get_future().share();
  ServiceOptions limits;
  limits.inflight_bytes = 256 << 10;
  Start(limits);
  // 1000 tokens: 24,000 bytes of ids, 4,000 values of 8 + 16 bytes.
  auto first = Begin(&Service::EmbedAll, Ids(1, 1000), Context());
  while (InflightBytes() < 120'000) std::this_thread::yield();
  EXPECT_EQ(InflightBytes(), 120'000);
  auto second = Begin(&Service::EmbedAll, Ids(1, 1000), Context());
  while (InflightBytes() < 240'000) std::this_thread::yield();
  const Status refused = Begin(&Service::EmbedAll, Ids(1, 1000), Context()).get().status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.retry_after_s(), 1);
  EXPECT_THAT(refused.message(), HasSubstr("--max-inflight-bytes"));
  EXPECT_EQ(Begin(&Service::EmbedAll, Ids(4, 4000), Context()).get().status().code(),
            StatusCode::kPayloadTooLarge);  // alone it is over the bound
  open.set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(Eventually([&] { return InflightBytes() == 0; })) << InflightBytes();
}

TEST_F(ServiceMemoryTest, TokenizeAndDecodeAreBoundedInBytes) {
  ServiceOptions limits;
  limits.response_bytes = 4096;
  Start(limits);
  TokenizeRequest tokenize;
  tokenize.inputs = {"t5 t6", "t7"};
  std::promise<Expected<TokenizeResponse>> small;
  service_->Tokenize(tokenize, Context(), [&](auto result) { small.set_value(std::move(result)); });
  EXPECT_TRUE(small.get_future().get().ok());
  for (int i = 0; i < 60; ++i) tokenize.inputs.push_back("t5");
  std::promise<Expected<TokenizeResponse>> large;
  service_->Tokenize(tokenize, Context(), [&](auto result) { large.set_value(std::move(result)); });
  EXPECT_EQ(large.get_future().get().status().code(), StatusCode::kPayloadTooLarge);
  DecodeRequest decode;
  decode.inputs.push_back(std::vector<int32_t>(1000, 50));
  std::promise<Expected<DecodeResponse>> text;
  service_->Decode(decode, Context(), [&](auto result) { text.set_value(std::move(result)); });
  EXPECT_EQ(text.get_future().get().status().code(), StatusCode::kPayloadTooLarge);
}

// One worker: while a request tokenizes 100 texts of 64 KiB, another waits for one of them.
TEST_F(ServiceMemoryTest, TokenizeTakesTurnsByBytes) {
  ServiceOptions limits;
  limits.tokenization_workers = 1;
  limits.token_cache_bytes = 0;
  Start(limits);
  TokenizeRequest large;
  std::string text;
  while (text.size() < (64 << 10)) text += "t5 ";
  large.inputs.assign(100, text);
  std::promise<void> large_done;
  std::atomic<bool> large_is_done{false};
  service_->Tokenize(large, {}, [&](auto) {
    large_is_done = true;
    large_done.set_value();
  });
  const auto small = Begin(&Service::Embed, Ids(1, 2), Context()).get();
  EXPECT_TRUE(small.ok());
  EXPECT_FALSE(large_is_done);
  large_done.get_future().wait();
}

TEST_F(ServiceMemoryTest, WhatAnExceptionLosesIsAnsweredAndGivesItsPlaceBack) {
  ServiceOptions limits;
  limits.concurrent_requests = 2;
  Start(limits);
  for (int i = 0; i < 10; ++i) {
    std::promise<void> called;
    service_->Embed(Ids(1, 2), Context(), [&](Expected<EmbedResponse>) -> void {
      called.set_value();
      throw std::bad_alloc();
    });
    called.get_future().wait();
  }
  EXPECT_TRUE(Begin(&Service::Embed, Ids(1, 2), Context()).get().ok());
  EXPECT_TRUE(service_->Drain(std::chrono::seconds(10)));
}

TEST_F(ServiceMemoryTest, NewWorkIsRefusedWhileTheProcessHasTooMuch) {
  ServiceOptions limits;
  limits.resident_bytes_max = 1 << 20;  // less than any process has
  Start(limits);
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    const Status refused = Begin(&Service::EmbedAll, Ids(1, 10), Context(priority)).get().status();
    EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
    EXPECT_THAT(refused.message(), HasSubstr("--max-resident-bytes"));
    EXPECT_GT(refused.retry_after_s(), 0);
    EXPECT_TRUE(service_->IsShortOfMemory(priority));
  }
  EXPECT_TRUE(service_->Ready()) << "what runs goes on";
}

}  // namespace
}  // namespace penstock::api

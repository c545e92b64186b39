#include "api/embed_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "api/service.h"
#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::api {
namespace {

using testing::HasSubstr;

// A front end that takes events on the test's thread.
class Consumer {
 public:
  std::shared_ptr<Sink<EmbedEvent>> NewSink() {
    sink_ = std::make_shared<Sink<EmbedEvent>>(EmbedStream::kEvents, [this] {
      const std::lock_guard lock(mutex_);
      ++woken_;
      wake_.notify_one();
    });
    return sink_;
  }
  EmbedEvent Next() {
    for (;;) {
      if (auto event = sink_->Pop()) return *std::move(event);
      std::unique_lock lock(mutex_);
      if (!wake_.wait_for(lock, std::chrono::seconds(20), [this] { return woken_ > 0; })) {
        ADD_FAILURE() << "no event";
        return EmbedEnd{.status = Status::Internal("no event")};
      }
      woken_ = 0;
    }
  }

 private:
  std::shared_ptr<Sink<EmbedEvent>> sink_;
  std::mutex mutex_;
  std::condition_variable wake_;
  int woken_ = 0;
};

class EmbedStreamTest : public testing::Test {
 protected:
  EmbedStreamTest() {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
    engine::EncoderEngineOptions options;
    options.name = "embedder";
    EXPECT_TRUE(registry_
                    .AddLoaded(std::make_unique<engine::EncoderEngine>(std::move(parts), options,
                                                                       &metrics_))
                    .ok());
    Start({});
  }
  void Start(ServiceOptions limits) {
    service_ = std::make_unique<Service>(&registry_, limits, &metrics_);
  }
  static EmbedRequest Request(size_t count) {
    EmbedRequest request;
    for (size_t i = 0; i < count; ++i) {
      request.inputs.push_back({"t" + std::to_string(2 + i % 90), {}, false});
    }
    return request;
  }
  std::shared_ptr<EmbedStream> Begin(EmbedRequest request, RequestContext context = {},
                                     EmbedPartOptions options = {}) {
    return service_->EmbedInParts(std::move(request), std::move(context), options,
                                  consumer_.NewSink());
  }
  double InFlight() { return Value("penstock_requests_in_flight"); }
  double Value(const std::string& name) {
    const std::string text = metrics_.Render();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  metrics::Metrics metrics_;
  registry::Registry registry_{nullptr, &metrics_};
  Consumer consumer_;
  std::unique_ptr<Service> service_;
};

TEST_F(EmbedStreamTest, RowsComeInOrderAndAreThoseOfEmbed) {
  EmbedRequest request = Request(1000);
  request.dimensions = 3;
  request.inputs[5].text = "t9 t9 t9 t9 t9 t9 t9 t9 t9";
  auto stream = Begin(request);
  ASSERT_NE(stream, nullptr);
  std::vector<float> values;
  EmbedEnd end;
  for (bool over = false; !over;) {
    while (stream->StartPart()) {
    }
    EmbedEvent event = consumer_.Next();
    if (auto* const rows = std::get_if<EmbedRows>(&event)) {
      EXPECT_EQ(rows->dimensions, 3);
      ASSERT_EQ(rows->first * 3, values.size());
      EXPECT_LE(rows->values.size(), 3 * EmbedStream::kPartRowsMax);
      values.insert(values.end(), rows->values.begin(), rows->values.end());
    } else {
      end = std::get<EmbedEnd>(std::move(event));
      over = true;
    }
  }
  ASSERT_TRUE(end.status.ok()) << end.status.ToString();
  EXPECT_EQ(end.model, "embedder");
  EXPECT_EQ(end.truncation.inputs, 1);
  EXPECT_FALSE(stream->StartPart());
  std::optional<EmbedResponse> whole;
  std::mutex done;
  std::condition_variable wake;
  service_->Embed(request, {}, [&](Expected<EmbedResponse> result) {
    const std::lock_guard lock(done);
    whole = *std::move(result);
    wake.notify_one();
  });
  std::unique_lock lock(done);
  wake.wait(lock, [&] { return whole.has_value(); });
  EXPECT_EQ(values, whole->values);
  EXPECT_EQ(end.usage.prompt_tokens, whole->usage.prompt_tokens);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_requests_total{behaviour=\"embed\",outcome=\"ok\"} 2\n"));
}

TEST_F(EmbedStreamTest, NoMorePartsAreThereThanStated) {
  const auto stream = Begin(Request(1000));
  size_t started = 0;
  while (stream->StartPart()) ++started;
  EXPECT_EQ(started, EmbedStream::kPartsMax);
  // Rows that were computed and not taken count.
  while (InFlight() != 0) std::this_thread::yield();
  EXPECT_FALSE(stream->StartPart());
  consumer_.Next();
  EXPECT_TRUE(stream->StartPart());
  stream->Stop({StatusCode::kCancelled, "over"});
}

TEST_F(EmbedStreamTest, AStreamThatWaitsForItsClientHoldsNoPlace) {
  ServiceOptions limits;
  limits.concurrent_requests = 2;
  Start(limits);
  const auto stream = Begin(Request(100));
  EXPECT_EQ(InFlight(), 1);
  ASSERT_TRUE(stream->StartPart());
  consumer_.Next();
  while (InFlight() != 0) std::this_thread::yield();
  EXPECT_TRUE(stream->StartPart());
  consumer_.Next();
  const EmbedEvent end = consumer_.Next();
  EXPECT_TRUE(std::get<EmbedEnd>(end).status.ok());
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(EmbedStreamTest, StoppedWhileItWaits) {
  const auto stream = Begin(Request(640));
  ASSERT_TRUE(stream->StartPart());
  consumer_.Next();
  while (InFlight() != 0) std::this_thread::yield();
  stream->Stop({StatusCode::kCancelled, "the client left"});
  const EmbedEvent end = consumer_.Next();
  EXPECT_EQ(std::get<EmbedEnd>(end).status.code(), StatusCode::kCancelled);
  EXPECT_FALSE(stream->StartPart());
  EXPECT_EQ(InFlight(), 0);
  EXPECT_THAT(metrics_.Render(), HasSubstr("reason=\"cancelled\"} 576\n"));
}

TEST_F(EmbedStreamTest, AnErrorInAPartEndsTheStreamAfterTheRowsBefore) {
  EmbedRequest request = Request(200);
  request.text.truncate = false;
  request.inputs[70].text = "t9 t9 t9 t9 t9 t9 t9 t9 t9";
  const auto stream = Begin(request);
  while (stream->StartPart()) {
  }
  EmbedEvent event = consumer_.Next();
  ASSERT_TRUE(std::holds_alternative<EmbedRows>(event));
  EXPECT_EQ(std::get<EmbedRows>(event).values.size(), 64u * 4);
  event = consumer_.Next();
  ASSERT_TRUE(std::holds_alternative<EmbedEnd>(event));
  EXPECT_EQ(std::get<EmbedEnd>(event).status.code(), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(std::get<EmbedEnd>(event).status.field(), "inputs[70]");
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(EmbedStreamTest, ARefusedRequestHasOnlyAnEnd) {
  EmbedRequest request = Request(3);
  request.dimensions = 9;
  EXPECT_EQ(Begin(request), nullptr);
  EXPECT_EQ(std::get<EmbedEnd>(consumer_.Next()).status.field(), "dimensions");
  service_->StopAccepting();
  EXPECT_EQ(Begin(Request(3)), nullptr);
  EXPECT_EQ(std::get<EmbedEnd>(consumer_.Next()).status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(EmbedStreamTest, RowsHoldTheirMemoryUntilTheyAreLetGo) {
  RequestContext context;
  context.memory = service_->NewRequestMemory(Priority::kInteractive);
  const auto stream = Begin(Request(64), context);
  ASSERT_TRUE(stream->StartPart());
  {
    const EmbedEvent event = consumer_.Next();
    const auto& rows = std::get<EmbedRows>(event);
    EXPECT_GT(rows.memory->held(), 64 * 4 * 16);
    EXPECT_EQ(Value("penstock_inflight_bytes"), static_cast<double>(rows.memory->held()));
  }
  EXPECT_TRUE(std::get<EmbedEnd>(consumer_.Next()).status.ok());
  // The executor lets go a moment after the end.
  while (Value("penstock_inflight_bytes") != 0) std::this_thread::yield();
}

TEST_F(EmbedStreamTest, PartsFollowTheirPrintedSizeAndTheirTexts) {
  EmbedPartOptions options;
  options.part_bytes = 5 * (48 + 4 * 16);
  auto stream = Begin(Request(12), {}, options);
  while (stream->StartPart()) {
  }
  for (const size_t rows : {5, 5, 2}) {
    EXPECT_EQ(std::get<EmbedRows>(consumer_.Next()).values.size(), rows * 4);
  }
  EXPECT_TRUE(std::get<EmbedEnd>(consumer_.Next()).status.ok());
  EmbedRequest request = Request(4);
  for (Input& input : request.inputs) input.text = std::string(10'000, 'x');
  stream = Begin(request);
  while (stream->StartPart()) {
  }
  for (const size_t rows : {2, 2}) {
    EXPECT_EQ(std::get<EmbedRows>(consumer_.Next()).values.size(), rows * 4);
  }
  EXPECT_TRUE(std::get<EmbedEnd>(consumer_.Next()).status.ok());
}

TEST_F(EmbedStreamTest, AStreamThatIsLetGoIsAnsweredFor) {
  auto stream = Begin(Request(640));
  ASSERT_TRUE(stream->StartPart());
  consumer_.Next();
  while (InFlight() != 0) std::this_thread::yield();
  stream.reset();
  EXPECT_EQ(std::get<EmbedEnd>(consumer_.Next()).status.code(), StatusCode::kInternal);
  EXPECT_EQ(InFlight(), 0);
}

}  // namespace
}  // namespace penstock::api

#include "grpc/stream_infer.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "grpc/grpc_fixture_test.h"

namespace penstock {
namespace {

using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;
using testing::ElementsAre;
using testing::HasSubstr;

class StreamTest : public GrpcServerTest {
 protected:
  std::shared_ptr<ClientStream> Open(ClientContext* context) {
    return channel_->Open(PathOf("ModelStreamInfer"), context);
  }
  bool WaitUntilNothingIsUnderWay() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (Metric("penstock_grpc_in_flight") != 0) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
};

TEST_F(StreamTest, AnswersInTheOrderOfTheRequests) {
  ClientContext context;
  const auto stream = Open(&context);
  // The slow model's answers hold up those behind them.
  for (int32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(stream->Write(i % 3 == 0 ? Slow(i) : [i] {
      ModelInferRequest request = Add({i, i}, {1, 1});
      request.set_id(std::to_string(i));
      return request;
    }()));
  }
  stream->WritesDone();
  ModelStreamInferResponse response;
  for (int32_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_EQ(Output<int32_t>(response.infer_response(), 0)[0], i % 3 == 0 ? i : i + 1);
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamTest, AnErrorIsTheAnswerToItsOwnRequest) {
  ClientContext context;
  const auto stream = Open(&context);
  ModelInferRequest bad = Add({1, 2}, {3, 4});
  bad.set_model_name("nobody");
  bad.set_id("bad");
  ASSERT_TRUE(stream->Write(Add({1, 2}, {3, 4})));
  ASSERT_TRUE(stream->Write(bad));
  ASSERT_TRUE(stream->Write(Add({5, 6}, {3, 4})));
  stream->WritesDone();
  ModelStreamInferResponse first, second, third, none;
  ASSERT_TRUE(stream->Read(&first));
  ASSERT_TRUE(stream->Read(&second));
  ASSERT_TRUE(stream->Read(&third));
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(first.error_message(), "");
  EXPECT_THAT(second.error_message(), HasSubstr("nobody"));
  EXPECT_EQ(second.infer_response().id(), "bad");
  EXPECT_THAT(Output<int32_t>(third.infer_response(), 0), ElementsAre(8, 10));
}

TEST_F(StreamTest, MoreRequestsThanMayBeUnderWayAreAllAnswered) {
  ClientContext context;
  const auto stream = Open(&context);
  constexpr int32_t kRequests = 2000;
  std::thread writer([&] {
    for (int32_t i = 0; i < kRequests; ++i) {
      if (!stream->Write(Add({i, 0}, {0, 0}))) break;
    }
    stream->WritesDone();
  });
  ModelStreamInferResponse response;
  int32_t read = 0;
  while (stream->Read(&response)) {
    ASSERT_EQ(Output<int32_t>(response.infer_response(), 0)[0], read++);
  }
  writer.join();
  EXPECT_EQ(read, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamTest, AClientThatLeavesEndsIt) {
  for (int round = 0; round < 5; ++round) {
    ClientContext context;
    const auto stream = Open(&context);
    for (int32_t i = 0; i < 20; ++i) stream->Write(Slow(i));
    ModelStreamInferResponse response;
    if (round > 2) EXPECT_TRUE(stream->Read(&response));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().code, GrpcCode::kCancelled);
  }
  EXPECT_TRUE(WaitUntilNothingIsUnderWay());
}

TEST_F(StreamTest, AnEmptyStreamEnds) {
  ClientContext context;
  const auto stream = Open(&context);
  stream->WritesDone();
  ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamTest, AsksForAKey) {
  ServerOptions options;
  options.api_keys = {"secret"};
  Serve(options);
  ClientContext context;
  const auto stream = Open(&context);
  ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().code, GrpcCode::kUnauthenticated);
  EXPECT_TRUE(WaitUntilNothingIsUnderWay());
}

TEST_F(StreamTest, ShutdownEndsStreams) {
  ClientContext context;
  const auto stream = Open(&context);
  ASSERT_TRUE(stream->Write(Add({1, 2}, {3, 4})));
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server_->Shutdown(std::chrono::milliseconds(50));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace penstock

#include "grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <grpc/health.pb.h>
#include <grpc/inference.pb.h>
#include <grpc/reflection.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "api/service.h"
#include "base/eventually_test_util.h"
#include "engine/builtin_models.h"
#include "engine/tensor_engine.h"
#include "frontend/slow_log.h"
#include "grpc/grpc_front_end.h"
#include "grpc/rpc_client_test.h"
#include "metrics/metrics.h"
#include "registry/registry.h"

namespace penstock::grpc {
namespace {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using std::chrono::milliseconds;
using testing::HasSubstr;

using Code = GrpcCode;

constexpr const char* kCheck = "/grpc.health.v1.Health/Check";
constexpr const char* kInfo = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

// A gRPC server of built-in models, and a client of it.
class ServerTest : public testing::Test {
 protected:
  // "add", "identity" and "slow" (50 ms a run).
  void SetUp() override { Serve(); }
  void Serve(const http::ServerOptions& server = {}, const api::ServiceOptions& limits = {}) {
    Stop();
    registry_ = std::make_unique<registry::Registry>(
        nullptr, &metrics_,
        [this](const registry::ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
          engine::TensorEngineOptions tensors = spec.options.tensors;
          tensors.name = spec.name;
          PENSTOCK_ASSIGN_OR_RETURN(
              std::unique_ptr<engine::Model> model,
              engine::TensorEngine::Load(spec.reference, tensors, nullptr, &metrics_));
          return model;
        },
        registry::RegistryOptions());
    for (const auto& [name, reference] : std::vector<std::pair<const char*, const char*>>{
             {"add", "builtin:add?type=INT32&shape=2&batch=8"},
             {"identity", "builtin:identity?type=FP32&shape=-1&batch=8"},
             {"slow", "builtin:slow?ms=50&type=INT32&shape=1&batch=1"}}) {
      registry::ModelSpec spec;
      spec.name = name;
      spec.reference = reference;
      ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    }
    registry_->StartLoading();
    ASSERT_TRUE(registry_->WaitLoaded().ok());
    service_ = std::make_unique<api::Service>(registry_.get(), limits, &metrics_);
    GrpcOptions options;
    options.port = 0;
    auto started = GrpcServer::Start(service_.get(), &metrics_, server, options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = *std::move(started);
    channel_ = std::make_unique<ClientChannel>(server_->port());
  }
  void Stop() {
    channel_.reset();
    server_.reset();
    service_.reset();
    if (registry_ != nullptr) registry_->Stop();
    registry_.reset();
  }
  void TearDown() override { Stop(); }

  static std::string PathOf(const char* method) {
    return std::string("/inference.GRPCInferenceService/") + method;
  }
  std::shared_ptr<ClientCall> Infer(const ModelInferRequest& request,
                                    const http2::HeaderList& metadata = {}) {
    return channel_->Send(PathOf("ModelInfer"), request, metadata);
  }

  // One row for "add": a and b.
  static ModelInferRequest Add(std::vector<int32_t> a, std::vector<int32_t> b) {
    ModelInferRequest request;
    request.set_model_name("add");
    request.set_id("one");
    AddRaw("INPUT0", "INT32", {static_cast<int64_t>(a.size() / 2), 2}, a, &request);
    AddRaw("INPUT1", "INT32", {static_cast<int64_t>(b.size() / 2), 2}, b, &request);
    return request;
  }
  static ModelInferRequest Slow(int32_t value) {
    ModelInferRequest request;
    request.set_model_name("slow");
    request.set_id(std::to_string(value));
    AddRaw<int32_t>("INPUT0", "INT32", {1, 1}, {value}, &request);
    return request;
  }
  template <typename T>
  static void AddRaw(const char* name, const char* type, std::vector<int64_t> shape,
                     const std::vector<T>& values, ModelInferRequest* request) {
    auto* const input = request->add_inputs();
    input->set_name(name);
    input->set_datatype(type);
    for (const int64_t size : shape) input->add_shape(size);
    request->add_raw_input_contents(reinterpret_cast<const char*>(values.data()),
                                    values.size() * sizeof(T));
  }
  static std::vector<int32_t> FirstOutput(const ModelInferResponse& response) {
    const std::string& raw = response.raw_output_contents(0);
    std::vector<int32_t> values(raw.size() / sizeof(int32_t));
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }
  double Metric(const std::string& series) {
    const std::string text = metrics_.Render();
    const size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + 2 + series.size()));
  }
  // Whether `count` inferences have begun; the first may have ended before the last has come.
  bool HaveBegun(int count) {
    const std::string ended =
        "penstock_grpc_requests_total{method=\"" + PathOf("ModelInfer") + "\",code=\"OK\"}";
    return WaitUntil(
        [&] { return Metric("penstock_grpc_in_flight") + std::max(0.0, Metric(ended)) >= count; });
  }
  static bool WaitUntil(const std::function<bool()>& condition) {
    return Eventually(condition, std::chrono::seconds(20));
  }

  metrics::Metrics metrics_;
  std::unique_ptr<registry::Registry> registry_;
  std::unique_ptr<api::Service> service_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<ClientChannel> channel_;
};

TEST_F(ServerTest, RefusesByName) {
  struct Case {
    std::function<void(ModelInferRequest*)> change;
    Code code;
    const char* text;
  };
  for (const auto& [change, code, text] : std::vector<Case>{
           {[](auto* r) { r->set_model_name("other"); }, Code::kNotFound, "other"},
           {[](auto* r) { r->set_model_version("9"); }, Code::kNotFound, "version"},
           {[](auto* r) { r->mutable_inputs(0)->mutable_contents()->add_int_contents(1); },
            Code::kInvalidArgument, "raw_input_contents is there too"},
           {[](auto* r) {
              r->clear_raw_input_contents();
              r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
            },
            Code::kInvalidArgument, "field of 'contents' for INT32"},
           {[](auto* r) { r->add_raw_input_contents("x"); }, Code::kInvalidArgument,
            "raw_input_contents has 3 tensors, and 2"},
           {[](auto* r) { r->mutable_raw_input_contents()->RemoveLast(); }, Code::kInvalidArgument,
            "raw_input_contents has 1 tensors, and 2"},
           {[](auto* r) { r->mutable_inputs(1)->set_datatype("INT33"); }, Code::kInvalidArgument,
            "'INT33' is not a datatype"},
           {[](auto* r) { r->mutable_inputs(1)->add_shape(-1); }, Code::kInvalidArgument, "shape"},
           {[](auto* r) {
              auto& parameters = *r->mutable_inputs(0)->mutable_parameters();
              parameters["shared_memory_region"].set_string_param("r");
              r->mutable_raw_input_contents()->RemoveLast();
            },
            Code::kNotFound, "'r'"}}) {
    ModelInferRequest request = Add({1, 2}, {3, 4});
    change(&request);
    const GrpcStatus status = Infer(request)->Finish();
    EXPECT_EQ(status.code, code) << status.message;
    EXPECT_THAT(status.message, HasSubstr(text));
  }
  // The server goes on.
  EXPECT_TRUE(Infer(Add({1, 2}, {3, 4}))->Finish().ok());
}

TEST_F(ServerTest, AnswersAndMemoryAreBounded) {
  api::ServiceOptions limits;
  limits.response_bytes = 100;
  limits.inflight_bytes = 64 << 10;
  Serve({}, limits);
  ModelInferRequest request;
  request.set_model_name("identity");
  AddRaw<float>("INPUT0", "FP32", {1, 50}, std::vector<float>(50), &request);
  GrpcStatus status = Infer(request)->Finish();
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_THAT(status.message, HasSubstr("--max-response-bytes"));
  request.Clear();
  request.set_model_name("identity");
  AddRaw<float>("INPUT0", "FP32", {1, 20'000}, std::vector<float>(20'000), &request);
  status = Infer(request)->Finish();
  EXPECT_EQ(status.code, Code::kResourceExhausted);
}

TEST_F(ServerTest, ACancelledCallIsNotRun) {
  std::vector<std::shared_ptr<ClientCall>> others;
  for (int i = 0; i < 16; ++i) others.push_back(Infer(Slow(1)));  // 50 ms each
  // Its turn comes after theirs.
  ASSERT_TRUE(HaveBegun(16));
  const auto cancelled = Infer(Slow(2));
  ASSERT_TRUE(HaveBegun(17));
  cancelled->Cancel();
  EXPECT_EQ(cancelled->Finish().code, Code::kCancelled);
  for (const auto& other : others) EXPECT_TRUE(other->Finish().ok());
  EXPECT_TRUE(WaitUntil([this] {
    return Metric("penstock_grpc_requests_total{method=\"" + PathOf("ModelInfer") +
                  "\",code=\"CANCELLED\"}") == 1;
  }));
  EXPECT_TRUE(WaitUntil([this] { return service_->InferStatistics("slow")->rows >= 16; }));
  EXPECT_EQ(service_->InferStatistics("slow")->rows, 16U);
}

TEST_F(ServerTest, AFullQueueSaysWhenToTryAgain) {
  api::ServiceOptions limits;
  limits.inflight_bytes = 2000;
  Serve({}, limits);
  std::vector<std::shared_ptr<ClientCall>> calls;
  for (int i = 0; i < 16; ++i) calls.push_back(Infer(Slow(i)));
  int refused = 0;
  for (const auto& call : calls) {
    const GrpcStatus status = call->Finish();
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code, Code::kResourceExhausted) << status.message;
    EXPECT_EQ(Of(call->headers(), "retry-after"), "1");
    EXPECT_EQ(Of(call->headers(), "grpc-retry-pushback-ms"), "1000");
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 16);
}

TEST_F(ServerTest, ManyClientsGetTheirOwnAnswers) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      ClientChannel channel(server_->port());
      for (int32_t i = 0; i < 200; ++i) {
        const auto call = channel.Send(PathOf("ModelInfer"), Add({t, i}, {1000, 2000}));
        ModelInferResponse response;
        ASSERT_TRUE(call->Read(&response));
        ASSERT_EQ(FirstOutput(response), (std::vector<int32_t>{t + 1000, i + 2000}));
        ASSERT_TRUE(call->Finish().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ServerTest, ShutdownCancelsWhatTakesTooLong) {
  std::vector<std::shared_ptr<ClientCall>> calls;
  constexpr int kCalls = 40;  // 2 s of them
  for (int i = 0; i < kCalls; ++i) calls.push_back(Infer(Slow(i)));
  ASSERT_TRUE(HaveBegun(kCalls));
  server_->Shutdown(milliseconds(60));
  int ended = 0;
  for (const auto& call : calls) ended += call->Finish().ok() ? 1 : 0;
  EXPECT_LT(ended, kCalls);
  EXPECT_EQ(Metric("penstock_grpc_in_flight"), 0);
}

// GET /v1/requests shows them beside those of HTTP.
TEST_F(ServerTest, SlowCallsAreKeptAndStreamsWithoutAnEndAreNot) {
  const auto slow_log = std::make_shared<frontend::SlowLog>(milliseconds(10), &metrics_);
  GrpcOptions options;
  options.port = 0;
  const auto server = GrpcServer::Start(service_.get(), &metrics_, {}, options, nullptr, slow_log);
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  ClientChannel channel((*server)->port());
  const auto watch = channel.Send("/grpc.health.v1.Health/Watch", HealthCheckRequest());
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  ASSERT_TRUE(channel.Send(PathOf("ModelInfer"), Slow(1))->Finish().ok());  // 50 ms
  watch->Cancel();
  // A call is kept after it was counted out.
  ASSERT_TRUE(WaitUntil(
      [&] { return Metric("penstock_grpc_in_flight") == 0 && !slow_log->Kept().empty(); }));
  const std::vector<frontend::SlowRequest> kept = slow_log->Kept();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_STREQ(kept[0].method, "GRPC");
  EXPECT_STREQ(kept[0].path, "/inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(kept[0].model, "slow");
  EXPECT_EQ(kept[0].status, 200);
  EXPECT_FALSE(kept[0].id.empty());
}

TEST_F(ServerTest, WhatIsNoGrpcIsAnsweredAsHttp) {
  const auto call = channel_->Open(PathOf("ServerLive"), {{"content-type", "application/json"}});
  EXPECT_EQ(call->Finish().code, Code::kUnavailable);  // no status of gRPC came
  EXPECT_EQ(Of(call->headers(), ":status"), "415");
}

TEST_F(ServerTest, HeadersAreReadOrRefused) {
  for (const auto& [name, text, code] : std::vector<std::tuple<const char*, const char*, Code>>{
           {"grpc-timeout", "1H", Code::kOk},
           {"grpc-timeout", "99999999H", Code::kOk},
           {"grpc-timeout", "5000m", Code::kOk},
           {"grpc-timeout", "1", Code::kInvalidArgument},
           {"grpc-timeout", "-1S", Code::kInvalidArgument},
           {"grpc-timeout", "0n", Code::kDeadlineExceeded},
           {"x-some-bin", "q6urAP8", Code::kOk},
           {"x-some-bin", "q6urAP8=", Code::kOk},
           {"x-some-bin", "?", Code::kInvalidArgument},
           {"x-penstock-priority", "bulk", Code::kOk},
           {"x-penstock-priority", "high", Code::kInvalidArgument}}) {
    const GrpcStatus status = Infer(Add({1, 2}, {3, 4}), {{name, text}})->Finish();
    EXPECT_EQ(status.code, code) << name << " " << text << ": " << status.message;
  }
}

TEST_F(ServerTest, TheKeyIsLookedAtBeforeTheMessage) {
  http::ServerOptions options;
  options.api_keys = {"secret"};
  Serve(options);
  const auto call = channel_->Open(PathOf("ModelInfer"));  // and no message
  EXPECT_EQ(call->Finish().code, Code::kUnauthenticated);
}

// Strangers may call these.
TEST_F(ServerTest, MethodsWithoutAKeyTakeSmallMessages) {
  for (const std::string& path : {PathOf("ServerLive"), std::string(kCheck), std::string(kInfo)}) {
    const auto call = channel_->Open(path);
    call->WriteBytes(std::string(5000, '\0'));
    call->WritesDone();
    const GrpcStatus status = call->Finish();
    EXPECT_EQ(status.code, GrpcCode::kResourceExhausted) << path;
    EXPECT_THAT(status.message, HasSubstr("this method takes 4096"));
  }
}

TEST_F(ServerTest, AFewStreamsWithoutAKeyAtATime) {
  ::grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("");
  ::grpc::reflection::v1::ServerReflectionResponse response;
  std::vector<std::shared_ptr<ClientCall>> open;
  const auto answers = [&] {
    open.push_back(channel_->Open(kInfo));
    return open.back()->Write(request) && open.back()->Read(&response);
  };
  for (int i = 0; i < GrpcFrontEnd::kOpenStreamsMax; ++i) ASSERT_TRUE(answers());
  ASSERT_FALSE(answers());
  EXPECT_EQ(open.back()->Finish().code, GrpcCode::kResourceExhausted);
  EXPECT_TRUE(Infer(Add({1, 2}, {3, 4}))->Finish().ok());
  open.front()->WritesDone();
  EXPECT_TRUE(open.front()->Finish().ok());
  EXPECT_TRUE(WaitUntil(answers));
}

// Calls whose message does not come do not keep others out.
TEST_F(ServerTest, TheOldestCallsWithoutAKeyMakeRoom) {
  constexpr size_t kOfChannel = 512;
  std::vector<std::unique_ptr<ClientChannel>> channels;
  std::vector<std::shared_ptr<ClientCall>> open;
  for (size_t i = 0; i < GrpcFrontEnd::kOpenCallsMax; ++i) {
    if (i % kOfChannel == 0) channels.push_back(std::make_unique<ClientChannel>(server_->port()));
    open.push_back(channels.back()->Open(kCheck));
  }
  EXPECT_TRUE(WaitUntil([&] {
    return Metric("penstock_grpc_in_flight") == static_cast<double>(GrpcFrontEnd::kOpenCallsMax);
  }));
  EXPECT_TRUE(channel_->Send(kCheck, HealthCheckRequest())->Finish().ok());
  size_t left = 0;
  for (const auto& call : open) {
    call->WriteBytes("");
    call->WritesDone();
    const GrpcStatus status = call->Finish();
    left += status.ok();
    EXPECT_TRUE(status.ok() || status.code == GrpcCode::kCancelled);
  }
  EXPECT_EQ(left, GrpcFrontEnd::kOpenCallsMax - 1);
}

TEST_F(ServerTest, MoreRequestsThanMayBeUnderWayAreAllAnswered) {
  const auto stream = channel_->Open(PathOf("ModelStreamInfer"));
  constexpr int32_t kRequests = 2000;
  std::thread writer([&] {
    for (int32_t i = 0; i < kRequests; ++i) {
      if (!stream->Write(Add({i, 0}, {0, 0}))) break;
    }
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse response;
  int32_t read = 0;
  while (stream->Read(&response)) {
    ASSERT_EQ(FirstOutput(response.infer_response())[0], read++);
  }
  writer.join();
  EXPECT_EQ(read, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServerTest, AClientThatLeavesEndsIt) {
  for (int round = 0; round < 5; ++round) {
    const auto stream = channel_->Open(PathOf("ModelStreamInfer"));
    for (int32_t i = 0; i < 20; ++i) stream->Write(Slow(i));
    inference::ModelStreamInferResponse response;
    EXPECT_TRUE(round <= 2 || stream->Read(&response));
    stream->Cancel();
    EXPECT_EQ(stream->Finish().code, Code::kCancelled);
  }
  EXPECT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 0; }));
}

TEST_F(ServerTest, ShutdownEndsStreams) {
  const auto stream = channel_->Open(PathOf("ModelStreamInfer"));
  ASSERT_TRUE(stream->Write(Add({1, 2}, {3, 4})));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server_->Shutdown(milliseconds(50));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace penstock::grpc

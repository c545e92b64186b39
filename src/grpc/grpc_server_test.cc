#include "grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <grpc/health.grpc.pb.h>
#include <grpcpp/impl/client_unary_call.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "frontend/slow_log.h"
#include "grpc/grpc_fixture_test.h"

namespace penstock {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

using Code = grpc::StatusCode;

constexpr char kInfer[] = R"({method="/inference.GRPCInferenceService/ModelInfer",code=")";

class ServerTest : public GrpcServerTest {
 protected:
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    grpc::ClientContext context;
    ModelInferResponse unread;
    return stub_->ModelInfer(&context, request, response != nullptr ? response : &unread);
  }
  // A port where nobody listens takes no connection any more.
  static bool WaitUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
};

TEST_F(ServerTest, InfersFromRawContents) {
  ModelInferResponse response;
  const grpc::Status status = Infer(Add({1, 2, 3, 4}, {10, 20, 30, 40}), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.model_name(), "add");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "one");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "OUTPUT0");
  EXPECT_EQ(response.outputs(0).datatype(), "INT32");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 2));
  EXPECT_THAT(Output<int32_t>(response, 0), ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(Output<int32_t>(response, 1), ElementsAre(-9, -18, -27, -36));
}

TEST_F(ServerTest, InfersFromTypedContents) {
  ModelInferRequest request = Add({0, 0}, {0, 0});
  request.clear_raw_input_contents();
  for (const int32_t value : {5, 6}) {
    request.mutable_inputs(0)->mutable_contents()->add_int_contents(value);
    request.mutable_inputs(1)->mutable_contents()->add_int_contents(1);
  }
  request.add_outputs()->set_name("OUTPUT1");
  ModelInferResponse response;
  ASSERT_TRUE(Infer(request, &response).ok());
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_THAT(Output<int32_t>(response, 0), ElementsAre(4, 5));

  ModelInferRequest texts;
  texts.set_model_name("texts");
  auto* const input = texts.add_inputs();
  input->set_name("INPUT0");
  input->set_datatype("BYTES");
  for (const int64_t size : {2, 1}) input->add_shape(size);
  for (const char* text : {"abc", ""}) input->mutable_contents()->add_bytes_contents(text);
  ASSERT_TRUE(Infer(texts, &response).ok());
  EXPECT_EQ(response.raw_output_contents(0), std::string("\3\0\0\0abc\0\0\0\0", 11));
}

TEST_F(ServerTest, RefusesByName) {
  const auto refused = [this](const ModelInferRequest& request, Code code, const char* text) {
    const grpc::Status status = Infer(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  };
  ModelInferRequest request = Add({1, 2}, {3, 4});
  request.set_model_name("other");
  refused(request, Code::NOT_FOUND, "other");
  request = Add({1, 2}, {3, 4});
  request.set_model_version("9");
  refused(request, Code::NOT_FOUND, "version");
  request = Add({1, 2}, {3, 4});
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  refused(request, Code::INVALID_ARGUMENT, "raw_input_contents is there too");
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  refused(request, Code::INVALID_ARGUMENT, "field of 'contents' for INT32");
  request = Add({1, 2}, {3, 4});
  request.add_raw_input_contents("x");
  refused(request, Code::INVALID_ARGUMENT, "raw_input_contents has 3 tensors, and 2");
  request = Add({1, 2}, {3, 4});
  request.mutable_raw_input_contents()->RemoveLast();
  refused(request, Code::INVALID_ARGUMENT, "raw_input_contents has 1 tensors, and 2");
  request = Add({1, 2}, {3, 4});
  request.mutable_inputs(1)->set_datatype("INT33");
  refused(request, Code::INVALID_ARGUMENT, "'INT33' is no datatype");
  request = Add({1, 2}, {3, 4});
  request.mutable_inputs(1)->add_shape(-1);
  refused(request, Code::INVALID_ARGUMENT, "shape");
  request = Add({1, 2}, {3, 4});
  (*request.mutable_parameters())["sequence_id"].set_int64_param(4);
  refused(request, Code::UNIMPLEMENTED, "sequence");
  request = Add({1, 2}, {3, 4});
  request.add_outputs()->set_name("OUTPUT0");
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  refused(request, Code::UNIMPLEMENTED, "classification");
  request = Add({1, 2}, {3, 4});
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  request.mutable_raw_input_contents()->RemoveLast();
  EXPECT_FALSE(Infer(request).ok());
  EXPECT_GT(Metric("penstock_grpc_requests_total" + std::string(kInfer) + "INVALID_ARGUMENT\"}"),
            0);
  // The server goes on.
  EXPECT_TRUE(Infer(Add({1, 2}, {3, 4})).ok());
}

TEST_F(ServerTest, BytesThatAreNoMessageAreRefused) {
  grpc::ByteBuffer response;
  const grpc::Slice junk(std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
  grpc::ByteBuffer request(&junk, 1);
  grpc::ClientContext context;
  grpc::internal::RpcMethod method("/inference.GRPCInferenceService/ModelInfer",
                                   grpc::internal::RpcMethod::NORMAL_RPC, channel_);
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer,
                                                                grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), method, &context, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("no inference.ModelInferRequest"));
}

TEST_F(ServerTest, AMessageOverTheLimitIsRefused) {
  ServerOptions options;
  options.body_bytes_max = 1 << 20;
  Serve(options);
  ModelInferRequest request = Add({1, 2}, {3, 4});
  *request.mutable_raw_input_contents(0) = std::string(2 << 20, 'x');
  EXPECT_EQ(Infer(request).error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Infer(Add({1, 2}, {3, 4})).ok());
}

TEST_F(ServerTest, AnswersAndMemoryAreBounded) {
  ServiceOptions limits;
  limits.response_bytes = 100;
  limits.inflight_bytes = 64 << 10;
  Serve({}, {}, limits);
  ModelInferRequest request;
  request.set_model_name("identity");
  AddRaw<float>("INPUT0", "FP32", {1, 50}, std::vector<float>(50), &request);
  grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--max-response-bytes"));
  request.Clear();
  request.set_model_name("identity");
  AddRaw<float>("INPUT0", "FP32", {1, 20'000}, std::vector<float>(20'000), &request);
  status = Infer(request);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, AsksForKeys) {
  ServerOptions options;
  options.api_keys = {"secret"};
  options.admin_api_keys = {"chief"};
  Serve(options);
  const auto with = [this](const char* name, const char* value, const auto& call) {
    grpc::ClientContext context;
    if (name != nullptr) context.AddMetadata(name, value);
    return call(&context).error_code();
  };
  const auto infer = [this](grpc::ClientContext* context) {
    ModelInferResponse response;
    return stub_->ModelInfer(context, Add({1, 2}, {3, 4}), &response);
  };
  const auto unload = [this](grpc::ClientContext* context) {
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("texts");
    inference::RepositoryModelUnloadResponse response;
    return stub_->RepositoryModelUnload(context, request, &response);
  };
  const auto live = [this](grpc::ClientContext* context) {
    inference::ServerLiveResponse response;
    return stub_->ServerLive(context, {}, &response);
  };
  EXPECT_EQ(with(nullptr, "", infer), Code::UNAUTHENTICATED);
  EXPECT_EQ(with("authorization", "Bearer wrong", infer), Code::UNAUTHENTICATED);
  EXPECT_EQ(with("authorization", "Bearer secret", infer), Code::OK);
  EXPECT_EQ(with("x-api-key", "secret", infer), Code::OK);
  EXPECT_EQ(with("x-api-key", "secret", unload), Code::PERMISSION_DENIED);
  EXPECT_EQ(with("x-api-key", "chief", unload), Code::OK);
  EXPECT_EQ(with(nullptr, "", live), Code::OK);
  EXPECT_EQ(Metric("penstock_grpc_keys_refused_total{reason=\"missing\"}"), 1);
}

TEST_F(ServerTest, HeadersAreThoseOfHttp) {
  grpc::ClientContext wrong;
  wrong.AddMetadata("x-penstock-priority", "high");
  wrong.AddMetadata("x-request-id", "mine");
  ModelInferResponse response;
  const grpc::Status status = stub_->ModelInfer(&wrong, Add({1, 2}, {3, 4}), &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("X-Penstock-Priority"));
  const auto& trailing = wrong.GetServerTrailingMetadata();
  ASSERT_EQ(trailing.count("x-request-id"), 1U);
  EXPECT_EQ(trailing.find("x-request-id")->second, "mine");
  grpc::ClientContext bulk;
  bulk.AddMetadata("x-penstock-priority", "bulk");
  EXPECT_TRUE(stub_->ModelInfer(&bulk, Add({1, 2}, {3, 4}), &response).ok());
}

TEST_F(ServerTest, ADeadlineEndsACall) {
  // The second waits for the first, which sleeps.
  std::vector<std::future<grpc::Status>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::async(std::launch::async, [this] { return Infer(Slow(1)); }));
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + milliseconds(20));
  ModelInferResponse response;
  const grpc::Status status = stub_->ModelInfer(&context, Slow(2), &response);
  EXPECT_EQ(status.error_code(), Code::DEADLINE_EXCEEDED);
  for (auto& other : others) EXPECT_TRUE(other.get().ok());
  EXPECT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 0; }));
}

TEST_F(ServerTest, ACancelledCallIsNotRun) {
  std::vector<std::future<grpc::Status>> others;
  for (int i = 0; i < 16; ++i) {  // 50 ms each
    others.push_back(std::async(std::launch::async, [this] { return Infer(Slow(1)); }));
  }
  // Its turn comes after theirs.
  ASSERT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 16; }));
  grpc::ClientContext context;
  auto cancelled = std::async(std::launch::async, [&] {
    ModelInferResponse response;
    return stub_->ModelInfer(&context, Slow(2), &response);
  });
  ASSERT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 17; }));
  context.TryCancel();
  EXPECT_EQ(cancelled.get().error_code(), Code::CANCELLED);
  for (auto& other : others) EXPECT_TRUE(other.get().ok());
  EXPECT_TRUE(WaitUntil([this] {
    return Metric("penstock_grpc_requests_total" + std::string(kInfer) + "CANCELLED\"}") == 1;
  }));
  EXPECT_TRUE(WaitUntil([this] { return service_->InferStatistics("slow")->rows >= 16; }));
  EXPECT_EQ(service_->InferStatistics("slow")->rows, 16U);
}

TEST_F(ServerTest, AFullQueueSaysWhenToTryAgain) {
  ServiceOptions limits;
  limits.inflight_bytes = 2000;
  Serve({}, {}, limits);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      grpc::ClientContext context;
      ModelInferResponse response;
      const grpc::Status status = stub_->ModelInfer(&context, Slow(i), &response);
      if (status.ok()) return;
      EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED) << status.error_message();
      EXPECT_EQ(context.GetServerTrailingMetadata().count("retry-after"), 1U);
      EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1U);
      ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 16);
}

TEST_F(ServerTest, ManyClientsGetTheirOwnAnswers) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto stub = inference::GRPCInferenceService::NewStub(NewChannel());
      for (int32_t i = 0; i < 200; ++i) {
        grpc::ClientContext context;
        ModelInferResponse response;
        const grpc::Status status =
            stub->ModelInfer(&context, Add({t, i}, {1000, 2000}), &response);
        const bool right =
            status.ok() && Output<int32_t>(response, 0) == std::vector<int32_t>{t + 1000, i + 2000};
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(WaitUntil([this] {
    return Metric("penstock_grpc_requests_total" + std::string(kInfer) + "OK\"}") == 1600;
  }));
}

TEST_F(ServerTest, ShutdownLetsCallsEndAndTakesNoMore) {
  std::vector<std::future<grpc::Status>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(std::async(std::launch::async, [this, i] { return Infer(Slow(i)); }));
  }
  ASSERT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 6; }));
  server_->Shutdown(std::chrono::seconds(20));
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(Infer(Slow(7)).error_code(), Code::UNAVAILABLE);
}

TEST_F(ServerTest, ShutdownCancelsWhatTakesTooLong) {
  std::vector<std::future<grpc::Status>> calls;
  for (int i = 0; i < 10; ++i) {
    calls.push_back(std::async(std::launch::async, [this, i] { return Infer(Slow(i)); }));
  }
  ASSERT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 10; }));
  server_->Shutdown(milliseconds(60));
  int ended = 0;
  for (auto& call : calls) ended += call.get().ok() ? 1 : 0;
  EXPECT_LT(ended, 10);
  EXPECT_EQ(Metric("penstock_grpc_in_flight"), 0);
}

TEST_F(ServerTest, TwoServersDoNotShareAPort) {
  GrpcOptions options;
  options.port = server_->port();
  const auto second = GrpcServer::Start(service_.get(), &metrics_, {}, options);
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
}

// GET /v1/requests shows them beside those of HTTP.
TEST_F(ServerTest, SlowCallsAreKeptAndStreamsWithoutAnEndAreNot) {
  const auto slow_log = std::make_shared<SlowLog>(milliseconds(10), &metrics_);
  GrpcOptions options;
  options.port = 0;
  const auto server = GrpcServer::Start(service_.get(), &metrics_, {}, options, nullptr, slow_log);
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string((*server)->port()),
                                           grpc::InsecureChannelCredentials());
  grpc::ClientContext watching;
  const auto watch = grpc::health::v1::Health::NewStub(channel)->Watch(&watching, {});
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  grpc::ClientContext context;
  ModelInferResponse response;
  const auto stub = inference::GRPCInferenceService::NewStub(channel);
  ASSERT_TRUE(stub->ModelInfer(&context, Slow(1), &response).ok());  // 50 ms
  watching.TryCancel();
  watch->Finish();
  ASSERT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 0; }));
  const std::vector<SlowRequest> kept = slow_log->Kept();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_STREQ(kept[0].method, "GRPC");
  EXPECT_STREQ(kept[0].path, "/inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(kept[0].model, "slow");
  EXPECT_EQ(kept[0].status, 200);
  EXPECT_FALSE(kept[0].id.empty());
}

TEST_F(ServerTest, TellsOfServerAndModels) {
  grpc::ClientContext contexts[8];
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(&contexts[0], {}, &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ModelMetadataRequest metadata_of;
  metadata_of.set_name("add");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(stub_->ModelMetadata(&contexts[1], metadata_of, &metadata).ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  ASSERT_EQ(metadata.inputs_size(), 2);
  EXPECT_EQ(metadata.inputs(0).datatype(), "INT32");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 2));
  inference::ModelConfigRequest config_of;
  config_of.set_name("add");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(stub_->ModelConfig(&contexts[2], config_of, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 8);
  ASSERT_TRUE(Infer(Add({1, 2, 3, 4}, {1, 2, 3, 4})).ok());
  inference::ModelStatisticsRequest statistics_of;
  statistics_of.set_name("add");
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(stub_->ModelStatistics(&contexts[3], statistics_of, &statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  EXPECT_EQ(statistics.model_stats(0).inference_count(), 2U);
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&contexts[4], {}, &index).ok());
  ASSERT_EQ(index.models_size(), 4);
  EXPECT_EQ(index.models(0).state(), "READY");
  inference::ModelReadyRequest ready_of;
  ready_of.set_name("nobody");
  inference::ModelReadyResponse model_ready;
  ASSERT_TRUE(stub_->ModelReady(&contexts[5], ready_of, &model_ready).ok());
  EXPECT_FALSE(model_ready.ready());
  inference::TraceSettingResponse trace;
  EXPECT_EQ(stub_->TraceSetting(&contexts[6], {}, &trace).error_code(), Code::UNIMPLEMENTED);
}

class HealthTest : public ServerTest {
 protected:
  std::unique_ptr<grpc::health::v1::Health::Stub> Health() {
    return grpc::health::v1::Health::NewStub(channel_);
  }
};

TEST_F(HealthTest, ChecksServerServicesAndModels) {
  const auto stub = Health();
  const auto check = [&](const char* name) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
                       : std::to_string(status.error_code());
  };
  EXPECT_EQ(check(""), "SERVING");
  EXPECT_EQ(check("inference.GRPCInferenceService"), "SERVING");
  EXPECT_EQ(check("add"), "SERVING");
  EXPECT_EQ(check("nobody"), std::to_string(Code::NOT_FOUND));
  ASSERT_TRUE(service_->UnloadModel("add").ok());
  EXPECT_TRUE(WaitUntil([&] { return check("add") == "NOT_SERVING"; }));
}

TEST_F(HealthTest, WatchesChangesUntilTheServerStops) {
  const auto stub = Health();
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("add");
  const auto reader = stub->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(service_->UnloadModel("add").ok());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  std::thread stop([this] { server_->Shutdown(std::chrono::seconds(20)); });
  while (reader->Read(&response)) EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(reader->Finish().error_code(), Code::UNAVAILABLE);
  stop.join();
}

TEST_F(HealthTest, AWatchEndsWithItsClient) {
  const auto stub = Health();
  {
    grpc::ClientContext context;
    const auto reader = stub->Watch(&context, {});
    HealthCheckResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), Code::CANCELLED);
  }
  EXPECT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 0; }));
}

}  // namespace
}  // namespace penstock

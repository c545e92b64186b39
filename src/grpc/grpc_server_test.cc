#include "grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <grpc/health.pb.h>
#include <grpc/reflection.pb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <thread>

#include "frontend/slow_log.h"
#include "grpc/grpc_fixture_test.h"
#include "grpc/grpc_front_end.h"
#include "http/gzip.h"

namespace penstock {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using std::chrono::milliseconds;
using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;

using Code = GrpcCode;

constexpr char kInfer[] = R"({method="/inference.GRPCInferenceService/ModelInfer",code=")";

class ServerTest : public GrpcServerTest {
 protected:
  GrpcStatus Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) {
    ClientContext context;
    ModelInferResponse unread;
    return Call("ModelInfer", &context, request, response != nullptr ? response : &unread);
  }
  // Whether so many inferences have begun; the first may have ended before the last has come.
  bool HaveBegun(int count) {
    const std::string ended = "penstock_grpc_requests_total" + std::string(kInfer) + "OK\"}";
    return WaitUntil(
        [&] { return Metric("penstock_grpc_in_flight") + std::max(0.0, Metric(ended)) >= count; });
  }
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
  const GrpcStatus status = Infer(Add({1, 2, 3, 4}, {10, 20, 30, 40}), &response);
  ASSERT_TRUE(status.ok()) << status.message;
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
    const GrpcStatus status = Infer(request);
    EXPECT_EQ(status.code, code) << status.message;
    EXPECT_THAT(status.message, HasSubstr(text));
  };
  ModelInferRequest request = Add({1, 2}, {3, 4});
  request.set_model_name("other");
  refused(request, Code::kNotFound, "other");
  request = Add({1, 2}, {3, 4});
  request.set_model_version("9");
  refused(request, Code::kNotFound, "version");
  request = Add({1, 2}, {3, 4});
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  refused(request, Code::kInvalidArgument, "raw_input_contents is there too");
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  refused(request, Code::kInvalidArgument, "field of 'contents' for INT32");
  request = Add({1, 2}, {3, 4});
  request.add_raw_input_contents("x");
  refused(request, Code::kInvalidArgument, "raw_input_contents has 3 tensors, and 2");
  request = Add({1, 2}, {3, 4});
  request.mutable_raw_input_contents()->RemoveLast();
  refused(request, Code::kInvalidArgument, "raw_input_contents has 1 tensors, and 2");
  request = Add({1, 2}, {3, 4});
  request.mutable_inputs(1)->set_datatype("INT33");
  refused(request, Code::kInvalidArgument, "'INT33' is no datatype");
  request = Add({1, 2}, {3, 4});
  request.mutable_inputs(1)->add_shape(-1);
  refused(request, Code::kInvalidArgument, "shape");
  request = Add({1, 2}, {3, 4});
  (*request.mutable_parameters())["sequence_id"].set_int64_param(4);
  refused(request, Code::kUnimplemented, "sequence");
  request = Add({1, 2}, {3, 4});
  request.add_outputs()->set_name("OUTPUT0");
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  refused(request, Code::kUnimplemented, "classification");
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
  ClientContext context;
  const auto stream = channel_->Open(PathOf("ModelInfer"), &context);
  stream->WriteBytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  stream->WritesDone();
  const GrpcStatus status = stream->Finish();
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.message, HasSubstr("no inference.ModelInferRequest"));
}

TEST_F(ServerTest, AMessageOverTheLimitIsRefused) {
  ServerOptions options;
  options.body_bytes_max = 1 << 20;
  Serve(options);
  ModelInferRequest request = Add({1, 2}, {3, 4});
  *request.mutable_raw_input_contents(0) = std::string(2 << 20, 'x');
  EXPECT_EQ(Infer(request).code, Code::kResourceExhausted);
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
  GrpcStatus status = Infer(request);
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_THAT(status.message, HasSubstr("--max-response-bytes"));
  request.Clear();
  request.set_model_name("identity");
  AddRaw<float>("INPUT0", "FP32", {1, 20'000}, std::vector<float>(20'000), &request);
  status = Infer(request);
  EXPECT_EQ(status.code, Code::kResourceExhausted);
}

TEST_F(ServerTest, AsksForKeys) {
  ServerOptions options;
  options.api_keys = {"secret"};
  options.admin_api_keys = {"chief"};
  Serve(options);
  const auto with = [this](const char* name, const char* value, const auto& call) {
    ClientContext context;
    if (name != nullptr) context.AddMetadata(name, value);
    return call(&context).code;
  };
  const auto infer = [this](ClientContext* context) {
    ModelInferResponse response;
    return Call("ModelInfer", context, Add({1, 2}, {3, 4}), &response);
  };
  const auto unload = [this](ClientContext* context) {
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("texts");
    inference::RepositoryModelUnloadResponse response;
    return Call("RepositoryModelUnload", context, request, &response);
  };
  const auto live = [this](ClientContext* context) {
    inference::ServerLiveResponse response;
    return Call("ServerLive", context, inference::ServerLiveRequest(), &response);
  };
  EXPECT_EQ(with(nullptr, "", infer), Code::kUnauthenticated);
  EXPECT_EQ(with("authorization", "Bearer wrong", infer), Code::kUnauthenticated);
  EXPECT_EQ(with("authorization", "Bearer secret", infer), Code::kOk);
  EXPECT_EQ(with("x-api-key", "secret", infer), Code::kOk);
  EXPECT_EQ(with("x-api-key", "secret", unload), Code::kPermissionDenied);
  EXPECT_EQ(with("x-api-key", "chief", unload), Code::kOk);
  EXPECT_EQ(with(nullptr, "", live), Code::kOk);
  EXPECT_EQ(Metric("penstock_grpc_keys_refused_total{reason=\"missing\"}"), 1);
}

TEST_F(ServerTest, HeadersAreThoseOfHttp) {
  ClientContext wrong;
  wrong.AddMetadata("x-penstock-priority", "high");
  wrong.AddMetadata("x-request-id", "mine");
  ModelInferResponse response;
  const GrpcStatus status = Call("ModelInfer", &wrong, Add({1, 2}, {3, 4}), &response);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.message, HasSubstr("X-Penstock-Priority"));
  const auto& trailing = wrong.trailing();
  ASSERT_EQ(trailing.count("x-request-id"), 1U);
  EXPECT_EQ(trailing.find("x-request-id")->second, "mine");
  ClientContext bulk;
  bulk.AddMetadata("x-penstock-priority", "bulk");
  EXPECT_TRUE(Call("ModelInfer", &bulk, Add({1, 2}, {3, 4}), &response).ok());
}

TEST_F(ServerTest, ADeadlineEndsACall) {
  // The second waits for the first, which sleeps.
  std::vector<std::future<GrpcStatus>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::async(std::launch::async, [this] { return Infer(Slow(1)); }));
  }
  ClientContext context;
  context.SetTimeout(milliseconds(20));
  ModelInferResponse response;
  const GrpcStatus status = Call("ModelInfer", &context, Slow(2), &response);
  EXPECT_EQ(status.code, Code::kDeadlineExceeded);
  for (auto& other : others) EXPECT_TRUE(other.get().ok());
  EXPECT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 0; }));
}

TEST_F(ServerTest, ACancelledCallIsNotRun) {
  std::vector<std::future<GrpcStatus>> others;
  for (int i = 0; i < 16; ++i) {  // 50 ms each
    others.push_back(std::async(std::launch::async, [this] { return Infer(Slow(1)); }));
  }
  // Its turn comes after theirs.
  ASSERT_TRUE(HaveBegun(16));
  ClientContext context;
  auto cancelled = std::async(std::launch::async, [&] {
    ModelInferResponse response;
    return Call("ModelInfer", &context, Slow(2), &response);
  });
  ASSERT_TRUE(HaveBegun(17));
  context.TryCancel();
  EXPECT_EQ(cancelled.get().code, Code::kCancelled);
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
      ClientContext context;
      ModelInferResponse response;
      const GrpcStatus status = Call("ModelInfer", &context, Slow(i), &response);
      if (status.ok()) return;
      EXPECT_EQ(status.code, Code::kResourceExhausted) << status.message;
      EXPECT_EQ(context.trailing().count("retry-after"), 1U);
      EXPECT_EQ(context.trailing().count("grpc-retry-pushback-ms"), 1U);
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
      const auto channel = NewChannel();
      for (int32_t i = 0; i < 200; ++i) {
        ClientContext context;
        ModelInferResponse response;
        const GrpcStatus status =
            channel->Call(PathOf("ModelInfer"), &context, Add({t, i}, {1000, 2000}), &response);
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
  std::vector<std::future<GrpcStatus>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(std::async(std::launch::async, [this, i] { return Infer(Slow(i)); }));
  }
  ASSERT_TRUE(HaveBegun(6));
  server_->Shutdown(std::chrono::seconds(20));
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(Infer(Slow(7)).code, Code::kUnavailable);
}

TEST_F(ServerTest, ShutdownCancelsWhatTakesTooLong) {
  std::vector<std::future<GrpcStatus>> calls;
  constexpr int kCalls = 40;  // 2 s of them
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::async(std::launch::async, [this, i] { return Infer(Slow(i)); }));
  }
  ASSERT_TRUE(HaveBegun(kCalls));
  server_->Shutdown(milliseconds(60));
  int ended = 0;
  for (auto& call : calls) ended += call.get().ok() ? 1 : 0;
  EXPECT_LT(ended, kCalls);
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
  ClientChannel channel((*server)->port());
  ClientContext watching;
  const auto watch = channel.Open("/grpc.health.v1.Health/Watch", &watching);
  watch->Write(HealthCheckRequest());
  watch->WritesDone();
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  ClientContext context;
  ModelInferResponse response;
  ASSERT_TRUE(channel.Call(PathOf("ModelInfer"), &context, Slow(1), &response).ok());  // 50 ms
  watching.TryCancel();
  watch->Finish();
  // A call is kept after it was counted out.
  ASSERT_TRUE(WaitUntil(
      [&] { return Metric("penstock_grpc_in_flight") == 0 && !slow_log->Kept().empty(); }));
  const std::vector<SlowRequest> kept = slow_log->Kept();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_STREQ(kept[0].method, "GRPC");
  EXPECT_STREQ(kept[0].path, "/inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(kept[0].model, "slow");
  EXPECT_EQ(kept[0].status, 200);
  EXPECT_FALSE(kept[0].id.empty());
}

TEST_F(ServerTest, TellsOfServerAndModels) {
  ClientContext contexts[8];
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(Call("ServerReady", &contexts[0], inference::ServerReadyRequest(), &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ModelMetadataRequest metadata_of;
  metadata_of.set_name("add");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(Call("ModelMetadata", &contexts[1], metadata_of, &metadata).ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  ASSERT_EQ(metadata.inputs_size(), 2);
  EXPECT_EQ(metadata.inputs(0).datatype(), "INT32");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 2));
  inference::ModelConfigRequest config_of;
  config_of.set_name("add");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(Call("ModelConfig", &contexts[2], config_of, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 8);
  ASSERT_TRUE(Infer(Add({1, 2, 3, 4}, {1, 2, 3, 4})).ok());
  inference::ModelStatisticsRequest statistics_of;
  statistics_of.set_name("add");
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(Call("ModelStatistics", &contexts[3], statistics_of, &statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  EXPECT_EQ(statistics.model_stats(0).inference_count(), 2U);
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(
      Call("RepositoryIndex", &contexts[4], inference::RepositoryIndexRequest(), &index).ok());
  ASSERT_EQ(index.models_size(), 4);
  EXPECT_EQ(index.models(0).state(), "READY");
  inference::ModelReadyRequest ready_of;
  ready_of.set_name("nobody");
  inference::ModelReadyResponse model_ready;
  ASSERT_TRUE(Call("ModelReady", &contexts[5], ready_of, &model_ready).ok());
  EXPECT_FALSE(model_ready.ready());
  inference::TraceSettingResponse trace;
  EXPECT_EQ(Call("TraceSetting", &contexts[6], inference::TraceSettingRequest(), &trace).code,
            Code::kUnimplemented);
}

class HealthTest : public ServerTest {
 protected:
  GrpcStatus Check(ClientContext* context, const std::string& name, HealthCheckResponse* response) {
    HealthCheckRequest request;
    request.set_service(name);
    return channel_->Call("/grpc.health.v1.Health/Check", context, request, response);
  }
  std::shared_ptr<ClientStream> Watch(ClientContext* context, const std::string& name) {
    const auto stream = channel_->Open("/grpc.health.v1.Health/Watch", context);
    HealthCheckRequest request;
    request.set_service(name);
    stream->Write(request);
    stream->WritesDone();
    return stream;
  }
};

TEST_F(HealthTest, ChecksServerServicesAndModels) {
  const auto check = [&](const char* name) {
    ClientContext context;
    HealthCheckResponse response;
    const GrpcStatus status = Check(&context, name, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
                       : GrpcCodeName(status.code);
  };
  EXPECT_EQ(check(""), "SERVING");
  EXPECT_EQ(check("inference.GRPCInferenceService"), "SERVING");
  EXPECT_EQ(check("add"), "SERVING");
  EXPECT_EQ(check("nobody"), "NOT_FOUND");
  ASSERT_TRUE(service_->UnloadModel("add").ok());
  EXPECT_TRUE(WaitUntil([&] { return check("add") == "NOT_SERVING"; }));
}

TEST_F(HealthTest, WatchesChangesUntilTheServerStops) {
  ClientContext context;
  const auto reader = Watch(&context, "add");
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(service_->UnloadModel("add").ok());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  std::thread stop([this] { server_->Shutdown(std::chrono::seconds(20)); });
  while (reader->Read(&response)) EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(reader->Finish().code, Code::kUnavailable);
  stop.join();
}

TEST_F(HealthTest, AWatchEndsWithItsClient) {
  {
    ClientContext context;
    const auto reader = Watch(&context, "");
    HealthCheckResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().code, Code::kCancelled);
  }
  EXPECT_TRUE(WaitUntil([this] { return Metric("penstock_grpc_in_flight") == 0; }));
}

TEST_F(HealthTest, NamesOfModelsAreForThoseWithAKey) {
  ServerOptions options;
  options.api_keys = {"secret"};
  Serve(options);
  const auto check = [this](const char* name, const char* key) {
    ClientContext context;
    if (key != nullptr) context.AddMetadata("x-api-key", key);
    HealthCheckResponse response;
    return Check(&context, name, &response).code;
  };
  EXPECT_EQ(check("", nullptr), Code::kOk);
  EXPECT_EQ(check("inference.GRPCInferenceService", nullptr), Code::kOk);
  EXPECT_EQ(check("add", nullptr), Code::kUnauthenticated);
  EXPECT_EQ(check("nobody", nullptr), Code::kUnauthenticated);
  EXPECT_EQ(check("add", "wrong"), Code::kUnauthenticated);
  EXPECT_EQ(check("add", "secret"), Code::kOk);
  EXPECT_EQ(check("nobody", "secret"), Code::kNotFound);
  ClientContext context;
  EXPECT_EQ(Watch(&context, "add")->Finish().code, Code::kUnauthenticated);
}

class WireTest : public ServerTest {
 protected:
  // The answer's status of HTTP to a call with these headers in place of the usual ones.
  std::string HttpStatusOf(const HeaderList& more, const char* method = "POST") {
    struct Events final : Http2Client::Events {
      void OnHeaders(int32_t, HeaderList headers) override {
        if (status.empty()) status = headers.front().second;
      }
      void OnData(int32_t, std::string_view) override {}
      void OnEnd(int32_t, uint32_t) override { ended = true; }
      std::string status;
      bool ended = false;
    } events;
    auto client = Http2Client::Connect("127.0.0.1", server_->port(), &events);
    if (!client.ok()) return client.status().ToString();
    HeaderList headers = {{":method", method},
                          {":scheme", "http"},
                          {":path", PathOf("ServerLive")},
                          {":authority", "127.0.0.1"}};
    headers.insert(headers.end(), more.begin(), more.end());
    (*client)->Begin(headers, true);
    if (!(*client)->Flush()) return "lost";
    while (!events.ended && (*client)->Receive()) continue;
    return events.status;
  }
};

TEST_F(WireTest, WhatIsNoGrpcIsAnsweredAsHttp) {
  const std::pair<std::string, std::string> te = {"te", "trailers"};
  EXPECT_EQ(HttpStatusOf({{"content-type", "application/grpc"}, te}, "GET"), "405");
  EXPECT_EQ(HttpStatusOf({te}), "415");
  for (const char* type : {"application/json", "application/grpcx", "application/grpc+json",
                           "application/grpc-web+proto"}) {
    EXPECT_EQ(HttpStatusOf({{"content-type", type}, te}), "415") << type;
  }
  for (const char* type :
       {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"}) {
    EXPECT_EQ(HttpStatusOf({{"content-type", type}, te}), "200") << type;
  }
  EXPECT_EQ(HttpStatusOf({{"content-type", "application/grpc"}}), "400");
}

TEST_F(WireTest, UnknownMethodsAreUnimplemented) {
  for (const char* path : {"/inference.GRPCInferenceService/Nothing", "/nobody.Service/Method",
                           "/inference.GRPCInferenceService/ServerLive?x", "/"}) {
    ClientContext context;
    inference::ServerLiveResponse response;
    const GrpcStatus status =
        channel_->Call(path, &context, inference::ServerLiveRequest(), &response);
    EXPECT_EQ(status.code, Code::kUnimplemented) << path;
    EXPECT_THAT(status.message, HasSubstr(path));
  }
}

TEST_F(WireTest, ACallWithoutOneMessageIsRefused) {
  for (const int messages : {0, 2}) {
    ClientContext context;
    const auto stream = channel_->Open(PathOf("ServerLive"), &context);
    for (int i = 0; i < messages; ++i) stream->WriteBytes("");
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().code, Code::kInvalidArgument) << messages;
  }
  for (const char* half : {"\x01", "abc", "abcd"}) {
    ClientContext context;
    const auto stream = channel_->Open(PathOf("ServerLive"), &context);
    stream->WriteRaw(std::string("\0\0\0\0", 4) + half, true);
    EXPECT_EQ(stream->Finish().code, Code::kInvalidArgument) << half;
  }
}

TEST_F(WireTest, ATimeoutIsReadOrRefused) {
  for (const auto& [text, code] :
       std::vector<std::pair<const char*, Code>>{{"1H", Code::kOk},
                                                 {"99999999H", Code::kOk},
                                                 {"5000m", Code::kOk},
                                                 {"1", Code::kInvalidArgument},
                                                 {"-1S", Code::kInvalidArgument},
                                                 {"123456789S", Code::kInvalidArgument},
                                                 {"1s", Code::kInvalidArgument},
                                                 {"0n", Code::kDeadlineExceeded}}) {
    ClientContext context;
    context.AddMetadata("grpc-timeout", text);
    ModelInferResponse response;
    EXPECT_EQ(Call("ModelInfer", &context, Add({1, 2}, {3, 4}), &response).code, code) << text;
  }
}

TEST_F(WireTest, MessagesMayBePacked) {
  const std::string message = Add({1, 2}, {3, 4}).SerializeAsString();
  const auto call = [this](const char* encoding, const std::string& bytes, std::string* answer) {
    ClientContext context;
    if (encoding != nullptr) context.AddMetadata("grpc-encoding", encoding);
    context.AddMetadata("grpc-accept-encoding", "identity, gzip");
    const auto stream = channel_->Open(PathOf("ModelInfer"), &context);
    stream->WriteBytes(bytes, 1);
    stream->WritesDone();
    stream->ReadBytes(answer);
    const GrpcStatus status = stream->Finish();
    if (status.code == Code::kUnimplemented) {
      EXPECT_EQ(stream->Header("grpc-accept-encoding"), "identity, gzip");
    }
    return status.code;
  };
  std::string answer;
  EXPECT_EQ(call("gzip", Gzip(message), &answer), Code::kOk);
  ModelInferResponse response;
  ASSERT_TRUE(response.ParseFromString(answer));  // too small to be packed
  EXPECT_EQ(Output<int32_t>(response, 0), (std::vector<int32_t>{4, 6}));
  EXPECT_EQ(call("deflate", message, &answer), Code::kUnimplemented);
  EXPECT_EQ(call(nullptr, Gzip(message), &answer), Code::kInvalidArgument);
  EXPECT_EQ(call("gzip", message, &answer), Code::kInvalidArgument);
  // A large answer is packed as the request was.
  ModelInferRequest large;
  large.set_model_name("identity");
  AddRaw<float>("INPUT0", "FP32", {1, 5000}, std::vector<float>(5000), &large);
  EXPECT_EQ(call("gzip", Gzip(large.SerializeAsString()), &answer), Code::kOk);
  EXPECT_LT(answer.size(), 2000U);
  std::string unpacked;
  int64_t counted = 0;
  ASSERT_TRUE(Gunzip(answer, 1 << 20, nullptr, &unpacked, &counted).ok());
  ASSERT_TRUE(response.ParseFromString(unpacked));
  EXPECT_EQ(Output<float>(response, 0).size(), 5000U);
}

TEST_F(WireTest, WhatComesOutOfAPackedMessageIsBounded) {
  ServerOptions options;
  options.body_bytes_max = 1 << 20;
  Serve(options);
  ClientContext context;
  context.AddMetadata("grpc-encoding", "gzip");
  const auto stream = channel_->Open(PathOf("ModelInfer"), &context);
  stream->WriteBytes(Gzip(std::string(64 << 20, '\0')), 1);
  stream->WritesDone();
  const GrpcStatus status = stream->Finish();
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_THAT(status.message, HasSubstr("--max-body-bytes"));
  EXPECT_TRUE(Infer(Add({1, 2}, {3, 4})).ok());
}

// Two bytes on the wire are 64 in memory once they are parsed.
TEST_F(WireTest, FieldsThatAreUnknownAreCountedBeforeTheyAreParsed) {
  ServiceOptions limits;
  limits.inflight_bytes = 32 << 20;
  Serve({}, {}, limits);
  std::string fields;
  for (int i = 0; i < 1'000'000; ++i) fields += "\x7a\x00"s;  // field 15, no bytes
  ClientContext context;
  const auto stream = channel_->Open(PathOf("ModelReady"), &context);
  stream->WriteBytes(fields);
  stream->WritesDone();
  EXPECT_EQ(stream->Finish().code, Code::kResourceExhausted);
  fields.resize(2000);
  ClientContext few;
  const auto other = channel_->Open(PathOf("ModelReady"), &few);
  other->WriteBytes(fields);
  other->WritesDone();
  EXPECT_EQ(other->Finish().code, Code::kOk);
}

TEST_F(WireTest, TheKeyIsLookedAtBeforeTheMessage) {
  ServerOptions options;
  options.api_keys = {"secret"};
  Serve(options);
  ClientContext context;
  const auto stream = channel_->Open(PathOf("ModelInfer"), &context);  // and no message
  EXPECT_EQ(stream->Finish().code, Code::kUnauthenticated);
}

// Strangers may call these, so their messages are small, packed ones too.
TEST_F(WireTest, MethodsWithoutAKeyTakeSmallMessages) {
  for (const bool packed : {false, true}) {
    for (const std::string& path : {PathOf("ServerLive"), "/grpc.health.v1.Health/Check"s,
                                    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"s}) {
      ClientContext context;
      if (packed) context.AddMetadata("grpc-encoding", "gzip");
      const auto stream = channel_->Open(path, &context);
      const std::string message(5000, '\0');
      stream->WriteBytes(packed ? Gzip(message) : message, packed ? 1 : 0);
      stream->WritesDone();
      const GrpcStatus status = stream->Finish();
      EXPECT_EQ(status.code, Code::kResourceExhausted) << path;
      EXPECT_THAT(status.message, HasSubstr("this method takes 4096"));
    }
  }
}

TEST_F(WireTest, AFewStreamsWithoutAKeyAtATime) {
  const std::string path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("");
  grpc::reflection::v1::ServerReflectionResponse response;
  std::deque<ClientContext> contexts;
  std::vector<std::shared_ptr<ClientStream>> open;
  const auto add = [&] { open.push_back(channel_->Open(path, &contexts.emplace_back())); };
  for (int i = 0; i < GrpcFrontEnd::kOpenStreamsMax; ++i) {
    add();
    ASSERT_TRUE(open.back()->Write(request));
    ASSERT_TRUE(open.back()->Read(&response));
  }
  add();
  EXPECT_EQ(open.back()->Finish().code, Code::kResourceExhausted);
  EXPECT_TRUE(Infer(Add({1, 2}, {3, 4})).ok());
  open.front()->WritesDone();
  EXPECT_TRUE(open.front()->Finish().ok());
  EXPECT_TRUE(WaitUntil([&] {
    add();
    return open.back()->Write(request) && open.back()->Read(&response);
  }));
}

// Calls whose message does not come keep nobody out.
TEST_F(WireTest, TheOldestCallsWithoutAKeyMakeRoom) {
  constexpr size_t kOfChannel = 512;
  const std::string path = "/grpc.health.v1.Health/Check";
  std::deque<ClientContext> contexts;
  std::vector<std::shared_ptr<ClientChannel>> channels;
  std::vector<std::shared_ptr<ClientStream>> open;
  for (size_t i = 0; i < GrpcFrontEnd::kOpenCallsMax; ++i) {
    if (i % kOfChannel == 0) channels.push_back(NewChannel());
    open.push_back(channels.back()->Open(path, &contexts.emplace_back()));
  }
  EXPECT_TRUE(WaitUntil([&] {
    return Metric("penstock_grpc_in_flight") == static_cast<double>(GrpcFrontEnd::kOpenCallsMax);
  }));
  ClientContext context;
  HealthCheckResponse response;
  EXPECT_TRUE(channel_->Call(path, &context, HealthCheckRequest(), &response).ok());
  size_t left = 0;
  for (const auto& stream : open) {
    stream->WriteBytes("");
    stream->WritesDone();
    const GrpcStatus status = stream->Finish();
    left += status.ok();
    EXPECT_TRUE(status.ok() || status.code == Code::kCancelled);
  }
  EXPECT_EQ(left, GrpcFrontEnd::kOpenCallsMax - 1);
}

TEST_F(WireTest, TextsOfErrorsComeAsTheyAre) {
  ModelInferRequest request = Add({1, 2}, {3, 4});
  request.set_model_name("\t\u00fcml\u00e4ut 100% \U0001F600");
  const GrpcStatus status = Infer(request);
  EXPECT_EQ(status.code, Code::kNotFound);
  EXPECT_THAT(status.message, HasSubstr("\u00fcml\u00e4ut 100% \U0001F600"));
}

TEST_F(WireTest, ReflectionShowsServicesFilesAndSymbols) {
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  for (const char* package : {"v1", "v1alpha"}) {
    ClientContext context;
    const auto stream = channel_->Open(
        std::string("/grpc.reflection.") + package + ".ServerReflection/ServerReflectionInfo",
        &context);
    const auto ask = [&](auto set) {
      Request request;
      set(&request);
      stream->Write(request);
      grpc::reflection::v1::ServerReflectionResponse response;
      EXPECT_TRUE(stream->Read(&response));
      return response;
    };
    std::vector<std::string> names;
    const auto list = ask([](Request* request) { request->set_list_services(""); });
    for (const auto& one : list.list_services_response().service()) names.push_back(one.name());
    EXPECT_THAT(names, testing::IsSupersetOf({"grpc.health.v1.Health", "tei.v1.Embed",
                                              "inference.GRPCInferenceService",
                                              "grpc.reflection.v1.ServerReflection",
                                              "grpc.reflection.v1alpha.ServerReflection"}));
    for (const std::string& name : names) {
      const auto found = ask([&](Request* request) { request->set_file_containing_symbol(name); });
      EXPECT_GE(found.file_descriptor_response().file_descriptor_proto_size(), 1) << name;
    }
    const auto file =
        ask([](Request* request) { request->set_file_by_filename("grpc/inference.proto"); });
    EXPECT_EQ(file.file_descriptor_response().file_descriptor_proto_size(), 2);  // and its import
    const auto none = ask([](Request* request) { request->set_file_by_filename("none"); });
    EXPECT_EQ(none.error_response().error_code(), static_cast<int>(Code::kNotFound));
    EXPECT_EQ(ask([](Request*) {}).error_response().error_code(),
              static_cast<int>(Code::kInvalidArgument));
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
}

}  // namespace
}  // namespace penstock

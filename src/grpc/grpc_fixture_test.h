// A gRPC server of built-in models, and a client of it, for tests.
#pragma once

#include <grpc/inference.pb.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/service.h"
#include "engine/builtin_models.h"
#include "engine/registry.h"
#include "engine/tensor_engine.h"
#include "grpc/grpc_server.h"
#include "grpc/rpc_client_test.h"
#include "metrics/metrics.h"

namespace penstock {

class GrpcServerTest : public testing::Test {
 protected:
  // "add", "identity", "slow" (50 ms a run) and "lazy", which no request has loaded yet.
  void SetUp() override { Serve(); }
  void Serve(const ServerOptions& server = {}, const GrpcOptions& grpc = {},
             const ServiceOptions& limits = {}) {
    Stop();
    registry_ = std::make_unique<Registry>(
        nullptr, &metrics_,
        [this](const ModelSpec& spec) -> Expected<std::unique_ptr<Model>> {
          TensorEngineOptions tensors = spec.tensors;
          tensors.name = spec.name;
          PENSTOCK_ASSIGN_OR_RETURN(
              std::unique_ptr<Model> model,
              TensorEngine::Load(spec.reference, tensors, nullptr, &metrics_));
          return model;
        },
        RegistryOptions());
    for (const auto& [name, reference] : std::vector<std::pair<const char*, const char*>>{
             {"add", "builtin:add?type=INT32&shape=2&batch=8"},
             {"identity", "builtin:identity?type=FP32&shape=-1&batch=8"},
             {"texts", "builtin:identity?type=BYTES&shape=1&batch=8"},
             {"slow", "builtin:slow?ms=50&type=INT32&shape=1&batch=1"}}) {
      ModelSpec spec;
      spec.name = name;
      spec.reference = reference;
      ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    }
    registry_->StartLoading();
    ASSERT_TRUE(registry_->WaitLoaded().ok());
    service_ = std::make_unique<Service>(registry_.get(), limits, &metrics_);
    GrpcOptions options = grpc;
    options.port = 0;
    auto started = GrpcServer::Start(service_.get(), &metrics_, server, options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = *std::move(started);
    channel_ = NewChannel();
  }
  void Stop() {
    channel_.reset();
    server_.reset();
    service_.reset();
    if (registry_ != nullptr) registry_->Stop();
    registry_.reset();
  }
  void TearDown() override { Stop(); }

  std::shared_ptr<ClientChannel> NewChannel() {
    return std::make_shared<ClientChannel>(server_->port());
  }
  static std::string PathOf(const char* method) {
    return std::string("/inference.GRPCInferenceService/") + method;
  }
  // A method of GRPCInferenceService.
  GrpcStatus Call(const char* method, ClientContext* context,
                  const google::protobuf::MessageLite& request,
                  google::protobuf::MessageLite* response) {
    return channel_->Call(PathOf(method), context, request, response);
  }

  // One row for "add": a and b.
  static inference::ModelInferRequest Add(std::vector<int32_t> a, std::vector<int32_t> b) {
    inference::ModelInferRequest request;
    request.set_model_name("add");
    request.set_id("one");
    AddRaw("INPUT0", "INT32", {static_cast<int64_t>(a.size() / 2), 2}, a, &request);
    AddRaw("INPUT1", "INT32", {static_cast<int64_t>(b.size() / 2), 2}, b, &request);
    return request;
  }
  static inference::ModelInferRequest Slow(int32_t value) {
    inference::ModelInferRequest request;
    request.set_model_name("slow");
    request.set_id(std::to_string(value));
    AddRaw<int32_t>("INPUT0", "INT32", {1, 1}, {value}, &request);
    return request;
  }
  template <typename T>
  static void AddRaw(const char* name, const char* type, std::vector<int64_t> shape,
                     const std::vector<T>& values, inference::ModelInferRequest* request) {
    auto* const input = request->add_inputs();
    input->set_name(name);
    input->set_datatype(type);
    for (const int64_t size : shape) input->add_shape(size);
    request->add_raw_input_contents(reinterpret_cast<const char*>(values.data()),
                                    values.size() * sizeof(T));
  }
  template <typename T>
  static std::vector<T> Output(const inference::ModelInferResponse& response, int index) {
    const std::string& raw = response.raw_output_contents(index);
    std::vector<T> values(raw.size() / sizeof(T));
    std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }
  double Metric(const std::string& series) {
    const std::string text = metrics_.Render();
    const size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + 2 + series.size()));
  }

  Metrics metrics_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<ClientChannel> channel_;
};

}  // namespace penstock

#include "bench/grpc_echo.h"

#include <fmt/format.h>
#include <grpc/inference.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "load/latency.h"

namespace penstock {
namespace {

using SteadyClock = std::chrono::steady_clock;

inference::ModelInferRequest RequestOf(const GrpcEchoOptions& options) {
  inference::ModelInferRequest request;
  request.set_model_name(options.model);
  auto* const input = request.add_inputs();
  input->set_name("INPUT0");
  input->set_datatype("FP32");
  input->add_shape(1);
  input->add_shape(options.width);
  request.add_raw_input_contents(std::string(static_cast<size_t>(options.width) * 4, '\x3f'));
  return request;
}

class EmptyService final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit EmptyService(int answer_bytes) {
    auto* const output = answer_.add_outputs();
    output->set_name("OUTPUT0");
    output->set_datatype("FP32");
    output->add_shape(1);
    output->add_shape(answer_bytes / 4);
    answer_.add_raw_output_contents(std::string(static_cast<size_t>(answer_bytes), '\x3f'));
  }
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest*,
                                       inference::ModelInferResponse* response) override {
    *response = answer_;
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  inference::ModelInferResponse answer_;
};

// One thread's calls: each answer sends the next.
class Caller {
 public:
  Caller(const GrpcEchoOptions& options, int number) : request_(RequestOf(options)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("penstock.connection", number);  // else equal channels share one
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(options.target, grpc::InsecureChannelCredentials(), arguments));
  }

  void Run(const GrpcEchoOptions& options) {
    for (int i = 0; i < options.window; ++i) Send(new Call);
    const auto begin = SteadyClock::now();
    const auto end = begin + std::chrono::duration<double>(options.seconds);
    int open = options.window;
    void* tag = nullptr;
    bool ok = false;
    while (open > 0 && queue_.Next(&tag, &ok)) {
      auto* const call = static_cast<Call*>(tag);
      const auto now = SteadyClock::now();
      if (!call->status.ok() && failure_.ok()) {
        failure_ = Status{StatusCode::kUnavailable, call->status.error_message()};
      }
      latency_.Add(std::chrono::duration<double, std::milli>(now - call->begin).count());
      const bool again = failure_.ok() && now < end;
      done_ += now < end ? 1 : 0;
      delete call;
      if (again) {
        Send(new Call);
      } else {
        --open;
      }
    }
    seconds_ = options.seconds;
  }

  const Status& failure() const { return failure_; }
  double rate() const { return static_cast<double>(done_) / seconds_; }
  const LatencyHistogram& latency() const { return latency_; }

 private:
  struct Call {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    grpc::Status status;
    SteadyClock::time_point begin;
    std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
  };

  void Send(Call* call) {
    call->begin = SteadyClock::now();
    call->reader = stub_->AsyncModelInfer(&call->context, request_, &queue_);
    call->reader->Finish(&call->response, &call->status, call);
  }

  const inference::ModelInferRequest request_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  grpc::CompletionQueue queue_;
  uint64_t done_ = 0;
  double seconds_ = 1;
  LatencyHistogram latency_;
  Status failure_;
};

}  // namespace

struct EmptyGrpcServer::Impl {
  explicit Impl(int answer_bytes) : service(answer_bytes) {}
  EmptyService service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

EmptyGrpcServer::EmptyGrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmptyGrpcServer::~EmptyGrpcServer() { impl_->server->Shutdown(std::chrono::system_clock::now()); }
uint16_t EmptyGrpcServer::port() const { return static_cast<uint16_t>(impl_->port); }

Expected<std::unique_ptr<EmptyGrpcServer>> EmptyGrpcServer::Start(int answer_bytes) {
  auto impl = std::make_unique<Impl>(answer_bytes);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return Status{StatusCode::kUnavailable, "cannot start the empty gRPC service"};
  }
  return std::unique_ptr<EmptyGrpcServer>(new EmptyGrpcServer(std::move(impl)));
}

Expected<GrpcEchoResult> RunGrpcEcho(const GrpcEchoOptions& options) {
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    callers.push_back(std::make_unique<Caller>(options, i));
  }
  for (const auto& caller : callers) {
    threads.emplace_back([&options, one = caller.get()] { one->Run(options); });
  }
  for (std::thread& thread : threads) thread.join();
  GrpcEchoResult result;
  LatencyHistogram latency;
  for (const auto& caller : callers) {
    if (!caller->failure().ok()) return caller->failure().Annotate(options.target);
    result.requests_per_s += caller->rate();
    latency.Merge(caller->latency());
  }
  result.p50_us = latency.PercentileMs(0.5) * 1e3;
  return result;
}

}  // namespace penstock

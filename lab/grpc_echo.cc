#include "lab/grpc_echo.h"

#include <fmt/format.h>
#include <grpc/inference.pb.h>

#include <chrono>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grpc/rpc.h"
#include "http2/http2_client.h"
#include "load/latency.h"

namespace penstock::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::string RequestOf(const GrpcEchoOptions& options) {
  inference::ModelInferRequest request;
  request.set_model_name(options.model);
  auto* const input = request.add_inputs();
  input->set_name("INPUT0");
  input->set_datatype("FP32");
  input->add_shape(1);
  input->add_shape(options.width);
  request.add_raw_input_contents(std::string(static_cast<size_t>(options.width) * 4, '\x3f'));
  grpc::RpcMessage message(request.ByteSizeLong());
  request.SerializeWithCachedSizesToArray(message.data());
  return grpc::RpcMessage::Framed(std::move(message), /*packed=*/false);
}

// One thread's calls: each answer sends the next.
class Caller final : http2::Http2Client::Events {
 public:
  explicit Caller(const GrpcEchoOptions& options)
      : options_(options), request_(RequestOf(options)) {}

  void Run() {
    const size_t colon = options_.target.rfind(':');
    if (colon == std::string::npos) {
      failure_ = Status::InvalidArgument("the target must be HOST:PORT");
      return;
    }
    auto client = http2::Http2Client::Connect(
        options_.target.substr(0, colon),
        static_cast<uint16_t>(std::atoi(options_.target.c_str() + colon + 1)), this);
    if (!client.ok()) {
      failure_ = client.status();
      return;
    }
    client_ = *std::move(client);
    end_ = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                    std::chrono::duration<double>(options_.seconds));
    for (int i = 0; i < options_.window; ++i) Send();
    client_->Flush();
    while (!begun_.empty()) {
      if (!client_->Receive()) {
        failure_ = Status(StatusCode::kUnavailable, "the connection was lost");
        return;
      }
    }
  }

  const Status& failure() const { return failure_; }
  double rate() const { return static_cast<double>(done_) / options_.seconds; }
  const load::LatencyHistogram& latency() const { return latency_; }

 private:
  void Send() {
    const int32_t stream = client_->Begin({{":method", "POST"},
                                           {":scheme", "http"},
                                           {":path", "/inference.GRPCInferenceService/ModelInfer"},
                                           {":authority", options_.target},
                                           {"te", "trailers"},
                                           {"content-type", "application/grpc"}},
                                          /*last=*/false);
    client_->SendData(stream, request_, /*last=*/true);
    begun_[stream] = SteadyClock::now();
  }
  void OnHeaders(int32_t, http2::HeaderList headers) override {
    for (const auto& [name, value] : headers) {
      if (name == "grpc-status" && value != "0" && failure_.ok()) {
        failure_ = Status(StatusCode::kUnavailable, "a call failed with the code " + value);
      }
    }
  }
  void OnData(int32_t, std::string_view) override {}
  void OnEnd(int32_t stream, uint32_t error) override {
    const auto now = SteadyClock::now();
    const auto call = begun_.extract(stream);
    if (error != 0 && failure_.ok()) {
      failure_ = Status(StatusCode::kUnavailable, fmt::format("a call was reset: {}", error));
    }
    latency_.Add(std::chrono::duration<double, std::milli>(now - call.mapped()).count());
    if (now >= end_) return;
    ++done_;
    if (failure_.ok()) Send();
  }

  const GrpcEchoOptions options_;
  const std::string request_;
  std::unique_ptr<http2::Http2Client> client_;
  std::unordered_map<int32_t, SteadyClock::time_point> begun_;  // calls under way
  SteadyClock::time_point end_;
  uint64_t done_ = 0;
  load::LatencyHistogram latency_;
  Status failure_;
};

}  // namespace

Expected<GrpcEchoResult> RunGrpcEcho(const GrpcEchoOptions& options) {
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) callers.push_back(std::make_unique<Caller>(options));
  for (const auto& caller : callers) {
    threads.emplace_back([one = caller.get()] { one->Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  GrpcEchoResult result;
  load::LatencyHistogram latency;
  for (const auto& caller : callers) {
    if (!caller->failure().ok()) return caller->failure().Annotate(options.target);
    result.requests_per_s += caller->rate();
    latency.Merge(caller->latency());
  }
  result.p50_us = latency.PercentileMs(0.5) * 1e3;
  return result;
}

}  // namespace penstock::lab

// Both ends of a measurement of gRPC: a client that keeps unary inference calls under way, and the
// emptiest service there is, which answers each with a message made beforehand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"

namespace penstock {

// inference.GRPCInferenceService with ModelInfer alone, by gRPC's callback API.
class EmptyGrpcServer {
 public:
  // On a port of its own of 127.0.0.1. `answer_bytes`: of its one output.
  static Expected<std::unique_ptr<EmptyGrpcServer>> Start(int answer_bytes);
  ~EmptyGrpcServer();
  uint16_t port() const;

 private:
  struct Impl;
  explicit EmptyGrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct GrpcEchoOptions {
  std::string target;  // host:port
  std::string model = "identity";
  int width = 32;   // FP32 elements of a row; a request is a row
  int threads = 1;  // of the client, each with a connection
  int window = 64;  // calls under way of each
  double seconds = 1;
};

struct GrpcEchoResult {
  double requests_per_s = 0;
  double p50_us = 0;
};

// kUnavailable: a call failed, with its error.
Expected<GrpcEchoResult> RunGrpcEcho(const GrpcEchoOptions& options);

}  // namespace penstock

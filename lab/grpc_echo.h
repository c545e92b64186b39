// A client of gRPC that keeps unary inference calls under way and measures them.
#pragma once

#include <string>

#include "base/status.h"

namespace penstock::lab {

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

}  // namespace penstock::lab

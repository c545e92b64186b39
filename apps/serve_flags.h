// The flags of penstock serve.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/command_line.h"
#include "grpc/grpc_server.h"
#include "http/server_options.h"
#include "model_flags.h"

namespace penstock::cli {

struct ServeFlags {
  runtime::ModelOptions model;
  http::ServerOptions server;
  grpc::GrpcOptions grpc;
  int64_t request_timeout_ms = 0;
  int64_t idle_timeout_ms = http::ServerOptions().idle_timeout.count();
  int64_t read_timeout_ms = http::ServerOptions().read_timeout.count();
  int64_t write_timeout_ms = http::ServerOptions().write_timeout.count();
  int64_t stream_start_timeout_ms = 0;
  int64_t stream_ping_ms = http::ServerOptions().stream_ping.count();
  int64_t shutdown_timeout_s = 30;
  int64_t shutdown_delay_s = 0;
  std::string stage_timers = "on";
  int64_t slow_request_ms = http::ServerOptions().slow_request.count();
  bool accept_any_model = false;
  bool allow_pull = false;
};

void AddServeFlags(CommandLine* line, ServeFlags* flags);
// After Parse: flags that do not go together.
Status CheckServeFlags(const ServeFlags& flags);
// The same: flags that are numbers, as the server wants them.
void TakeNumbers(const FlagSet& app, ServeFlags* flags);

}  // namespace penstock::cli

// What penstock serve says once it is ready.
#pragma once

#include <vector>

#include "api/service.h"
#include "grpc/grpc_server.h"
#include "serve_flags.h"
#include "server/server.h"

namespace penstock::cli {

// Prints where it listens, its models, and a first request for curl, on stdout. `grpc`: null
// without it.
void PrintReady(const ServeFlags& flags, const server::Server& http, const grpc::GrpcServer* grpc,
                const api::Service& service);
// Logs where any name is accepted, but several models do the same.
void WarnOfSharedTasks(const std::vector<api::ModelInfo>& models);

}  // namespace penstock::cli

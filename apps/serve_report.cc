#include "serve_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <string>

#include "base/printable.h"
#include "json/json_writer.h"
#include "log/log.h"

namespace penstock::cli {
namespace {

std::string Describe(const api::ModelInfo& model) {
  if (!model.ready) return model.name + " (loaded by the first request)";
  if (model.task == api::kTensorTask) {
    return fmt::format("{} ({}, {}, {})", model.name, model.task, model.platform, model.backend);
  }
  std::string text = fmt::format("{} ({}, {}, {} tokens", model.name, model.architecture,
                                 model.task, model.max_tokens);
  if (model.dimensions > 0) text += fmt::format(", {} dimensions", model.dimensions);
  return text + ", " + model.backend + ")";
}

std::string CurlLine(const api::ModelInfo& model, const std::string& url, bool key) {
  const char* const insecure = url.starts_with("https") ? "k" : "";
  const char* const authorization = key ? " -H \"Authorization: Bearer $PENSTOCK_API_KEY\"" : "";
  if (model.task == api::kTensorTask) {  // what its tensors are, only its user knows
    return fmt::format("curl -s{} {}/v1/models{}", insecure, url, authorization);
  }
  std::string json_name;
  AppendJsonString(model.name, &json_name);
  std::string route = "/v1/embeddings";
  std::string body = "{\"model\": " + json_name + ", \"input\": \"Hello, world\"}";
  if (model.task == "reranking") {
    route = "/v1/rerank";
    body =
        "{\"model\": " + json_name +
        ", \"query\": \"What is a penstock?\", \"documents\": [\"A pipe that feeds a turbine.\", "
        "\"A writing tool.\"]}";
  } else if (model.task == "classification") {
    route = "/v1/classify";
    body = "{\"model\": " + json_name + ", \"input\": \"I like it.\"}";
  }
  // Names may hold a quote; a shell string must not.
  for (size_t at = 0; (at = body.find('\'', at)) != std::string::npos; at += 4) {
    body.replace(at, 1, "'\\''");
  }
  return fmt::format("curl -s{} {}{}{} -H 'Content-Type: application/json' -d '{}'", insecure, url,
                     route, authorization, body);
}

std::string UrlOf(const char* scheme, std::string host, uint16_t port) {
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}://{}:{}", scheme, host, port);
}

// As the server listens.
std::string UrlsOf(const ServeFlags& flags, const server::Server& http,
                   const grpc::GrpcServer* grpc) {
  std::string urls = UrlOf(http.tls() ? "https" : "http", flags.server.host, http.port());
  if (grpc == nullptr) return urls;
  const std::string& host = flags.grpc.host.empty() ? flags.server.host : flags.grpc.host;
  return urls + " and " + UrlOf(grpc->tls() ? "grpcs" : "grpc", host, grpc->port());
}

// As clients on this machine reach it.
std::string LocalUrl(const ServeFlags& flags, const server::Server& server) {
  std::string host = flags.server.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  return UrlOf(server.tls() ? "https" : "http", host, server.port());
}

}  // namespace

void PrintReady(const ServeFlags& flags, const server::Server& http, const grpc::GrpcServer* grpc,
                const api::Service& service) {
  const std::string urls = UrlsOf(flags, http, grpc);
  const std::vector<api::ModelInfo> served = service.Models();
  if (served.empty()) {  // a repository that is to be filled
    std::printf("penstock " PENSTOCK_VERSION " ready on %s serving no model yet\n", urls.c_str());
    std::fflush(stdout);
    return;
  }
  std::string models;
  for (const api::ModelInfo& model : served) {
    models += models.empty() ? "" : ", ";
    models += Printable(Describe(model));
  }
  const std::string curl =
      CurlLine(served.front(), LocalUrl(flags, http), flags.server.AsksForKey());
  std::printf("penstock " PENSTOCK_VERSION " ready on %s serving %s\n%s\n", urls.c_str(),
              models.c_str(), Printable(curl).c_str());
  std::fflush(stdout);
}

void WarnOfSharedTasks(const std::vector<api::ModelInfo>& models) {
  std::map<std::string, int> counts;
  for (const api::ModelInfo& model : models) ++counts[model.task];
  for (const auto& [task, count] : counts) {
    if (count == 1) continue;
    LogWarn("--accept-any-model: {} models do {}, so a request for that must name one of them",
            count, task);
  }
}

}  // namespace penstock::cli

// penstock serve: models behind HTTP and gRPC.
//
// The main thread waits for the end of loading and for signals; everything else happens on threads
// of the server, the service and the schedulers.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "access_flags.h"
#include "base/printable.h"
#include "cache/cache_salt.h"
#include "cli/command_line.h"
#include "cli/flag_values.h"
#include "commands.h"
#include "default_models.h"
#include "grpc/grpc_server.h"
#include "grpc_flags.h"
#include "json/json_writer.h"
#include "log/log.h"
#include "log/log_writer.h"
#include "model_flags.h"
#include "os/memory.h"
#include "os/processors.h"
#include "served_model_flags.h"
#include "server/server.h"
#include "service_manager.h"
#include "signals.h"

namespace penstock::cli {
namespace {

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

void AddServerFlags(FlagSet* app, ServeFlags* flags) {
  http::ServerOptions& server = flags->server;
  const FlagGroup network(app, "Network");
  network.Add("--host", server.host, "HOST", "Name or address to listen on; 0.0.0.0 = everywhere.");
  network.Add("-p,--port", server.port, "PORT", InRange(0, 65'535), "Port; 0 = any free one.");
  network.Add("--io-threads,--http-threads", server.io_threads, "N", InRange(1, 256),
              "Threads that read and write.");
  const FlagGroup model(app, "Model");
  model.Switch(
      "--accept-any-model", flags->accept_any_model,
      "Where one model of a task is served, take it for any name that a request gives, for "
      "clients with a name built in.");
  model.Switch("--allow-pull", flags->allow_pull,
               "Take POST /api/pull and DELETE /api/delete, which download models of the hub and "
               "delete them. With --admin-api-key they are taken from administrators without it.");
  model.Add("--max-pull-bytes", flags->model.pull_bytes_max, "BYTES",
            InRange(uint64_t{1}, uint64_t{1} << 50), "Bytes that one such download may have.");
  const FlagGroup batches(app, "Batches");
  batches.Add("--batch-folder", server.batch_folder, "DIR",
              "Folder in which /v1/files and /v1/batches keep what they have; without it these "
              "routes are not there.");
  batches.Add("--batch-folder-bytes", server.batch_folder_bytes, "BYTES",
              InRange(uint64_t{1}, uint64_t{1} << 50), "Bytes of its files.");
  const FlagGroup priority(app, "Priority");
  priority.AddRepeated("--bulk-route", server.bulk_routes, "PATH",
                       "Route, such as /v1/embeddings, whose requests are bulk work unless they "
                       "say X-Penstock-Priority: interactive. May be given again.");
}

void AddResidentFlag(const FlagGroup& limits, ServeFlags* flags) {
  limits.Add(
      "--max-resident-bytes", flags->model.limits.resident_bytes_max, "BYTES",
      "Memory of the process, mapped files aside, over which new bulk work is refused (503), "
      "and 1/24 more over which all is, until it falls; 0: 92 % of the control group's or the "
      "machine's.");
}

void AddLimitFlags(FlagSet* app, ServeFlags* flags) {
  const FlagGroup limits(app, "Limits");
  const auto at_least_one = InRange(int64_t{1}, int64_t{1} << 40);
  limits.Add("--max-client-batch-size", flags->model.limits.inputs_per_request, "N",
             InRange(1, 1 << 20), "Inputs or documents of one request.");
  limits.Add("--max-concurrent-requests", flags->model.limits.concurrent_requests, "N",
             InRange(1, 1 << 20),
             "Requests worked on at once; more are told to come back (429). Bulk work may fill 3/4 "
             "of this and of the queues.");
  limits.Add("--max-queued-tokens", flags->model.scheduler.max_queued_tokens, "TOKENS",
             at_least_one, "Tokens that wait for a model; more are told to come back (429).");
  limits.Add("--max-queued-rows", flags->model.scheduler.max_queued_rows, "N", at_least_one,
             "Sequences that wait for a model; more are told to come back (429).");
  limits.Add("--bulk-every", flags->model.scheduler.bulk_every, "N", InRange(1, 1 << 20),
             "While interactive and bulk work wait, bulk gets one part of the model's time, "
             "interactive work this many.");
  const FlagGroup texts(app, "Texts");
  texts.Switch("--token-input,!--no-token-input", flags->model.limits.token_input,
               "Take token ids as input, or refuse them (400): clients that send those of another "
               "tokenizer, as some made for OpenAI do, get worthless vectors. [on]");
  static const std::map<std::string, bool> kTokenIds = {{"model", true}, {"refuse", false}};
  texts
      .Add("--openai-token-ids", flags->model.limits.openai_token_ids, "model|refuse",
           "Token ids as input of /v1/embeddings: taken as the model's own, or refused (400), for "
           "clients that send those of OpenAI's tokenizer.")
      ->Transform(NameOf(kTokenIds, false))
      ->DefaultText("model");
  limits.Add("--max-body-bytes", flags->server.body_bytes_max, "BYTES", at_least_one,
             "Longest request body.");
  limits.Add("--max-inflight-bytes", flags->model.limits.inflight_bytes, "BYTES", at_least_one,
             "Memory for the bodies, ids, results and answers of all requests; over it they are "
             "told to come back (429). Bulk work may fill 3/4.");
  AddResidentFlag(limits, flags);
  limits.Add("--max-response-bytes", flags->model.limits.response_bytes, "BYTES", at_least_one,
             "Longest answer, estimated before it is worked out; over it 413.");
  limits.Add("--max-header-bytes", flags->server.header_bytes_max, "BYTES", InRange(1024, 1 << 20),
             "Longest request header.");
  limits.Add("--max-connections", flags->server.connections_max, "N", InRange(1, 1 << 20),
             "Connections at once.");
}

void AddTimeFlags(FlagSet* app, ServeFlags* flags) {
  const FlagGroup limits(app, "Limits");
  const auto milliseconds = InRange(int64_t{0}, int64_t{86'400'000});
  limits.Add("--request-timeout-ms", flags->request_timeout_ms, "MS", milliseconds,
             "Longest time of a request; work not begun by then is dropped. X-Request-Timeout-Ms "
             "can shorten it. 0 = as long as that header says.");
  limits.Add("--idle-timeout-ms", flags->idle_timeout_ms, "MS", milliseconds,
             "Close a kept-alive connection that is silent for so long.");
  limits.Add("--read-timeout-ms", flags->read_timeout_ms, "MS", milliseconds,
             "Longest time a client may take to send a header, a body or a message of gRPC.");
  limits.Add("--write-timeout-ms", flags->write_timeout_ms, "MS", milliseconds,
             "Longest time a client may take no byte of an answer, or to take a piece of one that "
             "is streamed.");
  limits.Add("--stream-ping-ms", flags->stream_ping_ms, "MS", milliseconds,
             "A stream of events that was silent for this long gets a comment, which clients skip; "
             "0 = none.");
  limits.Add(
      "--stream-start-timeout-ms", flags->stream_start_timeout_ms, "MS", milliseconds,
      "Longest time to the first line of an answer in lines; 0 = as long as the whole request.");
  limits.Add("--max-stream-unread-bytes", flags->server.stream_unread_bytes_max, "BYTES",
             InRange(int64_t{4096}, int64_t{1} << 30),
             "Bytes made ahead for a client that reads an answer in lines slowly. It is dropped if "
             "it does not take a quarter of this within --write-timeout-ms.");
  limits.Add("--shutdown-delay-s", flags->shutdown_delay_s, "S", InRange(0, 86'400),
             "On SIGTERM or SIGINT, how long requests are still taken while /readyz says 503 and "
             "answers say Connection: close, so that proxies send their requests elsewhere first; "
             "--shutdown-timeout-s begins then.");
  limits.Add("--shutdown-timeout-s", flags->shutdown_timeout_s, "S", InRange(0, 86'400),
             "On SIGTERM or SIGINT, how long requests in flight may take to finish; a second such "
             "signal ends the server at once.");
}

void AddLogFlags(FlagSet* app, ServeFlags* flags) {
  const FlagGroup log(app, "Log");
  static const std::map<std::string, encode::RunStages> kRunStages = {
      {"all", encode::RunStages::kAll},
      {"tokenize", encode::RunStages::kTokenize},
      {"infer", encode::RunStages::kInfer}};
  FlagGroup(app, "Measuring")
      .Add("--run-stages", flags->model.limits.run_stages, "STAGES",
           "For measuring only, answers are worthless: tokenize stops before the model and answers "
           "zeros; infer makes up ids from the length of a text. Answers say so in "
           "X-Penstock-Run-Stages.")
      ->Transform(NameOf(kRunStages))
      ->DefaultText("all");
  log.Switch("--access-log", flags->server.access_log,
             "Log a line for each request, whatever --log-level is.");
  log.Add("--slow-request-ms", flags->slow_request_ms, "MS",
          InRange(int64_t{0}, int64_t{86'400'000}),
          "Log interactive requests that take longer, with the time of each stage, 5 a second at "
          "most. A text is slow where all but its decoding takes so long, or a token a quarter of "
          "it; its length does not count. 0 = none.");
  log.Add("--stage-timers", flags->stage_timers, "ON|OFF", OneOf({"on", "off"}),
          "Time the stages of every request, for /v1/stats, /metrics and the log of slow requests: "
          "on or off.");
  static const std::map<std::string, bool> kMetricNames = {{"off", false}, {"vllm", true}};
  log.Add("--metrics-aliases", flags->server.vllm_metrics, "NAMES",
          "Names beside our own in /metrics and /metrics/router, for dashboards, scalers and "
          "routers "
          "that know those: off or vllm.")
      ->Transform(NameOf(kMetricNames))
      ->DefaultText("off");
}

Status CheckTlsFlags(const http::ServerOptions& server) {
  if (server.tls_cert_file.empty() != server.tls_key_file.empty()) {
    return Status::InvalidArgument("--tls-cert and --tls-key belong together");
  }
  if (!server.tls_client_ca_file.empty() && server.tls_cert_file.empty()) {
    return Status::InvalidArgument("--tls-client-ca needs --tls-cert and --tls-key");
  }
  return Status::Ok();
}

void WarnOfRunStages(const ServeFlags& flags) {
  if (flags.model.limits.run_stages == encode::RunStages::kAll) return;
  LogWarn("--run-stages: only a part of each request is worked on; answers are worthless");
}

// Flags that are numbers, as the server wants them.
void TakeNumbers(const FlagSet& app, ServeFlags* flags) {
  http::ServerOptions& server = flags->server;
  if (app.Count("--io-threads") == 0) {  // not more than can run
    server.io_threads =
        std::min<int32_t>(server.io_threads, static_cast<int32_t>(UsableProcessors()));
  }
  server.request_timeout = std::chrono::milliseconds(flags->request_timeout_ms);
  server.idle_timeout = std::chrono::milliseconds(flags->idle_timeout_ms);
  server.read_timeout = std::chrono::milliseconds(flags->read_timeout_ms);
  server.stage_timers = flags->stage_timers == "on";
  server.slow_request = std::chrono::milliseconds(flags->slow_request_ms);
  server.write_timeout = std::chrono::milliseconds(flags->write_timeout_ms);
  server.stream_start_timeout = std::chrono::milliseconds(flags->stream_start_timeout_ms);
  server.stream_ping = std::chrono::milliseconds(flags->stream_ping_ms);
}

// What clients reach the models through.
struct FrontEnds {
  std::unique_ptr<server::Server> http;
  std::unique_ptr<grpc::GrpcServer> grpc;  // null: not asked for

  // Both get the whole time. False: a batch did not end in it.
  bool Shutdown(std::chrono::milliseconds timeout) {
    std::thread other;
    if (grpc != nullptr) other = std::thread([&] { grpc->Shutdown(timeout); });
    const bool ended = http->Shutdown(timeout);
    if (other.joinable()) other.join();
    return ended;
  }
};

void Reload(FrontEnds* servers) {
  LogInfo("SIGHUP: reading the files of keys and certificate again");
  const bool http = servers->http->Reload().ok();
  const bool grpc = servers->grpc == nullptr || servers->grpc->Reload().ok();
  if (http && grpc) LogInfo("reloaded");
}

// Servers that share a Redis find each other's entries of the same key there, so they have one
// secret: that of the entries. Where it has none, whoever reads it can only test guesses of keys.
std::string CacheSecretFor(const ServeFlags& flags, const api::ServiceOptions& service) {
  if (flags.server.shares_caches) return "";
  if (!service.redis) return cache::NewCacheSecret();
  return "penstock caches" + service.redis_secret;
}

Expected<FrontEnds> StartFrontEnds(ServeFlags* given, runtime::LocalModels* models) {
  given->server.cache_secret = CacheSecretFor(*given, models->service->options());
  const ServeFlags& flags = *given;
  FrontEnds servers;
  // A client that sees the server ready finds all of it.
  models->service->HoldReadiness(true);
  PENSTOCK_ASSIGN_OR_RETURN(
      servers.http, server::Server::Start(models->service.get(), &models->metrics, flags.server));
  if (flags.grpc.port) {
    PENSTOCK_ASSIGN_OR_RETURN(
        servers.grpc,
        grpc::GrpcServer::Start(models->service.get(), &models->metrics, flags.server, flags.grpc,
                                servers.http->keys(), servers.http->slow_log(),
                                servers.http->all_connections()));
  }
  models->service->HoldReadiness(false);
  return servers;
}

// Waits for the end of loading, and ends the process on a signal before.
Status WaitLoaded(registry::Registry* registry, FrontEnds* servers, const Signals& signals) {
  const int done = eventfd(0, EFD_CLOEXEC);
  PENSTOCK_CHECK(done >= 0);
  Status loaded;
  std::thread waiter([&] {
    loaded = registry->WaitLoaded();
    const uint64_t one = 1;
    (void)!write(done, &one, sizeof one);
  });
  for (;;) {
    pollfd fds[2] = {{signals.fd(), POLLIN, 0}, {done, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents == 0) break;
    const int number = signals.Wait();
    if (number == SIGHUP) {
      Reload(servers);
      continue;
    }
    std::fprintf(stderr, "penstock serve: stopped before the models were loaded\n");
    // Loading cannot be interrupted, and nothing is lost with it.
    FlushLog();
    _exit(128 + number);
  }
  waiter.join();
  close(done);
  return loaded;
}

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
std::string UrlsOf(const ServeFlags& flags, const FrontEnds& servers) {
  std::string urls =
      UrlOf(servers.http->tls() ? "https" : "http", flags.server.host, servers.http->port());
  if (servers.grpc == nullptr) return urls;
  const std::string& host = flags.grpc.host.empty() ? flags.server.host : flags.grpc.host;
  return urls + " and " + UrlOf(servers.grpc->tls() ? "grpcs" : "grpc", host, servers.grpc->port());
}

// As clients on this machine reach it.
std::string LocalUrl(const ServeFlags& flags, const server::Server& server) {
  std::string host = flags.server.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  return UrlOf(server.tls() ? "https" : "http", host, server.port());
}

// Where any name is accepted, but several models do the same.
void WarnOfSharedTasks(const std::vector<api::ModelInfo>& models) {
  std::map<std::string, int> counts;
  for (const api::ModelInfo& model : models) ++counts[model.task];
  for (const auto& [task, count] : counts) {
    if (count == 1) continue;
    LogWarn("--accept-any-model: {} models do {}, so a request for that must name one of them",
            count, task);
  }
}

void PrintReady(const ServeFlags& flags, const FrontEnds& servers, const api::Service& service) {
  const std::vector<api::ModelInfo> served = service.Models();
  if (served.empty()) {  // a repository that is to be filled
    std::printf("penstock " PENSTOCK_VERSION " ready on %s serving no model yet\n",
                UrlsOf(flags, servers).c_str());
    std::fflush(stdout);
    return;
  }
  std::string models;
  for (const api::ModelInfo& model : served) {
    models += models.empty() ? "" : ", ";
    models += Printable(Describe(model));
  }
  const std::string curl =
      CurlLine(served.front(), LocalUrl(flags, *servers.http), flags.server.AsksForKey());
  std::printf("penstock " PENSTOCK_VERSION " ready on %s serving %s\n%s\n",
              UrlsOf(flags, servers).c_str(), models.c_str(), Printable(curl).c_str());
  std::fflush(stdout);
}

// For models to stop, where requests took all of the time.
constexpr std::chrono::milliseconds kStopTime{500};

void ShutDown(FrontEnds* servers, runtime::LocalModels* local, const Signals& signals,
              const ServeFlags& flags) {
  TellServiceManager("STOPPING=1");
  // A second signal ends the process at once.
  std::thread([fd = signals.fd()] {
    signalfd_siginfo info{};
    while (read(fd, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGHUP) continue;
      FlushLog();
      _exit(128 + static_cast<int>(info.ssi_signo));
    }
  }).detach();
  local->service->AnnounceStop();
  servers->http->AnnounceShutdown();
  if (flags.shutdown_delay_s > 0) {
    LogInfo("going to shut down; requests are taken for {} s more", flags.shutdown_delay_s);
    std::this_thread::sleep_for(std::chrono::seconds(flags.shutdown_delay_s));
  }
  LogInfo("shutting down; requests in flight have {} s to finish", flags.shutdown_timeout_s);
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::milliseconds timeout{flags.shutdown_timeout_s * 1000};
  if (!servers->Shutdown(timeout)) {
    LogWarn("a request of a batch was not ended in time; it is run again after a restart");
    FlushLog();
    // Its thread uses what destructors would take away. The batch's files are whole at any time.
    _exit(kExitFailure);
  }
  local->service->StopAccepting();
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  if (!local->service->Drain(std::max(timeout - used, std::chrono::milliseconds(1000)))) {
    LogWarn("some requests were not finished in time");
    FlushLog();
    // Destructors would wait for them.
    _exit(kExitFailure);
  }
  // A load goes on to its end, however long it takes; nothing waits for it, and nothing is lost.
  std::promise<void> stopped;
  std::thread stop([&] {
    local->registry->Stop();
    stopped.set_value();
  });
  const auto end = std::max(start + timeout, std::chrono::steady_clock::now() + kStopTime);
  if (stopped.get_future().wait_until(end) != std::future_status::ready) {
    LogInfo("stopped while a model was being loaded");
    FlushLog();
    _exit(kExitOk);
  }
  stop.join();
  LogInfo("stopped");
  FlushLog();
}

}  // namespace

int RunServe(const std::vector<std::string>& args) {
  CommandLine line(
      "serve", "Serve models over HTTP and gRPC.",
      "  penstock serve --model sentence-transformers/all-MiniLM-L6-v2\n"
      "  penstock serve --model ./embedder --model rank=./reranker --port 9000\n"
      "  penstock serve --model ./embedder --host 0.0.0.0 --api-key-file /run/secrets/keys\n"
      "  penstock serve --repository /srv/models\n"
      "  penstock serve --config /etc/penstock.toml\n");
  ServeFlags flags;
  AddServedModelFlags(&line, &flags.model, "info");
  AddServerFlags(&line.flags(), &flags);
  AddGrpcFlags(&line, &flags.grpc);
  AddAccessFlags(&line, &flags.server);
  AddLimitFlags(&line.flags(), &flags);
  AddTimeFlags(&line.flags(), &flags);
  AddLogFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  const Signals signals;  // before any thread
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  ReturnLargeBlocks();
  if (const Status tls = CheckTlsFlags(flags.server); !tls.ok()) {
    return line.FailUsage(tls.message());
  }
  TakeNumbers(line.flags(), &flags);
  WarnOfRunStages(flags);

  FitConnections(&flags.server);
  flags.model.on_demand = true;
  flags.model.pull_by_request = flags.allow_pull || flags.server.HasAdminKeys();
  TakeServedDefaults(&flags.model, [&signals] { return !signals.IsPending(); });
  StartLogWriter();
  auto local = runtime::LocalModels::Start(flags.model);
  if (!local.ok()) {
    FlushLog();  // before what is printed beside the log
    return local.status().field().empty() ? line.Fail(local.status())
                                          : line.FailUsage(local.status().message());
  }
  runtime::LocalModels& models = **local;
  if (flags.accept_any_model) models.registry->AcceptAnyName();
  auto servers = StartFrontEnds(&flags, &models);
  if (!servers.ok()) {
    // Models may be loading still; their destructors would wait for that.
    std::fflush(nullptr);
    FlushLog();
    _exit(line.Fail(servers.status()));
  }
  WarnIfOpen(flags.server);
  const Status loaded = WaitLoaded(models.registry.get(), &*servers, signals);
  if (!loaded.ok()) {
    servers->Shutdown(std::chrono::milliseconds(0));
    models.service->StopAccepting();
    // Work of requests may use the front ends.
    const bool drained = models.service->Drain(std::chrono::seconds(1));
    FlushLog();
    if (!drained) _exit(line.Fail(loaded));
    return line.Fail(loaded);
  }
  if (flags.accept_any_model) WarnOfSharedTasks(models.service->Models());
  PrintReady(flags, *servers, *models.service);
  TellServiceManager("READY=1");
  while (signals.Wait() == SIGHUP) Reload(&*servers);
  ShutDown(&*servers, &models, signals, flags);
  return kExitOk;
}

}  // namespace penstock::cli

#include "serve_flags.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "access_flags.h"
#include "grpc_flags.h"
#include "os/processors.h"
#include "served_model_flags.h"

namespace penstock::cli {
namespace {

void AddNetworkFlags(FlagSet* app, ServeFlags* flags) {
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

}  // namespace

void AddServeFlags(CommandLine* line, ServeFlags* flags) {
  AddServedModelFlags(line, &flags->model, "info");
  AddNetworkFlags(&line->flags(), flags);
  AddGrpcFlags(line, &flags->grpc);
  AddAccessFlags(line, &flags->server);
  AddLimitFlags(&line->flags(), flags);
  AddTimeFlags(&line->flags(), flags);
  AddLogFlags(&line->flags(), flags);
}

Status CheckServeFlags(const ServeFlags& flags) {
  const http::ServerOptions& server = flags.server;
  if (server.tls_cert_file.empty() != server.tls_key_file.empty()) {
    return Status::InvalidArgument("--tls-cert and --tls-key belong together");
  }
  if (!server.tls_client_ca_file.empty() && server.tls_cert_file.empty()) {
    return Status::InvalidArgument("--tls-client-ca needs --tls-cert and --tls-key");
  }
  return Status::Ok();
}

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

}  // namespace penstock::cli

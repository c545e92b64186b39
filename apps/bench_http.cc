// penstock bench http: a server under load.
#include <map>
#include <memory>

#include "bench_http_chat.h"
#include "cli/command_line.h"
#include "commands.h"
#include "load/http_sweep.h"
#include "load/server_process.h"
#include "target_url.h"

namespace penstock::cli {
namespace {

struct HttpFlags {
  load::HttpSweepOptions sweep;
  ChatLoadFlags chat;
  std::string url;
  std::string model;
  std::vector<std::string> server_flags;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
};

void AddTargetFlags(FlagSet* app, HttpFlags* flags) {
  const FlagGroup group(app, "Server");
  group.Add("--url", flags->url, "URL", "Address of a running server, http:// or https://.");
  group.Add("-m,--model", flags->model, "REF",
            "Start a server with this model for the time of the run, instead of --url.");
  group.AddRepeated("--server-flag", flags->server_flags, "FLAG",
                    "Flag for that server, as --server-flag=--threads=1. May be given again.");
  group.Add("--server-pid", flags->sweep.window.server_pid, "PID",
            "Process of the server at --url, to count its processor time.");
  group.Add("--model-name", flags->sweep.load.model, "NAME",
            "The `model` of the requests; none = left out.");
  group.Add("--api-key", flags->sweep.target.api_key, "KEY", "Sent as a bearer token.");
  group.Add("--ca-cert", flags->sweep.target.ca_file, "FILE", ExistingFile(),
            "Certificates (PEM) that the server's is checked against; none = those that "
            "SSL_CERT_FILE names, or the system's.");
  group.Switch("--insecure", flags->sweep.target.insecure, "Accept any certificate of the server.");
}

void AddLoadFlags(FlagSet* app, HttpFlags* flags) {
  static const std::map<std::string, load::LoadRoute> kRoutes = {
      {"/v1/embeddings", load::LoadRoute::kOpenAiEmbeddings},
      {"/embed", load::LoadRoute::kTeiEmbed},
      {"/v1/rerank", load::LoadRoute::kRerank},
      {"/v1/classify", load::LoadRoute::kClassify}};
  static const std::map<std::string, bool> kFormats = {{"base64", true}, {"float", false}};
  load::HttpSweepOptions& sweep = flags->sweep;
  const FlagGroup group(app, "Load");
  group
      .Add("--concurrency", sweep.concurrencies, "N,...",
           InRange(1, load::HttpLoad::kConnectionsMax),
           "Clients; each sends its next request when it has the last answer. With --rate: "
           "connections at most. A list (1,4,16) makes a row of each.")
      ->Delimiter(',');
  group
      .Add("--rate", sweep.rates, "R,...", InRange(0.001, 1e7),
           "Requests a second that arrive at random (Poisson) whether or not the server keeps up. "
           "A list makes a row of each.")
      ->Delimiter(',');
  group.Add("--burst", sweep.load.burst, "N", InRange(1, 100'000),
            "With --rate: requests that arrive together.");
  group
      .Add("--batch", sweep.batches, "N,...", InRange(1, 100'000),
           "Texts (rerank: documents) of one request. A list makes a row of each.")
      ->Delimiter(',');
  group.Add("--background-concurrency", sweep.background_concurrency, "N",
            InRange(0, load::HttpLoad::kConnectionsMax),
            "Clients of a second load beside the first, of priority bulk; 0 = none.");
  group.Add("--background-batch", sweep.background_batch, "N", InRange(1, 100'000),
            "Texts of one request of the second load.");
  group
      .Add("--route", sweep.load.route, "ROUTE",
           "/v1/embeddings, /embed, /v1/rerank or /v1/classify.")
      ->Transform(NameOf(kRoutes))
      ->DefaultText("/v1/embeddings");
  group
      .Add("--encoding-format", sweep.load.base64, "FORMAT",
           "Format of /v1/embeddings: base64 or float.")
      ->Transform(NameOf(kFormats))
      ->DefaultText("base64");
  group.Add("--priority", sweep.load.priority, "CLASS", OneOf({"interactive", "bulk"}),
            "interactive or bulk; none = left out.");
  group.Add("--timeout-ms", sweep.load.timeout_ms, "MS", InRange(int64_t{0}, int64_t{86'400'000}),
            "Time the server is given for a request; 0 = not said.");
}

void AddRunFlags(FlagSet* app, HttpFlags* flags) {
  load::HttpSweepOptions& sweep = flags->sweep;
  const FlagGroup texts(app, "Texts");
  texts.Add("--texts", sweep.text_file, "FILE",
            "File with a text a line; none = texts are made up.");
  texts.Add(
      "--lengths", flags->lengths, "SPEC",
      "Words of made texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA[,MIN,MAX] (SIGMA "
      "of the logarithm).");
  texts.Add("--seed", sweep.load.seed, "N", "Seed of texts and arrivals.");

  const FlagGroup run(app, "Run");
  run.Add("--duration", sweep.window.duration_s, "S", InRange(0.01, 86'400.0),
          "Seconds measured, for each row.");
  run.Add("--warmup", sweep.window.warmup_s, "S", InRange(0.0, 86'400.0),
          "Seconds of load before that.");
  run.Add("--requests", sweep.window.requests_max, "N",
          "End a row after this many requests, warm-up included; 0 = by time alone.");

  const FlagGroup output(app, "Output");
  output.Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
  output.Add("--plot", sweep.plot_file, "FILE", "SVG file: latency against throughput.");
  output.Switch("--allow-errors", sweep.allow_errors,
                "Exit with 0 though requests were lost or refused, as in a test of overload.");
}

// The same load, of text.
Status RunChat(HttpFlags* flags, load::BenchRecords* records) {
  const load::HttpSweepOptions& sweep = flags->sweep;
  load::ChatSweepOptions chat;
  chat.load = flags->chat.load;
  chat.load.seed = sweep.load.seed;
  chat.load.request.model = sweep.load.model;
  chat.load.request.priority = sweep.load.priority;
  chat.load.request.timeout_ms = sweep.load.timeout_ms;
  chat.target = sweep.target;
  chat.concurrencies = sweep.concurrencies;
  chat.rates = sweep.rates;
  chat.window = sweep.window;
  chat.allow_errors = sweep.allow_errors;
  return load::RunChatSweep(chat, records);
}

}  // namespace

int RunBenchHttp(const std::vector<std::string>& args) {
  CommandLine line(
      "bench http",
      "Put a server under load and measure rates and latencies. Latency counts from the moment\n"
      "a request was to be sent. Processors are processor seconds a second, of the client and, if\n"
      "its process is known, of the server. Exits with 1 if a request was lost or refused.\n"
      "With --chat: streams of generated text.",
      "  penstock bench http --url http://127.0.0.1:8080 --concurrency 1,4,16 --batch 1,8\n"
      "  penstock bench http --model MODEL --rate 50,100,200 --plot latency.svg\n"
      "  penstock bench http --model MODEL --rate 20 --background-concurrency 8\n"
      "  penstock bench http --model model.gguf --chat --concurrency 1,8 --prompt-tokens 512 "
      "--goodput ttft:1000,itl:50\n");
  HttpFlags flags;
  AddTargetFlags(&line.flags(), &flags);
  AddLoadFlags(&line.flags(), &flags);
  AddRunFlags(&line.flags(), &flags);
  AddChatLoadFlags(&line.flags(),
                   {"--batch", "--burst", "--background-concurrency", "--background-batch",
                    "--route", "--encoding-format", "--texts", "--lengths", "--plot"},
                   &flags.chat);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.url.empty() == flags.model.empty()) {
    return line.FailUsage("give either --url or --model");
  }
  auto lengths = load::LengthSpec::Parse(flags.lengths);
  if (!lengths.ok()) return line.FailUsage("--lengths: " + lengths.status().message());
  flags.sweep.lengths = *lengths;
  if (const Status chat = flags.chat.Read(); !chat.ok()) return line.FailUsage(chat.message());
  // Connections are to be no limit on what arrives, unless one is asked for.
  if (!flags.sweep.rates.empty() && line.flags().Count("--concurrency") == 0) {
    flags.sweep.concurrencies = {1000};
  }

  std::unique_ptr<load::ServerProcess> server;
  if (flags.model.empty()) {
    if (const Status url = ParseTarget("--url", flags.url, &flags.sweep.target); !url.ok()) {
      return line.FailUsage(url.message());
    }
  } else {
    std::vector<std::string> words = {"--model", flags.model, "--log-level", "warn"};
    if (flags.chat.chat) words.insert(words.end(), {"--slow-request-ms", "0"});
    words.insert(words.end(), flags.server_flags.begin(), flags.server_flags.end());
    auto started = load::ServerProcess::Start(words);
    if (!started.ok()) return line.Fail(started.status());
    server = *std::move(started);
    const std::string key = flags.sweep.target.api_key;
    flags.sweep.target = server->target();
    flags.sweep.target.api_key = key;
    flags.sweep.window.server_pid = server->pid();
  }
  load::BenchRecords records;
  Status status =
      flags.chat.chat ? RunChat(&flags, &records) : load::RunHttpSweep(flags.sweep, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli

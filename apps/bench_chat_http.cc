// penstock bench chat-http: what serving costs a stream of text.
#include "bench/chat_http.h"
#include "command_line.h"
#include "commands.h"
#include "decoder_flags.h"

namespace penstock::cli {

int RunBenchChatHttp(const std::vector<std::string>& args) {
  CommandLine line(
      "bench chat-http",
      "One stream of text over HTTP beside the same model in this process; with --encoder, one "
      "stream\nbeside bulk embeddings of the same server. Starts a server of its own.",
      "  penstock bench chat-http -m model.gguf\n"
      "  penstock bench chat-http -m model.gguf --encoder ./embedder --json chat.json\n");
  bench::ChatHttpOptions options;
  DecoderFlags decoder;
  AddDecoderFlags(&line, &decoder);
  std::string json_file;
  FlagSet& app = line.flags();
  const FlagGroup group(&app, "Benchmark");
  app.Get("--model")->Required();
  for (const char* other : {"--context", "--device", "--pin", "--log-level"}) {
    app.Remove(other);
  }
  group.Add("--encoder", options.encoder, "REF",
            "Model of embeddings, for full batches beside the stream; none = not measured.");
  group.AddRepeated("--server-flag", options.server_flags, "FLAG",
                    "Flag for the server, as --server-flag=--no-prefix-cache. May be given again.");
  group.Add("--tokens", options.tokens, "N", InRange(8, 1 << 16), "Tokens of a text.");
  group.Add("--rounds", options.rounds, "N", InRange(1, 1000),
            "Rounds, in turns; the best rates count, and the times between tokens of all.");
  group.Add("--round-s", options.round_s, "S", InRange(0.1, 3600.0),
            "Seconds of a measurement with --encoder.");
  group.Add("--bulk-clients", options.bulk_clients, "N", InRange(1, 1000),
            "Clients of bulk embeddings.");
  group.Add("--bulk-batch", options.bulk_batch, "N", InRange(1, 2048),
            "Texts of one request of a bulk client.");
  group.Add("--priority", options.priority, "CLASS", OneOf({"interactive", "bulk"}),
            "Class of the embeddings: interactive, which share the processor with the stream "
            "evenly, or bulk, which get one part in --bulk-every + 1.");
  group.Switch("--completions", options.completions,
               "Use /v1/completions, for models without a chat template.");
  group.Add("--name", options.name, "NAME", "Row of the records.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.model = decoder.model;
  options.dtype = decoder.options.dtype;
  options.cache_type = decoder.options.cache_type;
  options.threads = decoder.threads;
  load::BenchRecords records;
  Status status = bench::MeasureChatHttp(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli

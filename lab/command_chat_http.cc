// penstock-lab chat-http: what serving costs a stream of text.
#include "apps/decoder_flags.h"
#include "cli/command_line.h"
#include "lab/chat_http.h"
#include "lab/commands.h"

namespace penstock::lab {

int ChatHttpCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab chat-http",
      "One stream of text over HTTP beside the same model in this process; with --encoder, one "
      "stream\nbeside bulk embeddings of the same server. Starts a server of its own.",
      "  penstock-lab chat-http -m model.gguf\n"
      "  penstock-lab chat-http -m model.gguf --encoder ./embedder --json chat.json\n");
  ChatHttpOptions options;
  cli::DecoderFlags decoder;
  cli::AddDecoderFlags(&line, &decoder);
  std::string json_file;
  cli::FlagSet& app = line.flags();
  const cli::FlagGroup group(&app, "Benchmark");
  app.Get("--model")->Required();
  for (const char* other : {"--context", "--device", "--pin", "--log-level"}) {
    app.Remove(other);
  }
  group.Add("--encoder", options.encoder, "REF",
            "Model of embeddings, for full batches beside the stream; none = not measured.");
  group.AddRepeated("--server-flag", options.server_flags, "FLAG",
                    "Flag for the server, as --server-flag=--no-prefix-cache. May be given again.");
  group.Add("--tokens", options.tokens, "N", cli::InRange(8, 1 << 16), "Tokens of a text.");
  group.Add("--rounds", options.rounds, "N", cli::InRange(1, 1000),
            "Rounds, in turns; the best rates count, and the times between tokens of all.");
  group.Add("--round-s", options.round_s, "S", cli::InRange(0.1, 3600.0),
            "Seconds of a measurement with --encoder.");
  group.Add("--bulk-clients", options.bulk_clients, "N", cli::InRange(1, 1000),
            "Clients of bulk embeddings.");
  group.Add("--bulk-batch", options.bulk_batch, "N", cli::InRange(1, 2048),
            "Texts of one request of a bulk client.");
  group.Add("--priority", options.priority, "CLASS", cli::OneOf({"interactive", "bulk"}),
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
  Status status = MeasureChatHttp(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab

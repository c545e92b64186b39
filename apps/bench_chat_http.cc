// penstock bench chat-http: what serving costs a stream of text.
#include "bench/chat_http.h"
#include "command_line.h"
#include "commands.h"
#include "decoder_flags.h"

namespace penstock {

int RunBenchChatHttp(const std::vector<std::string>& args) {
  CommandLine line(
      "bench chat-http",
      "One stream of text over HTTP beside the same model in this process; with --encoder, one "
      "stream\nbeside bulk embeddings of the same server. Starts a server of its own.",
      "  penstock bench chat-http -m model.gguf\n"
      "  penstock bench chat-http -m model.gguf --encoder ./embedder --json chat.json\n");
  ChatHttpOptions options;
  DecoderFlags decoder;
  AddDecoderFlags(&line, &decoder);
  std::string json_file;
  const std::string group = "Benchmark";
  FlagSet& app = line.flags();
  app.Get("--model")->Required();
  for (const char* other : {"--context", "--device", "--pin", "--log-level"}) {
    app.Remove(other);
  }
  app.AddOption("--encoder", options.encoder,
                "Model of embeddings, for full batches beside the stream; none = not measured.")
      ->TypeName("REF")
      ->Group(group);
  app.AddOption("--server-flag", options.server_flags,
                "Flag for the server, as --server-flag=--no-prefix-cache. May be given again.")
      ->TypeName("FLAG")
      ->AllowExtraArgs(false)
      ->Group(group);
  app.AddOption("--tokens", options.tokens, "Tokens of a text.")
      ->Check(InRange(8, 1 << 16))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--rounds", options.rounds,
                "Rounds, in turns; the best rates count, and the times between tokens of all.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--round-s", options.round_s, "Seconds of a measurement with --encoder.")
      ->Check(InRange(0.1, 3600.0))
      ->TypeName("S")
      ->Group(group);
  app.AddOption("--bulk-clients", options.bulk_clients, "Clients of bulk embeddings.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--bulk-batch", options.bulk_batch, "Texts of one request of a bulk client.")
      ->Check(InRange(1, 2048))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--priority", options.priority,
                "Class of the embeddings: interactive, which share the processor with the stream "
                "evenly, or bulk, which get one part in --bulk-every + 1.")
      ->Check(OneOf({"interactive", "bulk"}))
      ->TypeName("CLASS")
      ->Group(group);
  app.AddSwitch("--completions", options.completions,
                "Use /v1/completions, for models without a chat template.")
      ->Group(group);
  app.AddOption("--name", options.name, "Row of the records.")->TypeName("NAME")->Group(group);
  app.AddOption("--json", json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group(group);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.model = decoder.model;
  options.dtype = decoder.options.dtype;
  options.cache_type = decoder.options.cache_type;
  options.threads = decoder.threads;
  BenchRecords records;
  Status status = MeasureChatHttp(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock

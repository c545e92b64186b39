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
  CLI::App& app = line.app();
  app.get_option("--model")->required();
  for (const char* other : {"--context", "--pin", "--log-level"}) {
    app.remove_option(app.get_option(other));
  }
  app.add_option("--encoder", options.encoder,
                 "Model of embeddings, for full batches beside the stream; none = not measured.")
      ->type_name("REF")
      ->group(group);
  app.add_option("--server-flag", options.server_flags,
                 "Flag for the server, as --server-flag=--no-prefix-cache. May be given again.")
      ->type_name("FLAG")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--tokens", options.tokens, "Tokens of a text.")
      ->check(CLI::Range(8, 1 << 16))
      ->type_name("N")
      ->group(group);
  app.add_option("--rounds", options.rounds,
                 "Rounds, in turns; the best rates count, and the times between tokens of all.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(group);
  app.add_option("--round-s", options.round_s, "Seconds of a measurement with --encoder.")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("S")
      ->group(group);
  app.add_option("--bulk-clients", options.bulk_clients, "Clients of bulk embeddings.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(group);
  app.add_option("--bulk-batch", options.bulk_batch, "Texts of a request of theirs.")
      ->check(CLI::Range(1, 2048))
      ->type_name("N")
      ->group(group);
  app.add_option("--priority", options.priority,
                 "Class of the embeddings: interactive, which share the processor with the stream "
                 "evenly, or bulk, which get one part in --bulk-every + 1.")
      ->check(CLI::IsMember({"interactive", "bulk"}))
      ->type_name("CLASS")
      ->group(group);
  app.add_flag("--completions", options.completions,
               "Use /v1/completions, for models without a chat template.")
      ->group(group);
  app.add_option("--name", options.name, "Row of the records.")->type_name("NAME")->group(group);
  app.add_option("--json", json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group(group);
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

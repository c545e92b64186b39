// penstock bench chat: what many texts at once cost each other.
#include "bench/chat_speed.h"
#include "cli/command_line.h"
#include "commands.h"
#include "decoder_flags.h"

namespace penstock::cli {

int RunBenchChat(const std::vector<std::string>& args) {
  CommandLine line("bench chat",
                   "Many texts at once through one model's scheduler: all together beside one, a "
                   "second turn\nbeside the first, running texts and short prompts beside long "
                   "ones.",
                   "  penstock bench chat --shape llama-1b --type q4_k_m\n"
                   "  penstock bench chat -m model.gguf --streams 16 --json chat.json\n");
  bench::ChatSpeedOptions options;
  DecoderFlags decoder;
  AddDecoderFlags(&line, &decoder);
  std::string json_file;
  FlagSet& app = line.flags();
  const FlagGroup group(&app, "Benchmark");
  app.Remove("--context");
  AddRandomModelFlags(group, &options.shape, &options.mix, &options.name);
  group.Add("--streams", options.streams, "N", InRange(2, 256), "Texts at once.");
  group.Add("--prompt", options.prompt, "N", InRange(256, 1 << 20), "Tokens of the long prompts.");
  group.Add("--tokens", options.tokens, "N", InRange(8, 1 << 16), "Tokens generated of each text.");
  group.Add("--rounds", options.rounds, "N", InRange(1, 1000),
            "Rounds; the best of each figure counts.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.model = decoder.model;
  options.dtype = decoder.options.dtype;
  options.cache_type = decoder.options.cache_type;
  options.device = decoder.device;
  options.threads = decoder.threads;
  load::BenchRecords records;
  Status status = bench::MeasureChatSpeed(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli

// penstock bench chat: what many texts at once cost each other.
#include "bench/chat_speed.h"
#include "command_line.h"
#include "commands.h"
#include "decoder_flags.h"

namespace penstock {

int RunBenchChat(const std::vector<std::string>& args) {
  CommandLine line("bench chat",
                   "Many texts at once through one model's scheduler: all together beside one, a "
                   "second turn\nbeside the first, running texts and short prompts beside long "
                   "ones.",
                   "  penstock bench chat --shape llama-1b --type q4_k_m\n"
                   "  penstock bench chat -m model.gguf --streams 16 --json chat.json\n");
  ChatSpeedOptions options;
  DecoderFlags decoder;
  AddDecoderFlags(&line, &decoder);
  std::string json_file;
  const std::string group = "Benchmark";
  FlagSet& app = line.flags();
  app.Remove("--context");
  AddRandomModelFlags(&app, group, &options.shape, &options.mix, &options.name);
  app.AddOption("--streams", options.streams, "Texts at once.")
      ->Check(InRange(2, 256))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--prompt", options.prompt, "Tokens of the long prompts.")
      ->Check(InRange(256, 1 << 20))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--tokens", options.tokens, "Tokens generated of each text.")
      ->Check(InRange(8, 1 << 16))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--rounds", options.rounds, "Rounds; the best of each figure counts.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--json", json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group(group);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.model = decoder.model;
  options.dtype = decoder.options.dtype;
  options.cache_type = decoder.options.cache_type;
  options.device = decoder.device;
  options.threads = decoder.threads;
  BenchRecords records;
  Status status = MeasureChatSpeed(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock

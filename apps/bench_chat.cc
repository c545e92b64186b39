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
  CLI::App& app = line.app();
  app.remove_option(app.get_option("--context"));
  AddRandomModelFlags(&app, group, &options.shape, &options.mix, &options.name);
  app.add_option("--streams", options.streams, "Texts at once.")
      ->check(CLI::Range(2, 256))
      ->type_name("N")
      ->group(group);
  app.add_option("--prompt", options.prompt, "Tokens of the long prompts.")
      ->check(CLI::Range(256, 1 << 20))
      ->type_name("N")
      ->group(group);
  app.add_option("--tokens", options.tokens, "Tokens generated of each text.")
      ->check(CLI::Range(8, 1 << 16))
      ->type_name("N")
      ->group(group);
  app.add_option("--rounds", options.rounds, "Rounds; the best of each figure counts.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(group);
  app.add_option("--json", json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group(group);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.model = decoder.model;
  options.dtype = decoder.options.dtype;
  options.cache_type = decoder.options.cache_type;
  options.threads = decoder.threads;
  BenchRecords records;
  Status status = MeasureChatSpeed(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock

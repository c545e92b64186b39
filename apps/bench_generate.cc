// penstock bench generate: prompts and tokens a second of a decoder.
#include "bench/generate_speed.h"
#include "command_line.h"
#include "commands.h"
#include "decoder_flags.h"

namespace penstock {

int RunBenchGenerate(const std::vector<std::string>& args) {
  CommandLine line(
      "bench generate",
      "Prompts and single tokens a second of one text, at some depths of the cache, as shares of "
      "the\nread rate and of the arithmetic peak measured in the same run.",
      "  penstock bench generate --shape llama-1b --type q4_k_m\n"
      "  penstock bench generate -m model.gguf --depth 0 --depth 4096 --json speed.json\n");
  GenerateSpeedOptions options;
  DecoderFlags decoder;
  AddDecoderFlags(&line, &decoder);
  std::vector<int> prompts, depths;
  std::string json_file;
  const std::string group = "Benchmark";
  FlagSet& app = line.flags();
  app.Remove("--context");
  AddRandomModelFlags(&app, group, &options.shape, &options.mix, &options.name);
  app.AddOption("--prompt", prompts, "Tokens of a prompt [128, 512, 2048]. May be given again.")
      ->Check(InRange(1, 1 << 20))
      ->AllowExtraArgs(false)
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--depth", depths,
                "Tokens in the cache when decoding begins [0, 2048, 8192]. May be given again.")
      ->Check(InRange(0, 1 << 20))
      ->AllowExtraArgs(false)
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--tokens", options.tokens, "Tokens decoded in a round.")
      ->Check(InRange(1, 1 << 16))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--rounds", options.rounds, "Rounds; the best counts.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddSwitch("--tuning", options.tuning, "Also with each optimisation switched off.")
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
  if (!prompts.empty()) options.prompts = prompts;
  if (!depths.empty()) options.depths = depths;
  BenchRecords records;
  Status status = MeasureGenerateSpeed(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock

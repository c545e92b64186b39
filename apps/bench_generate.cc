// penstock bench generate: prompts and tokens a second of a decoder.
#include "bench/generate_speed.h"
#include "cli/command_line.h"
#include "commands.h"
#include "decoder_flags.h"

namespace penstock::cli {

int RunBenchGenerate(const std::vector<std::string>& args) {
  CommandLine line(
      "bench generate",
      "Prompts and single tokens a second of one text, at some depths of the cache, as shares of "
      "the\nread rate and of the arithmetic peak measured in the same run.",
      "  penstock bench generate --shape llama-1b --type q4_k_m\n"
      "  penstock bench generate -m model.gguf --depth 0 --depth 4096 --json speed.json\n");
  bench::GenerateSpeedOptions options;
  DecoderFlags decoder;
  AddDecoderFlags(&line, &decoder);
  std::vector<int> prompts, depths;
  std::string json_file;
  FlagSet& app = line.flags();
  const FlagGroup group(&app, "Benchmark");
  app.Remove("--context");
  AddRandomModelFlags(group, &options.shape, &options.mix, &options.name);
  group.AddRepeated("--prompt", prompts, "N", InRange(1, 1 << 20),
                    "Tokens of a prompt [128, 512, 2048]. May be given again.");
  group.AddRepeated(
      "--depth", depths, "N", InRange(0, 1 << 20),
      "Tokens in the cache when decoding begins [0, 2048, 8192]. May be given again.");
  group.Add("--tokens", options.tokens, "N", InRange(1, 1 << 16), "Tokens decoded in a round.");
  group.Add("--rounds", options.rounds, "N", InRange(1, 1000), "Rounds; the best counts.");
  group.Switch("--tuning", options.tuning, "Also with each optimisation switched off.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  options.model = decoder.model;
  options.dtype = decoder.options.dtype;
  options.cache_type = decoder.options.cache_type;
  options.device = decoder.device;
  options.threads = decoder.threads;
  if (!prompts.empty()) options.prompts = prompts;
  if (!depths.empty()) options.depths = depths;
  load::BenchRecords records;
  Status status = bench::MeasureGenerateSpeed(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli

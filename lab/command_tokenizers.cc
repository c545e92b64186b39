// penstock-lab tokenizers: a tokenizer by itself.
#include "cli/command_line.h"
#include "lab/commands.h"
#include "lab/tokenizer_speed.h"

namespace penstock::lab {

int TokenizersCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab tokenizers",
      "Megabytes of text a second that a tokenizer turns into ids on one thread. "
      "Each text is\ntokenized anew: no cache of texts is asked.",
      "  penstock-lab tokenizers --tokenizer tokenizer.json book.txt\n"
      "  penstock-lab tokenizers --tokenizer model.gguf *.txt --text-bytes 300\n");
  TokenizerSpeedOptions options;
  std::string json_file;
  const cli::FlagGroup group(&line.flags());
  group.Add("--tokenizer", options.tokenizer, "FILE", "tokenizer.json, or a .gguf file.")
      ->Required();
  line.flags().AddOption("texts", options.texts, "Files of text.")->Required();
  group.Add("--text-bytes", options.text_bytes, "BYTES",
            cli::InRange(uint64_t{1}, uint64_t{1} << 30),
            "Bytes of a text, about: files are cut where words end.");
  group.Add("--rounds", options.rounds, "N", cli::InRange(1, 1000), "Turns; the best counts.");
  group.Add("--name", options.name, "NAME", "What records call the tokenizer; else its kind.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  load::BenchRecords records;
  Status status = MeasureTokenizerSpeed(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab

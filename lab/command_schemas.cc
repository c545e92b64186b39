// penstock-lab schemas: texts by chance that JSON schemas allow, and what masks cost.
#include "cli/command_line.h"
#include "lab/commands.h"
#include "lab/schema_walks.h"

namespace penstock::lab {

int SchemasCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab schemas",
      "Compile JSON schemas for a tokenizer's vocabulary and draw texts that they allow, without "
      "a\nmodel: how many are refused, and what compiling and masks cost. bench/schemas.py has the "
      "texts\njudged by a validator.",
      "  penstock-lab schemas --tokenizer model.gguf schemas.jsonl\n"
      "  penstock-lab schemas --tokenizer tokenizer.json schemas.jsonl --texts texts.jsonl\n");
  SchemaWalksOptions options;
  std::string json_file, form;
  const cli::FlagGroup group(&line.flags());
  line.flags()
      .AddOption("FILE", options.schemas, "JSON lines, each with a member \"schema\".")
      ->Required();
  group.Add("--tokenizer", options.tokenizer, "FILE", "tokenizer.json, or a .gguf file.")
      ->Required();
  group.Add("--calls", form, "FORM", cli::OneOf({"hermes", "llama", "mistral", "qwen-coder"}),
            "The schemas are of arguments, and the texts calls in this form.");
  group.Add("--texts", options.texts, "FILE", "File for the texts, as JSON lines.");
  group.Add("--refusals", options.refusals, "FILE", "File for the refusals, as JSON lines.");
  group.Add("--walks", options.walks, "N", cli::InRange(1, 10'000), "Texts of a schema.");
  group.Add("--tokens", options.tokens, "N", cli::InRange(1, 100'000), "Tokens of a text at most.");
  group.Add("--seed", options.seed, "N", cli::InRange(0, 1'000'000'000), "Of the texts.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  using reply::ToolForm;
  if (form == "hermes") options.calls = ToolForm::kHermes;
  if (form == "llama") options.calls = ToolForm::kLlama;
  if (form == "mistral") options.calls = ToolForm::kMistral;
  if (form == "qwen-coder") options.calls = ToolForm::kQwenCoder;
  load::BenchRecords records;
  Status status = RunSchemaWalks(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab

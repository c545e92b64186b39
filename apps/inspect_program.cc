#include "inspect_program.h"

#include <fmt/format.h>

namespace penstock::cli {

void PrintProgramJson(const program::Program& program, const program::BatchShape& batch,
                      JsonWriter* writer) {
  const auto costs = [&](const program::Cost& cost) {
    writer->Field("operations", cost.operations).Field("weight_bytes", cost.weight_bytes);
    writer->Field("activation_bytes", cost.activation_bytes);
    writer->Field("cache_bytes", cost.cache_bytes);
  };
  writer->BeginObject().Field("sequences", batch.sequences).Field("length", batch.length);
  writer->Field("past", batch.past);
  writer->Key("values").BeginArray();
  for (const program::Value& value : program.values) {
    writer->BeginObject().Field("rows",
                                value.rows == program::Rows::kTokens ? "tokens" : "sequences");
    writer->Field("width", value.width).EndObject();
  }
  writer->EndArray().Field("result", program.result).Key("ops").BeginArray();
  for (const program::Op& op : program.ops) {
    writer->BeginObject().Field("op", program::OpName(op)).Field("text", program::OpText(op));
    costs(program::CostOf(program, op, batch));
    writer->EndObject();
  }
  writer->EndArray().Field("value_bytes", program::ValueBytes(program, batch));
  costs(program::CostOf(program, batch));
  writer->EndObject();
}

std::string PrintProgram(const program::Program& program, const program::BatchShape& batch) {
  std::string out =
      fmt::format("program of {} x {} tokens{}: result %{}\n", batch.sequences, batch.length,
                  batch.past > 0 ? fmt::format(" after {}", batch.past) : "", program.result);
  for (size_t id = 0; id < program.values.size(); ++id) {
    out += "  " + program::ValueText(program, static_cast<program::ValueId>(id)) + '\n';
  }
  const auto row = [&](const std::string& what, const program::Cost& cost) {
    out += fmt::format("{:>12.3f} {:>12.1f} {:>14.1f} {:>10.1f}  {}\n", cost.operations / 1e6,
                       static_cast<double>(cost.weight_bytes) / 1e3,
                       static_cast<double>(cost.activation_bytes) / 1e3,
                       static_cast<double>(cost.cache_bytes) / 1e3, what);
  };
  out += fmt::format("{:>12} {:>12} {:>14} {:>10}  op\n", "operations M", "weights kB",
                     "activations kB", "cache kB");
  for (const program::Op& op : program.ops)
    row(program::OpText(op), program::CostOf(program, op, batch));
  row(fmt::format("all; values take {:.1f} kB",
                  static_cast<double>(program::ValueBytes(program, batch)) / 1e3),
      program::CostOf(program, batch));
  return out;
}

void AddProgramFlags(CommandLine* line, ProgramFlags* program) {
  Flag* const shows =
      line->flags()
          .AddSwitch("--program", program->wanted,
                     "Also the operations it runs, with their shapes, bytes and multiply-adds.")
          ->Group("Output");
  line->flags()
      .AddOption("--sequences", program->sequences, "With --program: sequences of the batch.")
      ->Check(InRange(1, 65536))
      ->Needs(shows)
      ->TypeName("N")
      ->Group("Output");
  line->flags()
      .AddOption("--length", program->length, "With --program: tokens of each sequence.")
      ->DefaultText("128")
      ->Check(InRange(1, 1'000'000))
      ->Needs(shows)
      ->TypeName("N")
      ->Group("Output");
  line->flags()
      .AddOption("--past", program->past,
                 "With --program, of a decoder: tokens of each sequence that are cached.")
      ->Check(InRange(0, 10'000'000))
      ->Needs(shows)
      ->TypeName("N")
      ->Group("Output");
}

}  // namespace penstock::cli

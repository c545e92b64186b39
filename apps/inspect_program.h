// penstock inspect --program: the operations that a model runs, with their shapes and costs.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "json/json_writer.h"
#include "program/program_cost.h"

namespace penstock::cli {

struct ProgramFlags {
  bool wanted = false;
  int sequences = 1;
  int length = 0;  // 0: not given
  int past = 0;
  program::BatchShape Batch() const { return {sequences, length, past}; }
};
// Tokens of a sequence if --length is not given and the model takes at least that number.
inline constexpr int kProgramLength = 128;

void AddProgramFlags(CommandLine* line, ProgramFlags* program);

// One JSON object; a text for people, which ends with a line break.
void PrintProgramJson(const program::Program& program, const program::BatchShape& batch,
                      JsonWriter* writer);
std::string PrintProgram(const program::Program& program, const program::BatchShape& batch);

}  // namespace penstock::cli

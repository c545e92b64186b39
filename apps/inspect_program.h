// penstock inspect --program: the operations that a model runs, with their shapes and costs.
#pragma once

#include <string>

#include "command_line.h"
#include "common/json_writer.h"
#include "program/program_cost.h"

namespace penstock {

struct ProgramFlags {
  bool wanted = false;
  int sequences = 1;
  int length = 0;  // 0: not given
  int past = 0;
  BatchShape Batch() const { return {sequences, length, past}; }
};
// Tokens of a sequence if --length is not given and the model takes at least that number.
inline constexpr int kProgramLength = 128;

void AddProgramFlags(CommandLine* line, ProgramFlags* program);

// One JSON object; a text for people, which ends with a line break.
void PrintProgramJson(const Program& program, const BatchShape& batch, JsonWriter* writer);
std::string PrintProgram(const Program& program, const BatchShape& batch);

}  // namespace penstock

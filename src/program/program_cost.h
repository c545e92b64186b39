// The cost of a program on a batch, and its text form: for memory estimates, benchmarks and
// `penstock inspect --program`.
#pragma once

#include <cstdint>
#include <string>

#include "program/program.h"

namespace penstock::program {

Cost CostOf(const Program& program, const Op& op, const BatchShape& batch);
// The sum over all ops. Tables and weights count each time they are read.
Cost CostOf(const Program& program, const BatchShape& batch);

// Bytes that the values of a batch take if each has memory of its own.
uint64_t ValueBytes(const Program& program, const BatchShape& batch);

// "%4 = linear(%1, [1152, 384] bf16, gelu)": what an op does, with values and shapes.
std::string OpText(const Op& op);
// "%4: tokens x 384".
std::string ValueText(const Program& program, ValueId id);

}  // namespace penstock::program

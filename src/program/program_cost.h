// The cost of a program on a batch, and its text form: for memory estimates, benchmarks and
// `penstock inspect --program`.
#pragma once

#include <cstdint>
#include <string>

#include "program/program.h"

namespace penstock {

// Sequences of equal length.
struct BatchShape {
  int64_t sequences = 1;
  int64_t length = 1;  // tokens of each
  // Of decoders: tokens of each that are cached already, and bytes of a cached number.
  int64_t past = 0;
  int64_t cache_bytes = 2;
};

struct Cost {
  // Multiplications and additions of linear layers and of attention; all else (norms, activations,
  // softmax, pooling) is not counted.
  double operations = 0;
  uint64_t weight_bytes = 0;      // weights and tables (all rows) in memory, each once
  uint64_t activation_bytes = 0;  // values read and written, each once
  uint64_t cache_bytes = 0;       // keys and values read and appended
};

Cost CostOf(const Program& program, const Op& op, const BatchShape& batch);
// The sum over all ops. Tables and weights count each time they are read.
Cost CostOf(const Program& program, const BatchShape& batch);

// Bytes that the values of a batch take if each has memory of its own.
uint64_t ValueBytes(const Program& program, const BatchShape& batch);

// "%4 = linear(%1, [1152, 384] bf16, gelu)": what an op does, with values and shapes.
std::string OpText(const Op& op);
// "%4: tokens x 384".
std::string ValueText(const Program& program, ValueId id);

}  // namespace penstock

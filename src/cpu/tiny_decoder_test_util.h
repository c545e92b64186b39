// The tiny decoder on the CPU.
#pragma once

#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "os/memory.h"
#include "program/tiny_decoder_test_util.h"

namespace penstock::cpu {

using program::Near;
using program::PlainLogits;
using program::RandomIds;
using program::Rows64;
using program::RunInSteps;
using program::SameBits;
using program::Shapes;
using program::TinyShape;
using program::TinyWeights;

inline std::vector<std::string> UsableIsas() {
  std::vector<std::string> names;
  for (const Kernels* kernels : AllKernels()) names.emplace_back(kernels->name);
  return names;
}

class TinyDecoder : public program::TinyDecoder {
 public:
  TinyDecoder(const TinyWeights& weights, numbers::DType mode, const std::string& isa, int threads)
      : program::TinyDecoder(weights, mode, *NewCpuBackend({threads, false, isa, true})) {}
};

}  // namespace penstock::cpu

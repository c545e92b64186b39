// How fast one text is generated, with nothing around it: prompts, and single tokens at some depths
// of the cache, beside the read rate and the arithmetic peak measured in the same run.
//
// A decoded token must read all weights but the embedding's, and the cached keys and values
// (program/program_cost.h): those bytes at the best of several loops that only read are the limit.
// The limit of a prompt is its multiply-adds at the peak of int8 or bf16.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "devices/devices.h"
#include "load/records.h"
#include "numbers/dtype.h"

namespace penstock::bench {

struct GenerateSpeedOptions {
  std::string model;               // a folder or .gguf file; "": random weights of
  std::string shape = "llama-1b";  // DecoderShapes()
  std::string mix = "q8_0";        // DecoderMixes()
  std::string name;                // part of the records' names; "": the mix
  std::optional<numbers::DType> dtype;
  numbers::DType cache_type = numbers::DType::kBf16;
  std::string device = devices::Devices::kAuto;
  int threads = 0;  // 0: one a processor
  std::vector<int> prompts = {128, 512, 2048};
  std::vector<int> depths = {0, 2048, 8192};
  int tokens = 64;      // decoded in a round
  int rounds = 3;       // the best of each counts
  bool tuning = false;  // also with each optimisation off
};

// Prints tables; adds generate.prefill<N>.<name>.tokens_per_s and .percent_of_peak,
// generate.decode.<name>.tokens_per_s and .percent_of_bandwidth (depth 0; deeper ones have a row
// "depth=2048"), generate.outside_kernels_percent. Lengths beyond the model's context are left out.
Status MeasureGenerateSpeed(const GenerateSpeedOptions& options, load::BenchRecords* records);

}  // namespace penstock::bench

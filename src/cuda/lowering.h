// Programs without a cache as launches of kernels.
//
// A value lies in up to two forms: floats, and 16-bit operands of the type that the linear layers
// which read it multiply in, rows padded with zeros to a multiple of 64. Every operation that
// writes a value writes the forms that are read.
//
// Launches are made for a bucket: their grids have its size, and how many rows there are is read on
// the device. So a graph of them runs every batch of the bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "cuda/device.h"
#include "program/program.h"

namespace penstock::cuda {

// The most of a batch that runs by one graph.
struct Bucket {
  static constexpr int32_t kTokensMin = 32;

  int32_t tokens = 0;
  int32_t sequences = 0;

  // Powers of two.
  static Bucket Of(size_t tokens, size_t sequences);
  // Tiles of 64 queries, each of one sequence.
  int32_t tiles() const { return tokens / 64 + sequences; }
  friend auto operator<=>(const Bucket&, const Bucket&) = default;
};

// What a run copies to the device for each batch: arrays one behind the other, as bytes from the
// beginning. The counts come first.
struct InputLayout {
  enum Count : int { kRows, kSequences, kTiles, kCounts };

  InputLayout(const Bucket& bucket, int32_t input_width);

  uint64_t ids, types, positions, places;   // [tokens]
  uint64_t offsets, skips;                  // [sequences + 1], [sequences]
  uint64_t tiles, first_tiles, last_tiles;  // of all queries, and of one a sequence
  uint64_t input;                           // [tokens, input_width] floats
  uint64_t bytes;
};

// The forms of a value that are read or asked for.
struct Forms {
  bool floats = false;
  bool operands = false;
  bool half = false;  // the operands' type is f16, else bf16
};

// How a program runs on a device: checked once, when it is prepared.
struct LoweringPlan {
  const program::Program* program = nullptr;
  std::vector<Forms> forms;  // by value
  int32_t input_width = 0;   // of its InputOp; 0: it has none
  const DeviceInfo* device = nullptr;
};
// kUnsupported names the operation that is not run, and what of it. Both must outlive the plan.
Expected<LoweringPlan> PlanLowering(const program::Program& program, const DeviceInfo& device);

// Bytes of input and activations together.
uint64_t ActivationBytes(const LoweringPlan& plan, const Bucket& bucket);

struct Lowered {
  std::vector<KernelLaunch> launches;
  const float* result = nullptr;  // rows of the program's result
};
// `activations`: ActivationBytes, which begin with the input. The program's weights must be a
// device's.
Lowered Lower(const LoweringPlan& plan, const Bucket& bucket, std::byte* activations);

}  // namespace penstock::cuda

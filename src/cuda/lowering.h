// Programs as launches of kernels.
//
// Without a cache a value lies in up to two forms: floats, and 16-bit operands of the type that the
// linear layers which read it multiply in, rows padded with zeros to a multiple of 64. Every
// operation that writes a value writes the forms that are read. With a cache values are floats, and
// each linear layer's operands are made of them row by row, in f16 with a power of two for the range.
//
// Launches are made for a bucket: their grids have its size, and how many rows there are is read on
// the device. So a graph of them runs every batch of the bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cuda/device.h"
#include "program/program.h"
#include "program/program_run.h"

namespace penstock::cuda {

// Arrays begin at multiples of it.
inline constexpr uint64_t kArrayBytes = 256;

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

// For PrepareOptions::without, in order: kernels captured in graphs; programmatic dependent launch;
// weights loaded before the previous kernel ends; attention split by chunks of keys; norms in the
// kernels that read them; heads rotated and appended by attention; tokens drawn on the device, so
// that the next step runs while the host handles the one before.
inline constexpr const char* kCudaOptimisations[] = {"graphs",      "early_launch", "early_weights",
                                                     "split_keys",  "fused_norms",  "fused_heads",
                                                     "device_draws"};
// Which of them are on.
struct StepTuning {
  bool graphs = true, early_launch = true, early_weights = true, split_keys = true,
       fused_norms = true, fused_heads = true, device_draws = true;
};

// How a program runs on a device: checked once, when it is prepared.
struct LoweringPlan {
  const program::Program* program = nullptr;
  std::vector<Forms> forms;  // by value
  int32_t input_width = 0;   // of its InputOp; 0: it has none
  const DeviceInfo* device = nullptr;

  // Where the program has a cache:
  bool cached = false;
  StepTuning tuning;
  numbers::DType cache_type = numbers::DType::kF32;
  std::vector<CacheGroup> groups;
  std::vector<uint64_t> block_bytes;  // of each group
  struct LayerPlace {
    size_t group = 0;
    uint64_t offset = 0;  // in a block
  };
  std::vector<LayerPlace> layers;
};
// `options`: of a program with a cache; else null. kUnsupported names the operation that is not run,
// and what of it. Program and device must outlive the plan.
Expected<LoweringPlan> PlanLowering(const program::Program& program, const DeviceInfo& device,
                                    const program::PrepareOptions* options = nullptr);

// Bytes of input and activations together.
uint64_t ActivationBytes(const LoweringPlan& plan, const Bucket& bucket);

struct Lowered {
  std::vector<KernelLaunch> launches;
  const float* result = nullptr;  // rows of the program's result
};

// `activations`: ActivationBytes, which begin with the input. The program's weights must be a
// device's.
Lowered Lower(const LoweringPlan& plan, const Bucket& bucket, std::byte* activations);

// The most of a step with a cache that runs by one graph; powers of two.
struct StepBucket {
  // The most rows, and chunks of their keys in all, for which each chunk has a block of threads:
  // one for each few rows would leave multiprocessors idle.
  static constexpr int32_t kSplitRows = 64, kSplitChunks = 1024;

  int32_t rows = 1;
  int32_t picks = 1;
  int32_t tiles = 1;  // of rows; with split attention, rows and their chunks
  bool split = false;
  bool single = false;  // each sequence has one row

  static StepBucket Of(size_t rows, size_t picks, size_t tiles, bool split, bool single);
  friend auto operator<=>(const StepBucket&, const StepBucket&) = default;
};
// Rows of a tile of attention that is not split.
int32_t PagedTileRows(const LoweringPlan& plan);

// What a step copies to the device, as InputLayout.
struct StepInput {
  enum Count : int { kRows, kPicks, kTiles, kCounts };

  StepInput(const StepBucket& bucket, size_t groups);

  uint64_t ids, positions, sequences, parts;  // [rows]
  uint64_t sources;                           // [rows], as EmbedArgs has it
  uint64_t lengths, is_long;                  // [sequences]
  uint64_t firsts;                            // [groups][rows]: of sequences, in `tables`
  uint64_t picks, wants;                      // [picks]
  uint64_t draws;                             // [picks], of DrawRule
  uint64_t tiles;                             // [tiles]
  uint64_t tables;                            // blocks of all sequences, as many as there are
  uint64_t stride;                            // bytes from one group's `firsts` to the next
};

// What a step leaves: rows of logits or states, and what was found in logits.
struct StepResults {
  // `picks`: the most.
  StepResults(const LoweringPlan& plan, int32_t picks);

  int32_t blocks = 0;        // of 256 logits in a row; 0: states
  uint64_t found_bytes = 0;  // of a pick
  uint64_t rows, bad_ids;    // [picks][width], [picks][blocks]
  uint64_t drawn;            // [picks]
  uint64_t found;            // [picks], as LogitsArgs has it
  uint64_t bytes;
};

// Memory of a step besides the activations.
struct StepMemory {
  std::byte* input = nullptr;
  std::byte* results = nullptr;
  std::vector<std::byte*> caches;  // of each group
  const int* drawn = nullptr;      // by the step before; null: it draws nothing
  int32_t picks = 0;               // the most, of StepResults
};
uint64_t StepActivationBytes(const LoweringPlan& plan, const StepBucket& bucket);
Lowered LowerStep(const LoweringPlan& plan, const StepBucket& bucket, const StepMemory& memory,
                  std::byte* activations);

}  // namespace penstock::cuda

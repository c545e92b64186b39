// CudaStepRun: steps of a program with a cache on a device.
//
// A step is a copy of its input, a graph of kernels, and a copy of what was found in the logits; the
// rows themselves are copied on demand. The cache, the input and the results are its own, the
// activations are those that all runs of the device use in turn. Where two steps may be under way,
// each has an input and results, and a row's token may be the one that the step before draws.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/graph_cache.h"
#include "cuda/lowering.h"
#include "cuda/weights.h"
#include "program/program_run.h"
#include "sample/logit_scan.h"

namespace penstock::cuda {

// What such a run takes besides the cache: of the device, activations included. Weights are not read.
Expected<uint64_t> StepRunBytes(const program::Program& program, const DeviceInfo& device,
                                const program::PrepareOptions& options);

class CudaStepRun final : public program::ProgramRun {
 public:
  // Device and program must outlive it. Errors: Backend::Prepare's. Allocates what PrepareOptions
  // asks for; throws std::bad_alloc.
  static Expected<std::unique_ptr<CudaStepRun>> Make(SharedDevice* shared,
                                                     const program::Program& program,
                                                     const program::PrepareOptions& options,
                                                     const RunOptions& run_options);
  ~CudaStepRun() override;

  Status Run(size_t index, const program::PackedBatch& batch,
             std::span<float* const> sinks) override;
  Status Start(const program::PackedBatch& batch) override;
  Status Finish() override;
  bool draws() const override { return slot_count_ == 2; }
  double device_seconds() const override { return seconds_; }
  uint64_t HeldBytes() const override;
  program::FoundLogits Found(size_t pick) const override;
  Expected<std::span<const float>> Rows(size_t first, size_t count) override;

  std::span<const CacheGroup> groups() const override { return plan_.groups; }
  int32_t rope_switch() const override { return plan_.program->rope_switch; }
  uint64_t block_bytes(size_t group) const override {
    return group < plan_.block_bytes.size() ? plan_.block_bytes[group] : 0;
  }
  uint64_t CommittedBytes() const override { return cache_bytes_; }

 private:
  CudaStepRun(SharedDevice* shared, LoweringPlan plan, const program::PrepareOptions& options,
              const RunOptions& run_options);

  // How a step is cut into tiles of attention.
  struct Cut {
    bool split = false;
    size_t tiles = 0;
    size_t blocks = 0;  // of all tables
  };
  Cut CutOf(const program::PackedBatch& batch) const;

  // What a step has for itself, from its Start until the slot's next one.
  struct Slot {
    DeviceBlock input, results;          // of the device
    DeviceBlock host_input, host_found;  // pinned
    StepMemory memory;
    EventId begun{}, done{};
    bool has_begun = false, has_done = false;  // whether the events were made
    size_t picks = 0;
    std::vector<program::PickWant> wants;  // of each pick
    std::vector<bool> draws;               // of each pick: whether its token is drawn
  };

  // All under the mutex of the device.
  Status Allocate();
  Status AllocateSlot(Slot* slot);
  Status ReserveInput(uint64_t bytes, Slot* slot);
  // The step as it is copied to the device; returns the bytes.
  uint64_t WriteInput(const StepInput& layout, const Cut& cut, const program::PackedBatch& batch,
                      Slot* slot);
  Status Put(const program::PackedBatch& batch, Slot* slot);

  Status CheckSources(const program::PackedBatch& batch) const;
  void ReadFound(const Slot& slot);

  SharedDevice* const shared_;
  const LoweringPlan plan_;
  const program::PrepareOptions options_;
  const int32_t tile_rows_;
  const StepResults results_layout_;
  GraphCache graphs_;
  std::vector<DeviceBlock> caches_;
  Slot slots_[2];
  const size_t slot_count_;
  size_t started_ = 0, finished_ = 0;      // steps: step i is in slot i % slot_count_
  DeviceBlock host_rows_;                  // pinned
  uint64_t generation_ = 0;                // of the inputs
  std::atomic<uint64_t> needed_bytes_{0};  // of the activations
  const uint64_t activation_bytes_;
  uint64_t cache_bytes_ = 0;
  double seconds_ = 0;

  // What the step gave that finished last.
  const Slot* current_ = &slots_[0];
  std::vector<sample::Candidate> best_;   // [picks][kBestLogits]
  std::vector<sample::LogitPart> parts_;  // of each pick
  std::vector<sample::LogitBlock> sums_;  // [picks][blocks]
  std::vector<int32_t> drawn_;            // of each pick
};

}  // namespace penstock::cuda

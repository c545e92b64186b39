// CudaStepRun: steps of a program with a cache on a device.
//
// A step is a copy of its input, a graph of kernels, and a copy of what was found in the logits; the
// rows themselves are copied on demand. The cache, the input and the results are its own, the
// activations are those that all runs of the device use in turn.
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

  // All under the mutex of the device.
  Status Allocate();
  Status ReserveInput(uint64_t bytes);
  // The step as it is copied to the device; returns the bytes.
  uint64_t WriteInput(const StepInput& layout, const Cut& cut, const program::PackedBatch& batch);
  Status Put(const program::PackedBatch& batch);
  void ReadFound();

  SharedDevice* const shared_;
  const LoweringPlan plan_;
  const program::PrepareOptions options_;
  const int32_t tile_rows_;
  const StepResults results_layout_;
  GraphCache graphs_;
  StepMemory memory_;
  std::vector<DeviceBlock> caches_;
  DeviceBlock input_, results_;                      // of the device
  DeviceBlock host_input_, host_found_, host_rows_;  // pinned
  uint64_t generation_ = 0;                          // of the input
  std::atomic<uint64_t> needed_bytes_{0};            // of the activations
  const uint64_t activation_bytes_;
  uint64_t cache_bytes_ = 0;
  EventId begun_{}, done_{};
  bool has_begun_ = false, has_done_ = false;
  double seconds_ = 0;

  // What the last step gave.
  size_t picks_ = 0;
  std::vector<program::PickWant> wants_;  // of each pick
  std::vector<sample::Candidate> best_;   // [picks][kBestLogits]
  std::vector<sample::LogitPart> parts_;  // of each pick
  std::vector<sample::LogitBlock> sums_;  // [picks][blocks]
};

}  // namespace penstock::cuda

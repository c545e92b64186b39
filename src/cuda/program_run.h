// CudaProgramRun: programs without a cache on a device.
//
// Run copies a batch into pinned memory, puts a copy, the program's kernels and a copy of the
// result into the stream, and waits outside the mutex: meanwhile other runs put theirs behind it.
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

namespace penstock::cuda {

class CudaProgramRun final : public program::ProgramRun {
 public:
  // Device and programs must outlive it. kUnsupported: PlanLowering's.
  static Expected<std::unique_ptr<CudaProgramRun>> Make(
      SharedDevice* shared, std::span<const program::Program* const> programs,
      const RunOptions& options);
  ~CudaProgramRun() override;

  Status Reserve(size_t tokens, size_t sequences) override;
  uint64_t BytesFor(size_t tokens, size_t sequences) const override;
  double device_seconds() const override { return seconds_; }
  // Its part of the set that runs share: parts of all of them are the whole.
  uint64_t HeldBytes() const override;
  uint64_t Release() override;
  Status Run(size_t index, const program::PackedBatch& batch,
             std::span<float* const> sinks) override;

 private:
  CudaProgramRun(SharedDevice* shared, const RunOptions& options)
      : shared_(shared), graphs_(shared, options) {}

  // All under the mutex of the device.
  Status ReserveLocked(const Bucket& wanted);
  Status ReservePinned(DeviceBlock* block, uint64_t bytes);
  // The batch as it is copied to the device; returns the bytes.
  uint64_t WriteInput(const LoweringPlan& plan, const Bucket& bucket,
                      const program::PackedBatch& batch);
  Status MakeEvents();

  SharedDevice* const shared_;
  std::vector<LoweringPlan> plans_;
  GraphCache graphs_;
  DeviceBlock input_, results_;  // pinned
  EventId begun_{}, done_{};     // the device's time of a batch is between them
  bool has_begun_ = false, has_done_ = false;
  Bucket reserved_;                        // what there is room for ...
  std::atomic<uint64_t> needed_bytes_{0};  // ... in a set of this size; 0: it holds none
  double seconds_ = 0;
};

}  // namespace penstock::cuda

// CpuStepRun: steps of a decoder on a CpuDevice, in one pass of its pool a step (step_worker.h).
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cpu/cpu_device.h"
#include "cpu/step_shared.h"
#include "cpu/step_shares.h"
#include "cpu/step_threads.h"
#include "cpu/step_worker.h"
#include "program/program_run.h"

namespace penstock::cpu {

// kUnsupported names a group of a kind that no operation of this backend reads.
Status CheckCacheKinds(std::span<const CacheGroup> groups);

class CpuStepRun final : public program::ProgramRun {
 public:
  // `program` has a cache, and passed CheckSupport. Errors: Backend::Prepare's.
  static Expected<std::unique_ptr<CpuStepRun>> Make(CpuDevice* device,
                                                    const program::Program& program,
                                                    const program::PrepareOptions& options);

  size_t parts_max() const override { return workers_.size(); }
  void PlaceCaller() const override { device_->pool.PlaceCaller(); }
  std::span<const CacheGroup> groups() const override { return shared_.groups; }
  int32_t rope_switch() const override { return shared_.program.rope_switch; }
  uint64_t block_bytes(size_t group) const override {
    return group < shared_.caches.size() ? shared_.caches[group].pages.block_bytes() : 0;
  }
  int32_t page_blocks() const override { return kKvGroup; }
  uint64_t CommittedBytes() const override { return shared_.CommittedBytes(); }
  uint64_t ReleaseBlocks(size_t group, std::span<const int32_t> blocks) override {
    GroupCache& from = shared_.caches[group];
    return from.heads == 0 ? 0 : from.pages.Release(blocks);
  }
  uint64_t HeldBytes() const override;
  Status Run(size_t index, const program::PackedBatch& batch,
             std::span<float* const> sinks) override;
  std::vector<program::StageTime> TakeProfile() override;
  program::FoundLogits Found(size_t pick) const override { return shared_.found.Of(pick); }
  Expected<std::span<const float>> Rows(size_t first, size_t count) override;

  // For tests: steps are done by these numbers of threads in turns, each at most as many as there
  // are.
  void SetThreadsInTurns(std::vector<size_t> counts) { in_turns_ = std::move(counts); }

 private:
  CpuStepRun(CpuDevice* device, const program::Program& program,
             const program::PrepareOptions& options);
  // Threads for the next step of `rows` rows.
  size_t NextThreads(size_t rows);
  // Shares the step out to the first `threads` workers, as StepShares has it.
  void SetShares(bool many_rows, size_t threads);

  CpuDevice* const device_;
  StepShared shared_;
  StepThreads threads_;
  StepShares shares_;
  std::vector<uint32_t> bounds_;  // of the shares of the next step
  bool learns_ = false;           // whether shares follow speeds: layers have panels enough
  std::vector<size_t> in_turns_;  // SetThreadsInTurns
  size_t turn_ = 0;
  std::vector<double> busy_;  // seconds of each worker in the step that was timed
  std::vector<std::unique_ptr<StepWorker>> workers_;
};

}  // namespace penstock::cpu

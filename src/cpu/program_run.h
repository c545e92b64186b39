// CpuProgramRun: interprets programs on a CpuDevice.
//
// The ops over tokens run in one of two ways; the bits are the same.
//   groups  the batch is cut into groups of whole sequences (group_plan.h); a worker takes each
//           through all of these ops alone: its activations stay in that worker's L2, and no
//           worker waits for another between ops
//   whole   one op after the other, each spread over all threads: for a batch that does not cut
//           into even groups, above all a single text
// Rows of sequences (pooled rows, or one token's row of the last layer) are gathered for the whole
// batch; the ops over sequences then run once, spread over all threads.
//
// Values over tokens lie in one array for each worker and one for the whole batch, values over
// sequences in one; the programs of a run share them. Arrays grow by whole steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/cpu_device.h"
#include "cpu/group_plan.h"
#include "cpu/interpreter.h"
#include "program/program.h"
#include "program/program_run.h"

namespace penstock::cpu {

class CpuProgramRun final : public program::ProgramRun {
 public:
  static constexpr size_t kSequenceStep = 16;

  // Device and programs must outlive this.
  CpuProgramRun(CpuDevice* device, std::span<const program::Program* const> programs);
  ~CpuProgramRun() override { Release(); }

  Status Reserve(size_t tokens, size_t sequences) override;
  uint64_t BytesFor(size_t tokens, size_t sequences) const override;
  uint64_t HeldBytes() const override;
  uint64_t Release() override;
  Status Run(size_t index, const program::PackedBatch& batch,
             std::span<float* const> sinks) override;

 private:
  struct Worker {
    TokenRows rows;
    std::vector<int32_t> offsets;  // of the group, from 0
  };

  // Under the device's mutex. An exception leaves less room than there was; the next call allocates
  // it again.
  void ReserveLocked(size_t tokens, size_t sequences);
  void ReserveTokens(size_t tokens);
  // Most tokens of a group in a batch of that many.
  size_t GroupTokens(size_t tokens) const;
  void CountHeld();
  void RunLocked(const PreparedProgram& prepared, const program::PackedBatch& batch,
                 std::span<float* const> sinks);
  void RunGroup(const PreparedProgram& prepared, const program::PackedBatch& batch,
                std::span<float* const> sinks, const GroupPlan::Group& group, CpuOps* ops,
                Worker* worker);

  CpuDevice* const device_;
  std::vector<PreparedProgram> programs_;
  // The most of any program.
  size_t token_width_ = 0;
  size_t sequence_width_ = 0;
  size_t max_length_ = 0;
  size_t head_size_ = 0;

  GroupPlan plan_;
  TokenRows whole_;
  std::vector<Worker> workers_;
  std::unique_ptr<AlignedBuffer> sequence_values_;
  size_t token_capacity_ = 0;
  size_t sequence_capacity_ = 0;
  bool holds_scratch_ = false;
  std::atomic<uint64_t> held_bytes_{0};  // of all arrays above
};

}  // namespace penstock::cpu

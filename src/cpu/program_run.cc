#include "cpu/program_run.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "base/int_math.h"
#include "log/exception_status.h"
#include "threads/waiting_lock.h"

namespace penstock::cpu {
namespace {

size_t MostTokenWidth(std::span<const program::Program* const> programs) {
  size_t most = 1;
  for (const program::Program* program : programs) {
    size_t width = 0;
    for (const program::Value& value : program->values) {
      if (value.rows == program::Rows::kTokens) width += static_cast<size_t>(value.width);
    }
    most = std::max(most, width);
  }
  return most;
}

}  // namespace

CpuProgramRun::CpuProgramRun(CpuDevice* device, std::span<const program::Program* const> programs)
    : device_(device),
      plan_(device->workers(), MostTokenWidth(programs) * sizeof(float), CacheBytes()),
      workers_(device->workers()) {
  for (const program::Program* program : programs) {
    const PreparedProgram& prepared = programs_.emplace_back(*program);
    token_width_ = std::max(token_width_, prepared.token_width);
    sequence_width_ = std::max(sequence_width_, prepared.sequence_width);
    max_length_ = std::max(max_length_, static_cast<size_t>(program->max_length));
    for (const program::Op& op : program->ops) {
      const program::AttentionOp* attention = std::get_if<program::AttentionOp>(&op);
      if (attention == nullptr) continue;
      head_size_ = std::max(head_size_, static_cast<size_t>(attention->shape.head_size));
    }
  }
}

Status CpuProgramRun::Reserve(size_t tokens, size_t sequences) {
  try {
    const WaitingLock lock(&device_->mutex);
    ReserveLocked(tokens, sequences);
    return Status::Ok();
  } catch (...) {
    return ExceptionStatus();
  }
}

void CpuProgramRun::ReserveLocked(size_t tokens, size_t sequences) {
  for (Worker& worker : workers_) worker.offsets.reserve(sequences + 1);
  plan_.Reserve(sequences);
  if (tokens <= token_capacity_ && sequences <= sequence_capacity_) return;
  try {
    if (tokens > token_capacity_) ReserveTokens(penstock::RoundUp(tokens, TokenRows::kStep));
    if (sequences > sequence_capacity_) {
      const size_t rows = penstock::RoundUp(sequences, kSequenceStep);
      sequence_capacity_ = 0;
      sequence_values_.reset();
      if (sequence_width_ > 0) {
        sequence_values_ =
            std::make_unique<AlignedBuffer>(rows * sequence_width_, &device_->work_arena);
      }
      sequence_capacity_ = rows;
    }
  } catch (...) {
    CountHeld();
    throw;
  }
  CountHeld();
}

void CpuProgramRun::ReserveTokens(size_t tokens) {
  if (!holds_scratch_) device_->HoldScratch();
  holds_scratch_ = true;
  const size_t group = GroupTokens(tokens);
  token_capacity_ = 0;
  for (Worker& worker : workers_) worker.rows.Reserve(group, token_width_, &device_->work_arena);
  whole_.Reserve(tokens, token_width_, &device_->work_arena);
  if (head_size_ > 0) device_->ReserveAttention(std::min(max_length_, tokens), head_size_);
  token_capacity_ = tokens;
}

size_t CpuProgramRun::GroupTokens(size_t tokens) const {
  const size_t longest = std::min(max_length_, tokens);
  return std::min(tokens, std::max(longest, plan_.group_tokens()));
}

uint64_t CpuProgramRun::BytesFor(size_t tokens, size_t sequences) const {
  // Of attention: keys and values of a head, and a row of scores for each.
  constexpr size_t kScratchRows = 3;
  const size_t scratch = std::min(max_length_, tokens) * head_size_ * kScratchRows * sizeof(float);
  return TokenRows::BytesFor(tokens, token_width_) +
         workers_.size() * TokenRows::BytesFor(GroupTokens(tokens), token_width_) +
         (workers_.size() + 1) * scratch +
         penstock::RoundUp(sequences, kSequenceStep) * sequence_width_ * sizeof(float);
}

uint64_t CpuProgramRun::Release() {
  const WaitingLock lock(&device_->mutex);
  uint64_t released = held_bytes_.load(std::memory_order_relaxed);
  whole_.Release();
  for (Worker& worker : workers_) {
    worker.rows.Release();
    worker.offsets = std::vector<int32_t>();
  }
  plan_.Release();
  sequence_values_.reset();
  token_capacity_ = 0;
  sequence_capacity_ = 0;
  if (holds_scratch_) released += device_->ReleaseScratch();
  holds_scratch_ = false;
  CountHeld();
  return released;
}

void CpuProgramRun::CountHeld() {
  uint64_t bytes = whole_.bytes();
  for (const Worker& worker : workers_) bytes += worker.rows.bytes();
  if (sequence_values_ != nullptr) bytes += sequence_values_->size() * sizeof(float);
  held_bytes_.store(bytes, std::memory_order_relaxed);
}

uint64_t CpuProgramRun::HeldBytes() const {
  return held_bytes_.load(std::memory_order_relaxed) + device_->ScratchBytes();
}

Status CpuProgramRun::Run(size_t index, const program::PackedBatch& batch,
                          std::span<float* const> sinks) {
  const PreparedProgram& prepared = programs_[index];
  PENSTOCK_RETURN_IF_ERROR(program::CheckBatch(*prepared.program, batch, sinks));
  try {
    const WaitingLock lock(&device_->mutex);
    ReserveLocked(batch.tokens(), batch.sequences());
    RunLocked(prepared, batch, sinks);
    return Status::Ok();
  } catch (...) {
    return ExceptionStatus();
  }
}

void CpuProgramRun::RunLocked(const PreparedProgram& prepared, const program::PackedBatch& batch,
                              std::span<float* const> sinks) {
  const program::Program& program = *prepared.program;
  float* const sequence_values = sequence_values_ == nullptr ? nullptr : sequence_values_->data();
  Interpreter all(prepared, &device_->ops, batch, &whole_, sequence_values, sequence_capacity_, 0);
  const bool tokens_wanted = program.values[program.result].rows == program::Rows::kTokens;
  if (plan_.Make(batch)) {
    device_->RunPieces(plan_.groups().size(), [&](size_t group, CpuOps* ops, size_t worker) {
      RunGroup(prepared, batch, sinks, plan_.groups()[group], ops, &workers_[worker]);
    });
    if (tokens_wanted) return;
  } else {
    all.Run(0, prepared.token_ops);
  }
  all.Run(prepared.token_ops, program.ops.size());
  const size_t width = all.Width(program.result);
  const float* const result = all.Data(program.result);
  for (size_t s = 0; s < sinks.size(); ++s) {
    const size_t first = tokens_wanted ? static_cast<size_t>(batch.offsets[s]) : s;
    const size_t rows = tokens_wanted ? static_cast<size_t>(batch.length(s)) : 1;
    std::memcpy(sinks[s], result + first * width, rows * width * sizeof(float));
  }
}

void CpuProgramRun::RunGroup(const PreparedProgram& prepared, const program::PackedBatch& batch,
                             std::span<float* const> sinks, const GroupPlan::Group& group,
                             CpuOps* ops, Worker* worker) {
  const int32_t first = batch.offsets[group.begin];
  worker->offsets.clear();
  for (size_t s = group.begin; s <= group.end; ++s) {
    worker->offsets.push_back(batch.offsets[s] - first);
  }
  const size_t token = static_cast<size_t>(first);
  program::PackedBatch part;
  part.ids = batch.ids.subspan(token, group.tokens);
  if (!batch.type_ids.empty()) part.type_ids = batch.type_ids.subspan(token, group.tokens);
  part.offsets = worker->offsets;
  if (!batch.pool_skip.empty()) {
    part.pool_skip = batch.pool_skip.subspan(group.begin, group.end - group.begin);
  }
  if (!batch.input.empty()) {
    const size_t width = batch.input.size() / batch.tokens();
    part.input = batch.input.subspan(token * width, group.tokens * width);
  }
  Interpreter interpreter(prepared, ops, part, &worker->rows,
                          sequence_values_ == nullptr ? nullptr : sequence_values_->data(),
                          sequence_capacity_, group.begin);
  interpreter.Run(0, prepared.token_ops);
  const program::ValueId result = prepared.program->result;
  if (prepared.program->values[result].rows == program::Rows::kSequences) return;
  const size_t width = interpreter.Width(result);
  for (size_t s = 0; s < part.sequences(); ++s) {
    std::memcpy(sinks[group.begin + s],
                interpreter.Data(result) + static_cast<size_t>(part.offsets[s]) * width,
                static_cast<size_t>(part.length(s)) * width * sizeof(float));
  }
}

}  // namespace penstock::cpu

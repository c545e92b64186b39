#include "cuda/program_run.h"

#include <algorithm>
#include <cstring>

#include "common/exception_status.h"
#include "common/waiting_lock.h"

namespace penstock::cuda {
namespace {

size_t RowsOfResult(const program::Program& program, const program::PackedBatch& batch) {
  return program.values[program.result].rows == program::Rows::kTokens ? batch.tokens()
                                                                       : batch.sequences();
}

// The embedding whose positions a batch needs; null: none has any.
const program::EmbedOp* Positioned(const program::Program& program) {
  const auto* const embed = program::FirstOp<program::EmbedOp>(program);
  return embed == nullptr || embed->positions == nullptr ? nullptr : embed;
}

}  // namespace

Expected<std::unique_ptr<CudaProgramRun>> CudaProgramRun::Make(
    SharedDevice* shared, std::span<const program::Program* const> programs,
    const RunOptions& options) {
  std::unique_ptr<CudaProgramRun> run(new CudaProgramRun(shared, options));
  for (const program::Program* const program : programs) {
    PENSTOCK_ASSIGN_OR_RETURN(LoweringPlan plan, PlanLowering(*program));
    run->plans_.push_back(std::move(plan));
  }
  return run;
}

CudaProgramRun::~CudaProgramRun() {
  Release();
  const std::lock_guard lock(shared_->mutex);
  if (has_event_) shared_->device->FreeEvent(done_);
}

Status CudaProgramRun::Reserve(size_t tokens, size_t sequences) {
  try {
    const WaitingLock lock(&shared_->mutex);
    return ReserveLocked(Bucket::Of(tokens, sequences));
  } catch (...) {
    return ExceptionStatus();
  }
}

uint64_t CudaProgramRun::BytesFor(size_t tokens, size_t sequences) const {
  uint64_t most = 0;
  for (const LoweringPlan& plan : plans_) {
    most = std::max(most, ActivationBytes(plan, Bucket::Of(tokens, sequences)));
  }
  return most;
}

Status CudaProgramRun::ReserveLocked(const Bucket& bucket) {
  if (!has_event_) {
    PENSTOCK_ASSIGN_OR_RETURN(done_, shared_->device->NewEvent());
    has_event_ = true;
  }
  uint64_t bytes = 0, input_bytes = 0;
  for (const LoweringPlan& plan : plans_) {
    bytes = std::max(bytes, ActivationBytes(plan, bucket));
    input_bytes = std::max(input_bytes, InputLayout(bucket, plan.input_width).bytes);
  }
  PENSTOCK_RETURN_IF_ERROR(ReservePinned(&input_, input_bytes));
  if (!std::exchange(holds_, true)) ++shared_->holders;
  if (bytes > shared_->activations.bytes()) {
    // Freed first: both at once may not fit. Free waits for the batches that use it.
    shared_->activations = DeviceBlock();
    ++shared_->generation;
    PENSTOCK_ASSIGN_OR_RETURN(shared_->activations, DeviceBlock::OnDevice(shared_->device, bytes));
  }
  CountHeld();
  return Status::Ok();
}

Status CudaProgramRun::ReservePinned(DeviceBlock* block, uint64_t bytes) {
  if (block->bytes() >= bytes) return Status::Ok();
  *block = DeviceBlock();
  PENSTOCK_ASSIGN_OR_RETURN(*block, DeviceBlock::OnHost(shared_->device, bytes));
  return Status::Ok();
}

void CudaProgramRun::CountHeld() {
  held_bytes_.store(shared_->activations.bytes(), std::memory_order_relaxed);
}

void CudaProgramRun::FreeGraphs() {
  for (const auto& [key, graph] : graphs_) shared_->device->FreeGraph(graph.id);
  graphs_.clear();
}

uint64_t CudaProgramRun::Release() {
  const WaitingLock lock(&shared_->mutex);
  FreeGraphs();
  input_ = DeviceBlock();
  results_ = DeviceBlock();
  uint64_t released = 0;
  if (std::exchange(holds_, false) && --shared_->holders == 0) {
    released = shared_->activations.bytes();
    shared_->activations = DeviceBlock();
    ++shared_->generation;
  }
  held_bytes_.store(0, std::memory_order_relaxed);
  return released;
}

uint64_t CudaProgramRun::WriteInput(const LoweringPlan& plan, const Bucket& bucket,
                                    const program::PackedBatch& batch) {
  const InputLayout layout(bucket, plan.input_width);
  std::byte* const base = input_.data();
  const auto ints = [&](uint64_t at) { return reinterpret_cast<int*>(base + at); };
  const auto tiles_at = [&](uint64_t at) { return reinterpret_cast<AttentionTile*>(base + at); };
  // Nothing of another batch is left, also where nothing reads.
  std::memset(base, 0, layout.bytes);
  std::copy(batch.ids.begin(), batch.ids.end(), ints(layout.ids));
  std::copy(batch.type_ids.begin(), batch.type_ids.end(), ints(layout.types));
  std::copy(batch.offsets.begin(), batch.offsets.end(), ints(layout.offsets));
  std::copy(batch.pool_skip.begin(), batch.pool_skip.end(), ints(layout.skips));
  const program::EmbedOp* const embed = Positioned(*plan.program);
  int tiles = 0;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const int first = batch.offsets[s], length = batch.length(s), row = static_cast<int>(s);
    const int skip = batch.pool_skip.empty() ? 0 : batch.pool_skip[s];
    int next = embed == nullptr ? 0 : embed->position_padding + 1;
    for (int t = 0; t < length; ++t) {
      ints(layout.places)[first + t] = t;
      if (embed == nullptr) continue;
      const bool pads = batch.ids[static_cast<size_t>(first + t)] == embed->position_padding;
      ints(layout.positions)[first + t] = pads ? embed->position_padding : next++;
    }
    for (int query = 0; query < length; query += 64) {
      tiles_at(layout.tiles)[tiles++] = {first, length, query, std::min(64, length - query),
                                         first + query};
    }
    tiles_at(layout.first_tiles)[row] = {first, length, skip, 1, row};
    tiles_at(layout.last_tiles)[row] = {first, length, length - 1, 1, row};
  }
  int* const counts = ints(0);
  counts[InputLayout::kRows] = static_cast<int>(batch.tokens());
  counts[InputLayout::kSequences] = static_cast<int>(batch.sequences());
  counts[InputLayout::kTiles] = tiles;
  if (plan.input_width > 0) {
    std::memcpy(base + layout.input, batch.input.data(), batch.input.size_bytes());
  }
  return layout.bytes;
}

Status CudaProgramRun::Capture(const Lowered& lowered, Graph* graph) {
  PENSTOCK_RETURN_IF_ERROR(shared_->device->BeginCapture());
  Status status;
  for (const KernelLaunch& launch : lowered.launches) {
    status = shared_->device->Launch(launch);
    if (!status.ok()) break;
  }
  auto captured = shared_->device->EndCapture();
  PENSTOCK_RETURN_IF_ERROR(captured.status());
  if (!status.ok()) {
    shared_->device->FreeGraph(*captured);
    return status;
  }
  graph->id = *captured;
  graph->generation = shared_->generation;
  return Status::Ok();
}

Status CudaProgramRun::PutKernels(size_t index, const Bucket& bucket, const Lowered& lowered) {
  if (!options_.graphs) {
    for (const KernelLaunch& launch : lowered.launches) {
      PENSTOCK_RETURN_IF_ERROR(shared_->device->Launch(launch));
    }
    return Status::Ok();
  }
  const std::pair key(index, bucket);
  auto found = graphs_.find(key);
  if (found != graphs_.end() && found->second.generation != shared_->generation) {
    FreeGraphs();
    found = graphs_.end();
  }
  if (found == graphs_.end()) {
    if (graphs_.size() >= std::max<size_t>(1, options_.graphs_max)) {
      const auto oldest = std::min_element(
          graphs_.begin(), graphs_.end(),
          [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
      shared_->device->FreeGraph(oldest->second.id);
      graphs_.erase(oldest);
    }
    Graph graph;
    PENSTOCK_RETURN_IF_ERROR(Capture(lowered, &graph));
    found = graphs_.emplace(key, graph).first;
  }
  found->second.used = runs_;
  return shared_->device->Replay(found->second.id);
}

Status CudaProgramRun::Run(size_t index, const program::PackedBatch& batch,
                           std::span<float* const> sinks) {
  const LoweringPlan& plan = plans_[index];
  const program::Program& program = *plan.program;
  PENSTOCK_RETURN_IF_ERROR(program::CheckBatch(program, batch, sinks));
  const auto width = static_cast<size_t>(program.values[program.result].width);
  const size_t result_bytes = RowsOfResult(program, batch) * width * sizeof(float);
  try {
    {
      const WaitingLock lock(&shared_->mutex);
      const Bucket bucket = Bucket::Of(batch.tokens(), batch.sequences());
      PENSTOCK_RETURN_IF_ERROR(ReserveLocked(bucket));
      PENSTOCK_RETURN_IF_ERROR(ReservePinned(&results_, result_bytes));
      ++runs_;
      std::byte* const activations = shared_->activations.data();
      const uint64_t bytes = WriteInput(plan, bucket, batch);
      const Lowered lowered = Lower(plan, bucket, activations);
      Device* const device = shared_->device;
      PENSTOCK_RETURN_IF_ERROR(device->CopyIn(activations, input_.data(), bytes));
      PENSTOCK_RETURN_IF_ERROR(PutKernels(index, bucket, lowered));
      PENSTOCK_RETURN_IF_ERROR(device->CopyOut(
          results_.data(), reinterpret_cast<const std::byte*>(lowered.result), result_bytes));
      PENSTOCK_RETURN_IF_ERROR(device->Record(done_));
    }
    PENSTOCK_RETURN_IF_ERROR(shared_->device->Wait(done_));
  } catch (...) {
    return ExceptionStatus();
  }
  const bool tokens = program.values[program.result].rows == program::Rows::kTokens;
  const auto* const rows = reinterpret_cast<const float*>(results_.data());
  for (size_t s = 0; s < sinks.size(); ++s) {
    const size_t first = tokens ? static_cast<size_t>(batch.offsets[s]) : s;
    const size_t count = tokens ? static_cast<size_t>(batch.length(s)) : 1;
    std::memcpy(sinks[s], rows + first * width, count * width * sizeof(float));
  }
  return Status::Ok();
}

}  // namespace penstock::cuda

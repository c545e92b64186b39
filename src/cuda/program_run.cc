#include "cuda/program_run.h"

#include <algorithm>
#include <cstring>

#include "log/exception_status.h"
#include "threads/waiting_lock.h"

namespace penstock::cuda {
namespace {

bool IsOfTokens(const program::Program& program) {
  return program.values[program.result].rows == program::Rows::kTokens;
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
    PENSTOCK_ASSIGN_OR_RETURN(LoweringPlan plan, PlanLowering(*program, shared->device->info()));
    run->plans_.push_back(std::move(plan));
  }
  return run;
}

CudaProgramRun::~CudaProgramRun() {
  Release();
  const std::lock_guard lock(shared_->mutex);
  if (has_begun_) shared_->device->FreeEvent(begun_);
  if (has_done_) shared_->device->FreeEvent(done_);
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

Status CudaProgramRun::MakeEvents() {
  for (const auto& [event, made] : {std::pair(&begun_, &has_begun_), {&done_, &has_done_}}) {
    if (*made) continue;
    PENSTOCK_ASSIGN_OR_RETURN(*event, shared_->device->NewEvent());
    *made = true;
  }
  return Status::Ok();
}

Status CudaProgramRun::ReserveLocked(const Bucket& wanted) {
  PENSTOCK_RETURN_IF_ERROR(MakeEvents());
  const bool fits = wanted.tokens <= reserved_.tokens && wanted.sequences <= reserved_.sequences;
  if (fits && shared_->activations.bytes() >= needed_bytes_) return Status::Ok();
  const Bucket bucket = {std::max(wanted.tokens, reserved_.tokens),
                         std::max(wanted.sequences, reserved_.sequences)};
  reserved_ = {};  // what follows may fail
  uint64_t bytes = 0, input_bytes = 0;
  for (const LoweringPlan& plan : plans_) {
    bytes = std::max(bytes, ActivationBytes(plan, bucket));
    input_bytes = std::max(input_bytes, InputLayout(bucket, plan.input_width).bytes);
  }
  PENSTOCK_RETURN_IF_ERROR(ReservePinned(&input_, input_bytes));
  shared_->SetNeed(bytes, &needed_bytes_);
  if (bytes > shared_->activations.bytes()) {
    PENSTOCK_RETURN_IF_ERROR(shared_->Reallocate(bytes));
  }
  reserved_ = bucket;
  return Status::Ok();
}

Status CudaProgramRun::ReservePinned(DeviceBlock* block, uint64_t bytes) {
  if (block->bytes() >= bytes) return Status::Ok();
  *block = DeviceBlock();
  PENSTOCK_ASSIGN_OR_RETURN(*block, DeviceBlock::OnHost(shared_->device, bytes));
  return Status::Ok();
}

uint64_t CudaProgramRun::HeldBytes() const {
  const uint64_t holders = shared_->holders.load(std::memory_order_relaxed);
  if (needed_bytes_.load(std::memory_order_relaxed) == 0 || holders == 0) return 0;
  return shared_->activation_bytes.load(std::memory_order_relaxed) / holders;
}

uint64_t CudaProgramRun::Release() {
  const WaitingLock lock(&shared_->mutex);
  graphs_.Clear();
  input_ = DeviceBlock();
  results_ = DeviceBlock();
  reserved_ = {};
  return shared_->Drop(&needed_bytes_);
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

Status CudaProgramRun::Run(size_t index, const program::PackedBatch& batch,
                           std::span<float* const> sinks) {
  const LoweringPlan& plan = plans_[index];
  const program::Program& program = *plan.program;
  PENSTOCK_RETURN_IF_ERROR(program::CheckBatch(program, batch, sinks));
  const auto width = static_cast<size_t>(program.values[program.result].width);
  const bool tokens = IsOfTokens(program);
  const auto bytes_of = [&](size_t rows) { return rows * width * sizeof(float); };
  try {
    {
      const WaitingLock lock(&shared_->mutex);
      const Bucket bucket = Bucket::Of(batch.tokens(), batch.sequences());
      PENSTOCK_RETURN_IF_ERROR(ReserveLocked(bucket));
      PENSTOCK_RETURN_IF_ERROR(ReservePinned(
          &results_, bytes_of(static_cast<size_t>(tokens ? bucket.tokens : bucket.sequences))));
      std::byte* const activations = shared_->activations.data();
      const uint64_t bytes = WriteInput(plan, bucket, batch);
      Device* const device = shared_->device;
      // Captured before the time begins.
      const GraphCache::Key key = {static_cast<int32_t>(index), bucket.tokens, bucket.sequences};
      PENSTOCK_ASSIGN_OR_RETURN(
          const GraphCache::Kernels kernels,
          graphs_.Get(key, shared_->generation, [&] { return Lower(plan, bucket, activations); }));
      PENSTOCK_RETURN_IF_ERROR(device->Record(begun_));
      const uint64_t bytes_out = bytes_of(tokens ? batch.tokens() : batch.sequences());
      PENSTOCK_RETURN_IF_ERROR(device->CopyIn(activations, input_.data(), bytes));
      Status put = graphs_.Put(kernels);
      if (put.ok()) {
        put = device->CopyOut(results_.data(), reinterpret_cast<const std::byte*>(kernels.result()),
                              bytes_out);
      }
      PENSTOCK_RETURN_IF_ERROR(device->Record(done_));
      if (!put.ok()) {
        // What is in the stream may read the input, which the next batch overwrites.
        (void)device->Wait(done_);
        return put;
      }
      shared_->counters->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
      shared_->counters->bytes_out.fetch_add(bytes_out, std::memory_order_relaxed);
    }
    PENSTOCK_RETURN_IF_ERROR(shared_->device->Wait(done_));
    seconds_ = shared_->device->SecondsBetween(begun_, done_);
    shared_->counters->busy_s.fetch_add(seconds_, std::memory_order_relaxed);
  } catch (...) {
    return ExceptionStatus();
  }
  const auto* const rows = reinterpret_cast<const float*>(results_.data());
  for (size_t s = 0; s < sinks.size(); ++s) {
    const size_t first = tokens ? static_cast<size_t>(batch.offsets[s]) : s;
    const size_t count = tokens ? static_cast<size_t>(batch.length(s)) : 1;
    std::memcpy(sinks[s], rows + first * width, count * width * sizeof(float));
  }
  return Status::Ok();
}

}  // namespace penstock::cuda

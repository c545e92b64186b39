#include "cuda/step_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/int_math.h"
#include "log/exception_status.h"
#include "threads/waiting_lock.h"

namespace penstock::cuda {
namespace {

static_assert(kCacheTokens == kKvBlockTokens);
static_assert(kBestLogits == sample::kCandidatesMax && kLogitsOfBlock == sample::kLogitBlock);
static_assert(sizeof(LogitSums) == sizeof(sample::LogitBlock));

// Chunks of keys of a sequence of that length. A layer with a window skips those that it does not see.
size_t ChunksOf(int64_t tokens) {
  return CeilDiv(static_cast<size_t>(tokens), static_cast<size_t>(kChunkKeys));
}

// The largest step, and the largest whose attention is split.
std::array<StepBucket, 2> LargestSteps(const program::PrepareOptions& options) {
  const auto rows = static_cast<size_t>(options.rows), picks = static_cast<size_t>(options.picks);
  const size_t split_rows = std::min<size_t>(rows, StepBucket::kSplitRows);
  return {StepBucket::Of(rows, picks, rows, false, false),
          StepBucket::Of(split_rows, picks, StepBucket::kSplitChunks, true, false)};
}
uint64_t LargestActivations(const LoweringPlan& plan, const program::PrepareOptions& options) {
  uint64_t bytes = 0;
  for (const StepBucket& step : LargestSteps(options)) {
    bytes = std::max(bytes, StepActivationBytes(plan, step));
  }
  return bytes;
}

// The input of the largest step. Its tables have room for all blocks; sequences that share blocks may
// need more.
uint64_t LargestInput(size_t groups, const program::PrepareOptions& options) {
  auto blocks = static_cast<size_t>(options.rows);
  for (const int32_t of_group : options.blocks) blocks += static_cast<size_t>(of_group);
  uint64_t most = 0;
  for (const StepBucket& step : LargestSteps(options)) {
    most = std::max(most, StepInput(step, groups).tables);
  }
  return most + blocks * sizeof(int);
}

// Steps that may be under way.
size_t SlotsOf(const LoweringPlan& plan, const program::PrepareOptions& options) {
  const bool draws = plan.tuning.device_draws && StepResults(plan, options.picks).blocks > 0;
  return options.ahead && draws ? 2 : 1;
}

}  // namespace

Expected<uint64_t> StepRunBytes(const program::Program& program, const DeviceInfo& device,
                                const program::PrepareOptions& options) {
  program::PrepareOptions steps = options;
  if (steps.blocks.empty()) steps.blocks = {1};
  PENSTOCK_ASSIGN_OR_RETURN(const LoweringPlan plan, PlanLowering(program, device, &steps));
  return LargestActivations(plan, steps) +
         SlotsOf(plan, steps) *
             (StepResults(plan, steps.picks).bytes + LargestInput(plan.groups.size(), steps));
}

Expected<std::unique_ptr<CudaStepRun>> CudaStepRun::Make(SharedDevice* shared,
                                                         const program::Program& program,
                                                         const program::PrepareOptions& options,
                                                         const RunOptions& run_options) {
  const auto positive = [](int32_t count) { return count > 0; };
  if (options.rows <= 0 || options.picks <= 0 || options.blocks.empty() ||
      !std::ranges::all_of(options.blocks, positive)) {
    return Status::InvalidArgument("rows, picks and blocks must be positive");
  }
  PENSTOCK_ASSIGN_OR_RETURN(LoweringPlan plan,
                            PlanLowering(program, shared->device->info(), &options));
  std::unique_ptr<CudaStepRun> run(new CudaStepRun(shared, std::move(plan), options, run_options));
  const WaitingLock lock(&shared->mutex);
  PENSTOCK_RETURN_IF_ERROR(run->Allocate());
  return run;
}

CudaStepRun::CudaStepRun(SharedDevice* shared, LoweringPlan plan,
                         const program::PrepareOptions& options, const RunOptions& run_options)
    : shared_(shared),
      plan_(std::move(plan)),
      options_(options),
      tile_rows_(PagedTileRows(plan_)),
      results_layout_(plan_, options.picks),
      graphs_(shared, {run_options.graphs && plan_.tuning.graphs,
                       run_options.graphs_max * SlotsOf(plan_, options)}),
      slot_count_(SlotsOf(plan_, options)),
      activation_bytes_(LargestActivations(plan_, options)) {
  const auto picks = static_cast<size_t>(options.picks);
  for (Slot& slot : std::span(slots_).first(slot_count_)) {
    slot.wants.resize(picks);
    slot.draws.resize(picks);
  }
  parts_.resize(picks);
  drawn_.resize(picks, -1);
  best_.resize(results_layout_.blocks > 0 ? picks * kBestLogits : 0);
  sums_.resize(picks * static_cast<size_t>(results_layout_.blocks));
}

CudaStepRun::~CudaStepRun() {
  while (finished_ < started_) (void)Finish();
  const std::lock_guard lock(shared_->mutex);
  graphs_.Clear();
  (void)shared_->Drop(&needed_bytes_);
  for (const Slot& slot : slots_) {
    if (slot.has_begun) shared_->device->FreeEvent(slot.begun);
    if (slot.has_done) shared_->device->FreeEvent(slot.done);
  }
}

Status CudaStepRun::Allocate() {
  Device* const device = shared_->device;
  std::vector<std::byte*> caches;
  for (size_t group = 0; group < plan_.groups.size(); ++group) {
    const uint64_t bytes = static_cast<uint64_t>(options_.blocks[group]) * plan_.block_bytes[group];
    DeviceBlock block;
    if (bytes > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(block, DeviceBlock::OnDevice(device, bytes));
    }
    caches.push_back(block.data());
    caches_.push_back(std::move(block));
    cache_bytes_ += bytes;
  }
  shared_->SetNeed(activation_bytes_, &needed_bytes_);
  for (Slot& slot : std::span(slots_).first(slot_count_)) {
    slot.memory.caches = caches;
    PENSTOCK_RETURN_IF_ERROR(AllocateSlot(&slot));
  }
  if (slot_count_ == 2) {
    for (const size_t i : {0, 1}) {
      slots_[i].memory.drawn =
          reinterpret_cast<const int*>(slots_[1 - i].memory.results + results_layout_.drawn);
    }
  }
  if (shared_->activations.bytes() >= activation_bytes_) return Status::Ok();
  return shared_->Reallocate(activation_bytes_);
}

Status CudaStepRun::AllocateSlot(Slot* slot) {
  Device* const device = shared_->device;
  PENSTOCK_ASSIGN_OR_RETURN(slot->begun, device->NewEvent());
  slot->has_begun = true;
  PENSTOCK_ASSIGN_OR_RETURN(slot->done, device->NewEvent());
  slot->has_done = true;
  PENSTOCK_ASSIGN_OR_RETURN(slot->results, DeviceBlock::OnDevice(device, results_layout_.bytes));
  slot->memory.results = slot->results.data();
  slot->memory.picks = options_.picks;
  if (results_layout_.found_bytes > 0) {
    const uint64_t bytes = static_cast<uint64_t>(options_.picks) * results_layout_.found_bytes;
    PENSTOCK_ASSIGN_OR_RETURN(slot->host_found, DeviceBlock::OnHost(device, bytes));
  }
  return ReserveInput(LargestInput(plan_.groups.size(), options_), slot);
}

Status CudaStepRun::ReserveInput(uint64_t bytes, Slot* slot) {
  if (slot->host_input.bytes() >= bytes) return Status::Ok();
  // Tables grow with their texts: not at each step.
  bytes = std::max(bytes, 2 * slot->host_input.bytes());
  ++generation_;
  slot->host_input = DeviceBlock();
  slot->input = DeviceBlock();
  PENSTOCK_ASSIGN_OR_RETURN(slot->input, DeviceBlock::OnDevice(shared_->device, bytes));
  PENSTOCK_ASSIGN_OR_RETURN(slot->host_input, DeviceBlock::OnHost(shared_->device, bytes));
  slot->memory.input = slot->input.data();
  return Status::Ok();
}

uint64_t CudaStepRun::HeldBytes() const {
  const uint64_t holders = shared_->holders.load(std::memory_order_relaxed);
  const uint64_t shared = shared_->activation_bytes.load(std::memory_order_relaxed);
  uint64_t bytes = holders == 0 ? 0 : shared / holders;
  for (const Slot& slot : slots_) bytes += slot.results.bytes() + slot.input.bytes();
  return bytes;
}

CudaStepRun::Cut CudaStepRun::CutOf(const program::PackedBatch& batch) const {
  Cut cut;
  size_t chunks = 0;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const int32_t length = batch.length(s), past = batch.cached[s].past;
    cut.blocks += static_cast<size_t>(BlocksOfTokens(int64_t{past} + length)) * plan_.groups.size();
    cut.tiles += CeilDiv(static_cast<size_t>(length), static_cast<size_t>(tile_rows_));
    chunks += static_cast<size_t>(length) * ChunksOf(int64_t{past} + length);
  }
  // A lone chunk has nothing to be joined with.
  cut.split = plan_.tuning.split_keys &&
              batch.tokens() <= static_cast<size_t>(StepBucket::kSplitRows) &&
              chunks <= static_cast<size_t>(StepBucket::kSplitChunks) && chunks > batch.tokens();
  if (cut.split) cut.tiles = chunks;
  return cut;
}

uint64_t CudaStepRun::WriteInput(const StepInput& layout, const Cut& cut,
                                 const program::PackedBatch& batch, Slot* slot) {
  std::byte* const base = slot->host_input.data();
  const auto ints = [&](uint64_t at) { return reinterpret_cast<int*>(base + at); };
  std::copy(batch.ids.begin(), batch.ids.end(), ints(layout.ids));
  int* const positions = ints(layout.positions);
  int* const sequences = ints(layout.sequences);
  int* const parts = ints(layout.parts);
  auto* const tiles = reinterpret_cast<PagedTile*>(base + layout.tiles);
  int* const tables = ints(layout.tables);
  int used = 0, tile_count = 0;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const program::CachedSequence& one = batch.cached[s];
    const int first = batch.offsets[s], length = batch.length(s), number = static_cast<int>(s);
    const int end = one.past + length;
    ints(layout.lengths)[s] = end;
    ints(layout.is_long)[s] = one.long_rope ? 1 : 0;
    const auto blocks = static_cast<size_t>(BlocksOfTokens(end));
    for (size_t group = 0; group < plan_.groups.size(); ++group) {
      ints(layout.firsts + group * layout.stride)[s] = used;
      std::copy_n(one.blocks[group].begin(), blocks, tables + used);
      used += static_cast<int>(blocks);
    }
    const auto chunks = static_cast<int>(ChunksOf(end));
    for (int t = 0; t < length; ++t) {
      positions[first + t] = one.past + t;
      sequences[first + t] = number;
      parts[first + t] = tile_count;
      if (!cut.split) continue;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        tiles[tile_count++] = {first + t, 1, number, chunk};
      }
    }
    if (cut.split) continue;
    for (int t = 0; t < length; t += tile_rows_) {
      tiles[tile_count++] = {first + t, std::min(tile_rows_, length - t), number, -1};
    }
  }
  std::copy(batch.picks.begin(), batch.picks.end(), ints(layout.picks));
  auto* const draws = reinterpret_cast<sample::DrawRule*>(base + layout.draws);
  for (size_t pick = 0; pick < batch.picks.size(); ++pick) {
    ints(layout.wants)[pick] = slot->wants[pick] == program::PickWant::kRow ? 0 : 1;
    draws[pick] = slot->draws[pick] ? batch.draws[pick] : sample::DrawRule{};
  }
  if (batch.sources.empty()) {
    std::fill_n(ints(layout.sources), batch.tokens(), -1);
  } else {
    std::copy(batch.sources.begin(), batch.sources.end(), ints(layout.sources));
  }
  int* const counts = ints(0);
  counts[StepInput::kRows] = static_cast<int>(batch.tokens());
  counts[StepInput::kPicks] = static_cast<int>(batch.picks.size());
  counts[StepInput::kTiles] = tile_count;
  return layout.tables + static_cast<uint64_t>(used) * sizeof(int);
}

Status CudaStepRun::Put(const program::PackedBatch& batch, Slot* slot) {
  Device* const device = shared_->device;
  const Cut cut = CutOf(batch);
  const StepBucket bucket = StepBucket::Of(batch.tokens(), batch.picks.size(), cut.tiles, cut.split,
                                           batch.tokens() == batch.sequences());
  const StepInput layout(bucket, plan_.groups.size());
  PENSTOCK_RETURN_IF_ERROR(ReserveInput(layout.tables + cut.blocks * sizeof(int), slot));
  if (shared_->activations.bytes() < activation_bytes_) {
    PENSTOCK_RETURN_IF_ERROR(shared_->Reallocate(activation_bytes_));
  }
  const uint64_t bytes = WriteInput(layout, cut, batch, slot);
  const int32_t number = slot == &slots_[0] ? 0 : 1;
  const GraphCache::Key key = {bucket.rows, bucket.picks, bucket.tiles,
                               (bucket.split ? 1 : 0) + (bucket.single ? 2 : 0) + 4 * number};
  PENSTOCK_ASSIGN_OR_RETURN(
      const GraphCache::Kernels kernels, graphs_.Get(key, shared_->generation + generation_, [&] {
        Lowered lowered = LowerStep(plan_, bucket, slot->memory, shared_->activations.data());
        for (KernelLaunch& launch : lowered.launches) launch.early = plan_.tuning.early_launch;
        return lowered;
      }));
  PENSTOCK_RETURN_IF_ERROR(device->Record(slot->begun));
  PENSTOCK_RETURN_IF_ERROR(device->CopyIn(slot->memory.input, slot->host_input.data(), bytes));
  Status put = graphs_.Put(kernels);
  const bool finds =
      std::ranges::any_of(std::span(slot->wants).first(slot->picks),
                          [](program::PickWant want) { return want != program::PickWant::kRow; });
  const uint64_t found = finds ? slot->picks * results_layout_.found_bytes : 0;
  if (put.ok() && found > 0) {
    put = device->CopyOut(slot->host_found.data(), slot->memory.results + results_layout_.found,
                          found);
  }
  PENSTOCK_RETURN_IF_ERROR(device->Record(slot->done));
  if (!put.ok()) {
    // What is in the stream may read the input, which the next step overwrites.
    (void)device->Wait(slot->done);
    return put;
  }
  shared_->counters->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
  shared_->counters->bytes_out.fetch_add(found, std::memory_order_relaxed);
  return Status::Ok();
}

// Tokens that are drawn are of the step that was started last, which may still be under way.
Status CudaStepRun::CheckSources(const program::PackedBatch& batch) const {
  const Slot& before = slots_[(started_ + slot_count_ - 1) % slot_count_];
  for (const int32_t source : batch.sources) {
    if (source < 0) continue;
    const auto pick = static_cast<size_t>(source);
    if (slot_count_ < 2 || started_ == 0 || pick >= before.picks || !before.draws[pick]) {
      return Status::InvalidArgument("no token was drawn for that pick", "sources");
    }
  }
  return Status::Ok();
}

Status CudaStepRun::Start(const program::PackedBatch& batch) {
  if (started_ - finished_ == slot_count_) {
    return Status::Internal("as many steps are under way as may be");
  }
  PENSTOCK_RETURN_IF_ERROR(
      program::CheckCachedBatch(*plan_.program, batch, options_, plan_.groups));
  PENSTOCK_RETURN_IF_ERROR(CheckSources(batch));
  Slot* const slot = &slots_[started_ % slot_count_];
  slot->picks = batch.picks.size();
  const bool finds = results_layout_.blocks > 0 && !batch.wants.empty();
  for (size_t pick = 0; pick < slot->picks; ++pick) {
    slot->wants[pick] = finds ? batch.wants[pick] : program::PickWant::kRow;
    slot->draws[pick] = slot_count_ == 2 && !batch.draws.empty() && batch.draws[pick].keep > 0 &&
                        slot->wants[pick] != program::PickWant::kRow;
  }
  try {
    const WaitingLock lock(&shared_->mutex);
    PENSTOCK_RETURN_IF_ERROR(Put(batch, slot));
  } catch (...) {
    return ExceptionStatus();
  }
  ++started_;
  return Status::Ok();
}

Status CudaStepRun::Finish() {
  if (finished_ == started_) return Status::Internal("no step is under way");
  const Slot* const slot = &slots_[finished_ % slot_count_];
  ++finished_;
  current_ = slot;
  PENSTOCK_RETURN_IF_ERROR(shared_->device->Wait(slot->done));
  seconds_ = shared_->device->SecondsBetween(slot->begun, slot->done);
  shared_->counters->busy_s.fetch_add(seconds_, std::memory_order_relaxed);
  ReadFound(*slot);
  return Status::Ok();
}

Status CudaStepRun::Run(size_t /*index*/, const program::PackedBatch& batch,
                        std::span<float* const> sinks) {
  if (!sinks.empty()) {
    return Status::InvalidArgument("a program with a cache has no sinks", "out");
  }
  if (finished_ < started_) return Status::Internal("a step is under way");
  PENSTOCK_RETURN_IF_ERROR(Start(batch));
  return Finish();
}

void CudaStepRun::ReadFound(const Slot& slot) {
  const auto vocabulary = plan_.program->values[plan_.program->result].width;
  const auto count = static_cast<size_t>(std::min(vocabulary, kBestLogits));
  const auto blocks = static_cast<size_t>(results_layout_.blocks);
  for (size_t pick = 0; pick < slot.picks; ++pick) {
    if (slot.wants[pick] == program::PickWant::kRow) continue;
    const std::byte* const found = slot.host_found.data() + pick * results_layout_.found_bytes;
    BestLogits best;
    std::memcpy(&best, found, sizeof(best));
    sample::Candidate* const to = best_.data() + pick * kBestLogits;
    for (size_t i = 0; i < count; ++i) to[i] = {best.best[i].logit, best.best[i].id};
    parts_[pick] = {{to, count}, vocabulary > kBestLogits, best.bad_id};
    drawn_[pick] = best.drawn;
    std::memcpy(sums_.data() + pick * blocks, found + sizeof(best), blocks * sizeof(LogitSums));
  }
}

program::FoundLogits CudaStepRun::Found(size_t pick) const {
  const program::PickWant want = current_->wants[pick];
  if (want == program::PickWant::kRow) return {};
  const auto blocks = static_cast<size_t>(results_layout_.blocks);
  program::FoundLogits found = {{&parts_[pick], 1}, {}, drawn_[pick]};
  if (want == program::PickWant::kBestAndSums) {
    found.blocks = {sums_.data() + pick * blocks, blocks};
  }
  return found;
}

Expected<std::span<const float>> CudaStepRun::Rows(size_t first, size_t count) {
  const auto width = static_cast<uint64_t>(plan_.program->values[plan_.program->result].width);
  const uint64_t row_bytes = width * sizeof(float), at = first * row_bytes,
                 bytes = count * row_bytes;
  if (count == 0) return std::span<const float>();
  Device* const device = shared_->device;
  {
    const WaitingLock lock(&shared_->mutex);
    // Each row has its place: those that were asked for before stay.
    if (host_rows_.bytes() < current_->picks * row_bytes) {
      host_rows_ = DeviceBlock();
      PENSTOCK_ASSIGN_OR_RETURN(
          host_rows_, DeviceBlock::OnHost(device, std::bit_ceil(current_->picks) * row_bytes));
    }
    PENSTOCK_RETURN_IF_ERROR(device->CopyOut(
        host_rows_.data() + at, current_->memory.results + results_layout_.rows + at, bytes));
    PENSTOCK_RETURN_IF_ERROR(device->Record(current_->done));
    shared_->counters->bytes_out.fetch_add(bytes, std::memory_order_relaxed);
  }
  PENSTOCK_RETURN_IF_ERROR(device->Wait(current_->done));
  return std::span(reinterpret_cast<const float*>(host_rows_.data() + at), count * width);
}

}  // namespace penstock::cuda

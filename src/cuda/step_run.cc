#include "cuda/step_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/exception_status.h"
#include "common/int_math.h"
#include "common/waiting_lock.h"

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

}  // namespace

Expected<uint64_t> StepRunBytes(const program::Program& program, const DeviceInfo& device,
                                const program::PrepareOptions& options) {
  program::PrepareOptions steps = options;
  if (steps.blocks.empty()) steps.blocks = {1};
  PENSTOCK_ASSIGN_OR_RETURN(const LoweringPlan plan, PlanLowering(program, device, &steps));
  return LargestActivations(plan, steps) + StepResults(plan, steps.picks).bytes +
         LargestInput(plan.groups.size(), steps);
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
      graphs_(shared, {run_options.graphs && plan_.tuning.graphs, run_options.graphs_max}),
      activation_bytes_(LargestActivations(plan_, options)) {
  const auto picks = static_cast<size_t>(options.picks);
  wants_.resize(picks);
  parts_.resize(picks);
  best_.resize(results_layout_.blocks > 0 ? picks * kBestLogits : 0);
  sums_.resize(picks * static_cast<size_t>(results_layout_.blocks));
}

CudaStepRun::~CudaStepRun() {
  const std::lock_guard lock(shared_->mutex);
  graphs_.Clear();
  (void)shared_->Drop(&needed_bytes_);
  if (has_begun_) shared_->device->FreeEvent(begun_);
  if (has_done_) shared_->device->FreeEvent(done_);
}

Status CudaStepRun::Allocate() {
  Device* const device = shared_->device;
  for (const auto& [event, made] : {std::pair(&begun_, &has_begun_), {&done_, &has_done_}}) {
    PENSTOCK_ASSIGN_OR_RETURN(*event, device->NewEvent());
    *made = true;
  }
  for (size_t group = 0; group < plan_.groups.size(); ++group) {
    const uint64_t bytes = static_cast<uint64_t>(options_.blocks[group]) * plan_.block_bytes[group];
    DeviceBlock block;
    if (bytes > 0) {
      PENSTOCK_ASSIGN_OR_RETURN(block, DeviceBlock::OnDevice(device, bytes));
    }
    memory_.caches.push_back(block.data());
    caches_.push_back(std::move(block));
    cache_bytes_ += bytes;
  }
  PENSTOCK_ASSIGN_OR_RETURN(results_, DeviceBlock::OnDevice(device, results_layout_.bytes));
  memory_.results = results_.data();
  memory_.picks = options_.picks;
  if (results_layout_.found_bytes > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(host_found_,
                              DeviceBlock::OnHost(device, static_cast<uint64_t>(options_.picks) *
                                                              results_layout_.found_bytes));
  }
  shared_->SetNeed(activation_bytes_, &needed_bytes_);
  PENSTOCK_RETURN_IF_ERROR(ReserveInput(LargestInput(plan_.groups.size(), options_)));
  if (shared_->activations.bytes() >= activation_bytes_) return Status::Ok();
  return shared_->Reallocate(activation_bytes_);
}

Status CudaStepRun::ReserveInput(uint64_t bytes) {
  if (host_input_.bytes() >= bytes) return Status::Ok();
  // Tables grow with their texts: not at each step.
  bytes = std::max(bytes, 2 * host_input_.bytes());
  ++generation_;
  host_input_ = DeviceBlock();
  input_ = DeviceBlock();
  PENSTOCK_ASSIGN_OR_RETURN(input_, DeviceBlock::OnDevice(shared_->device, bytes));
  PENSTOCK_ASSIGN_OR_RETURN(host_input_, DeviceBlock::OnHost(shared_->device, bytes));
  memory_.input = input_.data();
  return Status::Ok();
}

uint64_t CudaStepRun::HeldBytes() const {
  const uint64_t holders = shared_->holders.load(std::memory_order_relaxed);
  const uint64_t shared = shared_->activation_bytes.load(std::memory_order_relaxed);
  return results_.bytes() + input_.bytes() + (holders == 0 ? 0 : shared / holders);
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
                                 const program::PackedBatch& batch) {
  std::byte* const base = host_input_.data();
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
  for (size_t pick = 0; pick < batch.picks.size(); ++pick) {
    ints(layout.wants)[pick] = wants_[pick] == program::PickWant::kRow ? 0 : 1;
  }
  int* const counts = ints(0);
  counts[StepInput::kRows] = static_cast<int>(batch.tokens());
  counts[StepInput::kPicks] = static_cast<int>(batch.picks.size());
  counts[StepInput::kTiles] = tile_count;
  return layout.tables + static_cast<uint64_t>(used) * sizeof(int);
}

Status CudaStepRun::Put(const program::PackedBatch& batch) {
  Device* const device = shared_->device;
  const Cut cut = CutOf(batch);
  const StepBucket bucket = StepBucket::Of(batch.tokens(), batch.picks.size(), cut.tiles, cut.split,
                                           batch.tokens() == batch.sequences());
  const StepInput layout(bucket, plan_.groups.size());
  PENSTOCK_RETURN_IF_ERROR(ReserveInput(layout.tables + cut.blocks * sizeof(int)));
  if (shared_->activations.bytes() < activation_bytes_) {
    PENSTOCK_RETURN_IF_ERROR(shared_->Reallocate(activation_bytes_));
  }
  const uint64_t bytes = WriteInput(layout, cut, batch);
  const GraphCache::Key key = {bucket.rows, bucket.picks, bucket.tiles,
                               (bucket.split ? 1 : 0) + (bucket.single ? 2 : 0)};
  PENSTOCK_ASSIGN_OR_RETURN(
      const GraphCache::Kernels kernels, graphs_.Get(key, shared_->generation + generation_, [&] {
        Lowered lowered = LowerStep(plan_, bucket, memory_, shared_->activations.data());
        for (KernelLaunch& launch : lowered.launches) launch.early = plan_.tuning.early_launch;
        return lowered;
      }));
  PENSTOCK_RETURN_IF_ERROR(device->Record(begun_));
  PENSTOCK_RETURN_IF_ERROR(device->CopyIn(memory_.input, host_input_.data(), bytes));
  Status put = graphs_.Put(kernels);
  const bool finds =
      std::ranges::any_of(std::span(wants_).first(picks_),
                          [](program::PickWant want) { return want != program::PickWant::kRow; });
  const uint64_t found = finds ? picks_ * results_layout_.found_bytes : 0;
  if (put.ok() && found > 0) {
    put = device->CopyOut(host_found_.data(), memory_.results + results_layout_.found, found);
  }
  PENSTOCK_RETURN_IF_ERROR(device->Record(done_));
  if (!put.ok()) {
    // What is in the stream may read the input, which the next step overwrites.
    (void)device->Wait(done_);
    return put;
  }
  shared_->counters->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
  shared_->counters->bytes_out.fetch_add(found, std::memory_order_relaxed);
  return Status::Ok();
}

Status CudaStepRun::Run(size_t /*index*/, const program::PackedBatch& batch,
                        std::span<float* const> sinks) {
  if (!sinks.empty()) {
    return Status::InvalidArgument("a program with a cache has no sinks", "out");
  }
  PENSTOCK_RETURN_IF_ERROR(
      program::CheckCachedBatch(*plan_.program, batch, options_, plan_.groups));
  picks_ = batch.picks.size();
  const auto want = [&](size_t pick) {
    const bool finds = results_layout_.blocks > 0 && !batch.wants.empty();
    return finds ? batch.wants[pick] : program::PickWant::kRow;
  };
  for (size_t pick = 0; pick < picks_; ++pick) wants_[pick] = want(pick);
  try {
    {
      const WaitingLock lock(&shared_->mutex);
      PENSTOCK_RETURN_IF_ERROR(Put(batch));
    }
    PENSTOCK_RETURN_IF_ERROR(shared_->device->Wait(done_));
    seconds_ = shared_->device->SecondsBetween(begun_, done_);
    shared_->counters->busy_s.fetch_add(seconds_, std::memory_order_relaxed);
  } catch (...) {
    return ExceptionStatus();
  }
  ReadFound();
  return Status::Ok();
}

void CudaStepRun::ReadFound() {
  const auto vocabulary = plan_.program->values[plan_.program->result].width;
  const auto count = static_cast<size_t>(std::min(vocabulary, kBestLogits));
  const auto blocks = static_cast<size_t>(results_layout_.blocks);
  for (size_t pick = 0; pick < picks_; ++pick) {
    if (wants_[pick] == program::PickWant::kRow) continue;
    const std::byte* const found = host_found_.data() + pick * results_layout_.found_bytes;
    BestLogits best;
    std::memcpy(&best, found, sizeof(best));
    sample::Candidate* const to = best_.data() + pick * kBestLogits;
    for (size_t i = 0; i < count; ++i) to[i] = {best.best[i].logit, best.best[i].id};
    parts_[pick] = {{to, count}, vocabulary > kBestLogits, best.bad_id};
    std::memcpy(sums_.data() + pick * blocks, found + sizeof(best), blocks * sizeof(LogitSums));
  }
}

program::FoundLogits CudaStepRun::Found(size_t pick) const {
  if (wants_[pick] == program::PickWant::kRow) return {};
  const auto blocks = static_cast<size_t>(results_layout_.blocks);
  program::FoundLogits found = {{&parts_[pick], 1}, {}};
  if (wants_[pick] == program::PickWant::kBestAndSums) {
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
    if (host_rows_.bytes() < picks_ * row_bytes) {
      host_rows_ = DeviceBlock();
      PENSTOCK_ASSIGN_OR_RETURN(host_rows_,
                                DeviceBlock::OnHost(device, std::bit_ceil(picks_) * row_bytes));
    }
    PENSTOCK_RETURN_IF_ERROR(device->CopyOut(host_rows_.data() + at,
                                             memory_.results + results_layout_.rows + at, bytes));
    PENSTOCK_RETURN_IF_ERROR(device->Record(done_));
    shared_->counters->bytes_out.fetch_add(bytes, std::memory_order_relaxed);
  }
  PENSTOCK_RETURN_IF_ERROR(device->Wait(done_));
  return std::span(reinterpret_cast<const float*>(host_rows_.data() + at), count * width);
}

}  // namespace penstock::cuda

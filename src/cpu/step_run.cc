#include "cpu/step_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "threads/waiting_lock.h"

namespace penstock::cpu {
namespace {

// With fewer panels a worker, the time of a share says more of its panels than of the worker.
constexpr size_t kPanelsToLearn = 4;

}  // namespace

Status CheckCacheKinds(std::span<const CacheGroup> groups) {
  for (const CacheGroup& group : groups) {
    if (group.kind == CacheKind::kFull || group.kind == CacheKind::kWindow) continue;
    return Status::Unsupported(
        fmt::format("a cache of the kind \"{}\"; the CPU backend keeps keys "
                    "and values of all tokens or of a window",
                    kCacheKindNames[static_cast<size_t>(group.kind)]));
  }
  return Status::Ok();
}

Expected<std::unique_ptr<CpuStepRun>> CpuStepRun::Make(CpuDevice* device,
                                                       const program::Program& program,
                                                       const program::PrepareOptions& options) {
  const auto positive = [](int32_t count) { return count > 0; };
  if (options.rows <= 0 || options.picks <= 0 || options.blocks.empty() ||
      !std::ranges::all_of(options.blocks, positive)) {
    return Status::InvalidArgument("rows, picks and blocks must be positive");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckCacheKinds(program::CacheGroups(program)));
  std::unique_ptr<CpuStepRun> run(new CpuStepRun(device, program, options));
  for (const std::string& name : options.without) {
    const auto* const end = std::end(kCpuOptimisations);
    const auto* const found = std::find(std::begin(kCpuOptimisations), end, name);
    if (found == end) return Status::InvalidArgument("no optimisation is named " + name);
    run->shared_.tuning.*kCpuTunings[found - std::begin(kCpuOptimisations)] = false;
  }
  const StepSizes& sizes = run->shared_.sizes;
  if (sizes.head_size > kKvHeadSizeMax) {
    return Status::Unsupported("heads of " + std::to_string(sizes.head_size) + " values; at most " +
                               std::to_string(kKvHeadSizeMax) + " are possible");
  }
  for (GroupCache& cache : run->shared_.caches) {
    if (cache.heads == 0) continue;
    PENSTOCK_ASSIGN_OR_RETURN(
        cache.pages,
        KvPages::Reserve(run->shared_.head_bytes, static_cast<int64_t>(cache.heads), cache.blocks));
  }
  return run;
}

CpuStepRun::CpuStepRun(CpuDevice* device, const program::Program& program,
                       const program::PrepareOptions& options)
    : device_(device),
      shared_(device->kernels, device->plan, program, options, &device->work_arena),
      threads_(device->workers()),
      shares_(device->workers()),
      busy_(device->workers()) {
  size_t fewest = SIZE_MAX;  // panels of a layer that is shared out by panels, not by heads
  for (const program::Op& op : program.ops) {
    if (std::holds_alternative<program::AttentionOp>(op)) continue;
    for (const program::PackedLinear* weight : program::WeightsOf(op)) {
      fewest = std::min(fewest, shared_.Linear(weight).panels());
    }
  }
  learns_ = fewest >= kPanelsToLearn * device->workers();
  SetShares(false, device->workers());
  for (size_t worker = 0; worker < device->workers(); ++worker) {
    workers_.push_back(std::make_unique<StepWorker>(&shared_, worker, &device->work_arena));
  }
}

size_t CpuStepRun::NextThreads(size_t rows) {
  if (!in_turns_.empty()) return in_turns_[turn_++ % in_turns_.size()];
  return device_->exact_threads ? workers_.size() : threads_.Next(rows);
}

void CpuStepRun::SetShares(bool many_rows, size_t threads) {
  shares_.Fill(many_rows, threads, &bounds_);
  if (bounds_ == shared_.bounds) return;
  shared_.bounds = bounds_;
  ++shared_.bounds_version;
}

uint64_t CpuStepRun::HeldBytes() const {
  uint64_t bytes = shared_.bytes();
  for (const auto& worker : workers_) bytes += worker->bytes();
  return bytes;
}

Status CpuStepRun::Run(size_t /*index*/, const program::PackedBatch& batch,
                       std::span<float* const> sinks) {
  if (!sinks.empty()) {
    return Status::InvalidArgument("a program with a cache has no sinks", "out");
  }
  PENSTOCK_RETURN_IF_ERROR(
      program::CheckCachedBatch(shared_.program, batch, shared_.options, shared_.groups));
  const WaitingLock lock(&device_->mutex);
  const size_t rows = batch.ids.size();
  const size_t threads = NextThreads(rows);
  const bool many_rows = rows > StepThreads::kRowsMax;
  const bool time = learns_ && threads > 1 && shares_.TimeNext(many_rows);
  SetShares(many_rows, threads);
  shared_.Begin(batch, threads, time);
  for (size_t i = 0; time && i < threads; ++i) busy_[i] = -workers_[i]->LinearSeconds();
  const auto begin = Clock::now();
  device_->pool.Gang(threads, [this](size_t thread) { workers_[thread]->Run(); });
  threads_.Took(rows, std::chrono::duration<double>(Clock::now() - begin).count());
  if (!time) return Status::Ok();
  for (size_t i = 0; i < threads; ++i) busy_[i] += workers_[i]->LinearSeconds();
  shares_.Took(many_rows, shared_.bounds, std::span(busy_).first(threads));
  return Status::Ok();
}

std::vector<program::StageTime> CpuStepRun::TakeProfile() {
  std::vector<program::StageTime> all;
  for (const char* name : kStepStageNames) all.push_back({name, 0});
  if (!shared_.options.profile) return all;
  for (const auto& worker : workers_) {
    const auto seconds = worker->TakeProfile();
    for (size_t stage = 0; stage < kStepStages; ++stage) all[stage].seconds += seconds[stage];
  }
  return all;
}

Expected<std::span<const float>> CpuStepRun::Rows(size_t first, size_t count) {
  const size_t width = shared_.Width(shared_.program.result);
  return std::span<const float>(shared_.Data(shared_.program.result) + first * width,
                                count * width);
}

}  // namespace penstock::cpu

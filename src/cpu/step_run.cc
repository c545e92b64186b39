#include "cpu/step_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <variant>

#include "common/exception_status.h"
#include "common/int_math.h"
#include "common/waiting_lock.h"
#include "cpu/op_support.h"

namespace penstock::cpu {
namespace {

std::string Number(int64_t n) { return std::to_string(n); }

// What is wrong with the blocks that a sequence has for `end` tokens, of which a step reads or
// writes those from `first` on; null: nothing.
const char* FaultOf(std::span<const int32_t> blocks, int64_t first, int64_t end, int32_t known) {
  const size_t needed = CeilDiv(static_cast<size_t>(end), size_t{kKvBlockTokens});
  if (blocks.size() < needed) return " has too few blocks";
  for (const int32_t block : blocks.first(needed).subspan(static_cast<size_t>(first))) {
    if (block < 0 || block >= known) return " has a block beyond the cache";
  }
  return nullptr;
}

// Every group's table of a sequence has the blocks of a step; null: nothing is wrong.
const char* FaultOf(const StepSequence& one, int64_t end, const StepShared& shared) {
  if (one.blocks.size() < shared.groups.size()) return " has too few blocks";
  for (size_t g = 0; g < shared.groups.size(); ++g) {
    const CacheGroup& group = shared.groups[g];
    const int32_t first = group.window > 0 ? FirstSeenBlock(one.past, group.window) : 0;
    const char* const fault = FaultOf(one.blocks[g], first, end, shared.caches[g].blocks);
    if (fault != nullptr) return fault;
  }
  return nullptr;
}

// Adds up to the rows of the batch, and every sequence has its blocks.
Status CheckSequences(const StepBatch& batch, int32_t context, const StepShared& shared) {
  size_t rows = 0;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const StepSequence& one = batch.sequences[s];
    const auto fault = [s](const std::string& what) {
      return Status::InvalidArgument("sequence " + std::to_string(s) + what, "sequences");
    };
    if (one.rows <= 0 || one.past < 0) return fault(" has no rows");
    const int64_t end = int64_t{one.past} + one.rows;
    if (end > context) {
      return fault(" has " + Number(end) + " tokens, the context is " + Number(context));
    }
    const int32_t most = shared.program.rope_switch;
    if (most > 0 && end > most && !one.long_rope) {
      return fault(" has " + Number(end) + " tokens, the short rotary tables are for " +
                   Number(most));
    }
    if (const char* const wrong = FaultOf(one, end, shared)) return fault(wrong);
    rows += static_cast<size_t>(one.rows);
  }
  if (rows == batch.ids.size()) return Status::Ok();
  return Status::InvalidArgument("the sequences do not cover the ids", "sequences");
}

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

Expected<std::unique_ptr<CpuStepRun>> CpuStepRun::Make(CpuDevice* device, const Program& program,
                                                       const StepOptions& options) {
  const auto positive = [](int32_t count) { return count > 0; };
  if (options.rows <= 0 || options.picks <= 0 || options.blocks.empty() ||
      !std::ranges::all_of(options.blocks, positive)) {
    return Status::InvalidArgument("rows, picks and blocks must be positive");
  }
  if (!UsesCache(program)) return Status::Unsupported("steps of a program without a cache");
  PENSTOCK_RETURN_IF_ERROR(CheckSupport(program));
  try {
    PENSTOCK_RETURN_IF_ERROR(CheckCacheKinds(CacheGroups(program)));
    std::unique_ptr<CpuStepRun> run(new CpuStepRun(device, program, options));
    for (const std::string& name : options.without) {
      const auto* const end = std::end(kStepOptimisations);
      const auto* const found = std::find(std::begin(kStepOptimisations), end, name);
      if (found == end) return Status::InvalidArgument("no optimisation is named " + name);
      run->shared_.tuning.*kStepTunings[found - std::begin(kStepOptimisations)] = false;
    }
    const StepSizes& sizes = run->shared_.sizes;
    if (sizes.head_size > kKvHeadSizeMax) {
      return Status::Unsupported("heads of " + std::to_string(sizes.head_size) +
                                 " values; at most " + std::to_string(kKvHeadSizeMax) +
                                 " are possible");
    }
    for (GroupCache& cache : run->shared_.caches) {
      if (cache.heads == 0) continue;
      PENSTOCK_ASSIGN_OR_RETURN(
          cache.pages, KvPages::Reserve(run->shared_.head_bytes, static_cast<int64_t>(cache.heads),
                                        cache.blocks));
    }
    return run;
  } catch (...) {
    return ExceptionStatus();
  }
}

CpuStepRun::CpuStepRun(CpuDevice* device, const Program& program, const StepOptions& options)
    : device_(device),
      shared_(device->kernels, device->workers(), device->pool.spins(), program, options,
              &device->work_arena) {
  for (size_t worker = 0; worker < device->workers(); ++worker) {
    workers_.push_back(std::make_unique<StepWorker>(&shared_, worker, &device->work_arena));
  }
  for (const Op& op : program.ops) {
    if (const auto* embed = std::get_if<EmbedOp>(&op)) {
      vocabulary_ = static_cast<int32_t>(embed->vocabulary());
    }
    if (const auto* attention = std::get_if<AttentionOp>(&op)) {
      causal_ = causal_ && attention->shape.causal;
    }
  }
}

uint64_t CpuStepRun::HeldBytes() const {
  uint64_t bytes = shared_.bytes();
  for (const auto& worker : workers_) bytes += worker->bytes();
  return bytes;
}

Status CpuStepRun::Check(const StepBatch& batch) const {
  const StepOptions& options = shared_.options;
  if (batch.ids.empty() || batch.ids.size() > static_cast<size_t>(options.rows)) {
    return Status::InvalidArgument("a step has " + std::to_string(batch.ids.size()) +
                                       " rows, 1 to " + Number(options.rows) + " are possible",
                                   "inputs");
  }
  for (const int32_t id : batch.ids) {
    if (id >= 0 && id < vocabulary_) continue;
    return Status::InvalidArgument(
        "token id " + Number(id) + " is not below " + Number(vocabulary_), "inputs");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckSequences(batch, shared_.program.max_length, shared_));
  if (!causal_) {
    for (const StepSequence& one : batch.sequences) {
      if (one.past == 0) continue;
      return Status::InvalidArgument("attention in both directions needs the whole sequence",
                                     "sequences");
    }
  }
  if (batch.picks.size() > static_cast<size_t>(options.picks)) {
    return Status::InvalidArgument("more picks than " + Number(options.picks), "picks");
  }
  if (!batch.wants.empty() && batch.wants.size() != batch.picks.size()) {
    return Status::InvalidArgument("one want is needed for each pick", "wants");
  }
  int64_t before = -1;
  for (const int32_t row : batch.picks) {
    if (row <= before || static_cast<size_t>(row) >= batch.ids.size()) {
      return Status::InvalidArgument("picks are not ascending rows of the step", "picks");
    }
    before = row;
  }
  return Status::Ok();
}

Status CpuStepRun::Run(const StepBatch& batch) {
  PENSTOCK_RETURN_IF_ERROR(Check(batch));
  const WaitingLock lock(&device_->mutex);
  shared_.Begin(batch);
  device_->pool.Gang([this](size_t thread) { workers_[thread]->Run(); });
  return Status::Ok();
}

std::vector<StageTime> CpuStepRun::TakeProfile() {
  std::vector<StageTime> all;
  for (const char* name : kStepStageNames) all.push_back({name, 0});
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

#include "generate/decode_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "generate/decode_scheduler_impl.h"
#include "kv/cache_pools.h"
#include "log/exception_status.h"

namespace penstock::generate {
namespace {

// Tokens to come of a text without a limit, for the bound of waiting work.
constexpr int64_t kExpectedTokens = 512;

// Of the first group's blocks, the part of which as many are there in each other group for texts
// that may go on: texts of eight windows each keep all theirs.
constexpr int32_t kKeptPart = 8;

// What the options leave open is chosen.
std::vector<int32_t> CompleteBlocks(std::span<const int32_t> given,
                                    std::span<const CacheGroup> groups, int32_t context,
                                    int32_t sequences) {
  const std::vector<int32_t> least = LeastCacheBlocks(groups, context);
  const int32_t full = std::max(given.empty() ? 0 : given[0], least[0]);
  std::vector<int32_t> blocks = ChooseCacheBlocks(groups, context, full, sequences);
  for (size_t g = 1; g < groups.size(); ++g) {
    if (g < given.size() && given[g] > 0) blocks[g] = given[g];
    blocks[g] = std::max(blocks[g], least[g]);
  }
  return blocks;
}

// Of a job without text.
Status CheckPrompt(size_t prompt, int32_t context) {
  if (prompt == 0) return Status::InvalidArgument("the prompt has no token", "prompt");
  if (prompt <= static_cast<size_t>(context)) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("the prompt has {} tokens; the context holds {}", prompt, context), "prompt");
}

Status CheckJob(const DecodeJob& job, const TextModel& model) {
  if (job.samples < 1 || job.samples > DecodeJob::kSamplesMax) {
    return Status::InvalidArgument(
        fmt::format("n must be from 1 to {}, is {}", DecodeJob::kSamplesMax, job.samples), "n");
  }
  PENSTOCK_RETURN_IF_ERROR(job.prompt_only
                               ? CheckPrompt(job.prompt.size(), model.context())
                               : CheckLengths(job.prompt.size(), job.sampling, model.context()));
  PENSTOCK_RETURN_IF_ERROR(TextStream::Check(model, job.sampling));
  const auto vocabulary = static_cast<int32_t>(VocabularyOf(model));
  for (const int32_t id : job.prompt) {
    if (id < 0 || id >= vocabulary) {
      return Status::InvalidArgument(
          fmt::format("token {} is not in the vocabulary of {} tokens", id, vocabulary), "prompt");
    }
  }
  return Status::Ok();
}

sched::Admission::Amount AmountOf(const DecodeJob& job) {
  if (job.prompt_only) return {static_cast<int64_t>(job.prompt.size()), 1};
  const int64_t more =
      std::min<int64_t>(job.sampling.max_tokens.value_or(kExpectedTokens), kExpectedTokens);
  return {static_cast<int64_t>(job.prompt.size()) + more * job.samples, job.samples};
}

}  // namespace

std::vector<int32_t> LeastCacheBlocks(std::span<const CacheGroup> groups, int32_t context) {
  return kv::BlocksOfOneText(groups, context, DecodeScheduler::kPromptRows);
}

std::vector<int32_t> ChooseCacheBlocks(std::span<const CacheGroup> groups, int32_t context,
                                       int32_t full, int32_t sequences) {
  std::vector<int32_t> blocks = LeastCacheBlocks(groups, context);
  blocks[0] = full;
  for (size_t g = 1; g < groups.size(); ++g) {
    const int64_t others = (sequences - 1) * kv::NewGroupPolicy(groups[g])->MostHeld(full, 1);
    blocks[g] =
        static_cast<int32_t>(std::min<int64_t>(full, blocks[g] + others + full / kKeptPart));
  }
  return blocks;
}

Expected<std::unique_ptr<DecodeScheduler>> DecodeScheduler::Make(
    const TextModel* model, const DecodeSchedulerOptions& options, metrics::Metrics* metrics,
    std::unique_ptr<program::ProgramRun> run) {
  const std::vector<CacheGroup> groups =
      run == nullptr ? program::CacheGroups(model->decoder->program())
                     : std::vector<CacheGroup>(run->groups().begin(), run->groups().end());
  DecodeSchedulerOptions made = options;
  // A state cannot be taken back to where a guess was wrong.
  made.speculation = options.speculation && std::ranges::none_of(groups, [](const auto& group) {
                       return group.kind == CacheKind::kState;
                     });
  made.cache_blocks =
      CompleteBlocks(options.cache_blocks, groups, model->context(), options.sequences_max);
  if (run == nullptr) {
    program::PrepareOptions step;
    step.cache_type = model->cache_type;
    step.blocks = made.cache_blocks;
    step.picks = options.sequences_max + std::min(kScoredRows, model->context()) +
                 (made.speculation ? kDraftRows : 0);
    step.rows = std::min(kPromptRows, model->context()) + options.sequences_max;
    step.ahead = true;
    PENSTOCK_ASSIGN_OR_RETURN(run, model->decoder->NewRun(step));
    if (!made.cost.known()) {
      PENSTOCK_ASSIGN_OR_RETURN(made.cost,
                                MeasureStepCost(run.get(), model->context(), options.gate));
    }
  }
  auto impl = std::make_unique<Impl>(model, made, metrics, std::move(run));
  impl->Start();
  return std::unique_ptr<DecodeScheduler>(new DecodeScheduler(std::move(impl)));
}

DecodeScheduler::DecodeScheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DecodeScheduler::~DecodeScheduler() { Stop(); }

Status DecodeScheduler::Submit(std::unique_ptr<DecodeJob> job) {
  try {
    PENSTOCK_RETURN_IF_ERROR(CheckJob(*job, *impl_->model));
    return impl_->Take(std::move(job), AmountOf);
  } catch (...) {
    return ExceptionStatus();
  }
}

void DecodeScheduler::CountRefused(Priority priority) {
  impl_->metrics.classes[static_cast<size_t>(priority)].demand.AskAverage();
}

bool DecodeScheduler::Step() { return impl_->StepOnce(); }

void DecodeScheduler::Stop() { impl_->Stop(); }

int32_t DecodeScheduler::context() const { return impl_->model->context(); }

DecodeStats DecodeScheduler::stats() const {
  DecodeStats stats;
  stats.running = static_cast<int32_t>(impl_->series.running.value());
  stats.waiting = static_cast<int32_t>(impl_->series.waiting.value());
  const kv::CachePools& pools = impl_->pools;
  stats.groups.resize(pools.size());
  for (size_t g = 0; g < pools.size(); ++g) {
    const kv::BlockCounts counts = pools[g].counts();
    stats.groups[g] = {pools.group(g).kind, counts.blocks, counts.in_use, counts.idle,
                       impl_->run->block_bytes(g)};
  }
  return stats;
}

uint64_t DecodeScheduler::HeldBytes() const {
  return impl_->run->HeldBytes() + impl_->run->CommittedBytes();
}

void DecodeScheduler::ReleaseMemory() { impl_->ReleaseSoon(); }

}  // namespace penstock::generate

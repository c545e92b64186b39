#include "generate/decode_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/exception_status.h"
#include "generate/decode_scheduler_impl.h"

namespace penstock {
namespace {

// Tokens to come of a text without a limit, for the bound of waiting work.
constexpr int64_t kExpectedTokens = 512;

// Of the cache's blocks, the part of which as many are there for windows of texts that may go on:
// texts of eight windows each keep all theirs.
constexpr int32_t kWindowsKeptPart = 8;

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

Admission::Amount AmountOf(const DecodeJob& job) {
  if (job.prompt_only) return {static_cast<int64_t>(job.prompt.size()), 1};
  const int64_t more =
      std::min<int64_t>(job.sampling.max_tokens.value_or(kExpectedTokens), kExpectedTokens);
  return {static_cast<int64_t>(job.prompt.size()) + more * job.samples, job.samples};
}

}  // namespace

int32_t LeastWindowBlocks(const TextModel& model) {
  const int32_t window = CacheWindow(model.decoder->program());
  if (window == 0) return 0;
  const int64_t context = CeilDiv(int64_t{model.context()}, int64_t{kKvBlockTokens});
  const int64_t one = WindowBlocksOf(window, DecodeScheduler::kPromptRows);
  return static_cast<int32_t>(std::min(context, one));
}

int32_t ChooseWindowBlocks(const TextModel& model, int32_t cache_blocks, int32_t sequences) {
  const int32_t window = CacheWindow(model.decoder->program());
  if (window == 0) return 0;
  const int64_t running = LeastWindowBlocks(model) + (sequences - 1) * WindowBlocksOf(window, 1);
  return static_cast<int32_t>(
      std::min<int64_t>(cache_blocks, running + cache_blocks / kWindowsKeptPart));
}

Expected<std::unique_ptr<DecodeScheduler>> DecodeScheduler::Make(
    const TextModel* model, const DecodeSchedulerOptions& options, Metrics* metrics,
    std::unique_ptr<StepRun> run) {
  const auto context_blocks =
      static_cast<int32_t>(CeilDiv(static_cast<size_t>(model->context()), size_t{kKvBlockTokens}));
  DecodeSchedulerOptions made = options;
  made.cache_blocks = std::max(options.cache_blocks, context_blocks);
  if (options.window_blocks == 0) {
    made.window_blocks = ChooseWindowBlocks(*model, made.cache_blocks, options.sequences_max);
  }
  made.window_blocks = std::max(made.window_blocks, LeastWindowBlocks(*model));
  if (run == nullptr) {
    StepOptions step;
    step.cache_type = model->cache_type;
    step.blocks = made.cache_blocks;
    step.window_blocks = made.window_blocks;
    step.picks = options.sequences_max + std::min(kScoredRows, model->context());
    step.rows = std::min(kPromptRows, model->context()) + options.sequences_max;
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
  const BlockCounts counts = impl_->pool.counts();
  stats.blocks = counts.blocks;
  stats.blocks_used = counts.in_use;
  stats.blocks_cached = counts.idle;
  stats.block_bytes = impl_->run->block_bytes(KvArea::kFull);
  if (!impl_->window_pool) return stats;
  const BlockCounts windows = impl_->window_pool->counts();
  stats.window_blocks = windows.blocks;
  stats.window_blocks_used = windows.in_use;
  stats.window_blocks_cached = windows.idle;
  stats.window_block_bytes = impl_->run->block_bytes(KvArea::kWindow);
  return stats;
}

DecodeTotals DecodeScheduler::totals() const { return impl_->series.Read(); }

uint64_t DecodeScheduler::HeldBytes() const {
  return impl_->run->HeldBytes() + impl_->run->CommittedBytes();
}

void DecodeScheduler::ReleaseMemory() { impl_->ReleaseSoon(); }

}  // namespace penstock

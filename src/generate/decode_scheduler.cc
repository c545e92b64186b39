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

Status CheckJob(const DecodeJob& job, const TextModel& model) {
  if (job.samples < 1 || job.samples > DecodeJob::kSamplesMax) {
    return Status::InvalidArgument(
        fmt::format("n must be from 1 to {}, is {}", DecodeJob::kSamplesMax, job.samples), "n");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckLengths(job.prompt.size(), job.sampling, model.context()));
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
  const int64_t more =
      std::min<int64_t>(job.sampling.max_tokens.value_or(kExpectedTokens), kExpectedTokens);
  return {static_cast<int64_t>(job.prompt.size()) + more * job.samples, job.samples};
}

}  // namespace

Expected<std::unique_ptr<DecodeScheduler>> DecodeScheduler::Make(
    const TextModel* model, const DecodeSchedulerOptions& options, Metrics* metrics,
    std::unique_ptr<StepRun> run) {
  const auto context_blocks =
      static_cast<int32_t>(CeilDiv(static_cast<size_t>(model->context()), size_t{kKvBlockTokens}));
  DecodeSchedulerOptions made = options;
  made.cache_blocks = std::max(options.cache_blocks, context_blocks);
  if (run == nullptr) {
    StepOptions step;
    step.cache_type = model->cache_type;
    step.blocks = made.cache_blocks;
    step.logit_rows = options.sequences_max;
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

bool DecodeScheduler::Step() { return impl_->StepOnce(); }

void DecodeScheduler::Stop() { impl_->Stop(); }

int32_t DecodeScheduler::context() const { return impl_->model->context(); }

DecodeStats DecodeScheduler::stats() const {
  const BlockCounts counts = impl_->pool.counts();
  return {static_cast<int32_t>(impl_->series.running.value()),
          static_cast<int32_t>(impl_->series.waiting.value()),
          counts.blocks,
          counts.in_use,
          counts.idle,
          impl_->run->block_bytes()};
}

DecodeTotals DecodeScheduler::totals() const { return impl_->series.Read(); }

uint64_t DecodeScheduler::HeldBytes() const {
  return impl_->run->HeldBytes() + impl_->run->CommittedBytes();
}

void DecodeScheduler::ReleaseMemory() { impl_->ReleaseSoon(); }

}  // namespace penstock

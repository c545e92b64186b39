// A sequence of the decode scheduler: one sample of one job, with its tokens and its cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/request_context.h"
#include "generate/decode_job.h"
#include "generate/text_stream.h"
#include "kv/sequence.h"
#include "sched/admission.h"

namespace penstock {

// A job while the scheduler has it. Of the step thread once it is out of the inbox.
struct TakenJob {
  std::unique_ptr<DecodeJob> job;
  Admission::Amount counted;
  uint64_t number = 0;  // in the order of arrival
  Clock::time_point submitted;
  Clock::time_point started;      // its first step; the epoch: none yet
  Clock::time_point first_token;  // the epoch: none yet
  DecodeUsage usage;
  int32_t open_samples = 0;  // that have not ended
  Priority priority() const { return job->context.priority; }
};

struct DecodeSequence {
  DecodeSequence(std::shared_ptr<TakenJob> owner_in, int32_t sample_in, TextStream stream_in,
                 BlockPool* pool, PrefixCache* prefixes, int32_t context)
      : owner(std::move(owner_in)),
        sample(sample_in),
        stream(std::move(stream_in)),
        cache(pool, prefixes, context),
        ids(owner->job->prompt) {}

  // Tokens whose keys and values are not cached. One: the sequence decodes, or is as good as if it
  // did. More: it has a prompt to run, or was preempted.
  int32_t remaining() const { return static_cast<int32_t>(ids.size()) - cache.length(); }
  bool decodes() const { return remaining() == 1; }
  // The ids of the step that is formed.
  std::span<const int32_t> step_ids() const {
    return std::span(ids).subspan(static_cast<size_t>(cache.length()), static_cast<size_t>(rows));
  }
  // Takes what other texts that began so have left in the cache.
  void TakeCached() {
    const int32_t gained = cache.TakeCached(ids);
    const bool of_prompt = sample == 0 && owner->first_token == Clock::time_point();
    if (of_prompt) owner->usage.cached_tokens += gained;
  }

  const std::shared_ptr<TakenJob> owner;
  const int32_t sample;
  TextStream stream;
  Sequence cache;
  std::vector<int32_t> ids;  // of prompt and text
  // Waits until the first sample has run the prompt, to share its blocks.
  bool follows = false;
  Clock::time_point last_token;  // the epoch: none yet
  int32_t rows = 0;              // in the step being formed
  int32_t logit_row = -1;        // in it; -1: none
};

}  // namespace penstock

// DecodeScheduler: generates text for many requests at once with one model.
//
//   Submit, any thread   the job goes to the inbox
//   step thread          takes the inbox; forms a step: a row for each sequence that decodes, then
//                        chunks of prompts under a time budget; takes a turn at the processor
//                        (gate/compute_gate.h); runs it; samples; hands tokens to sinks
//
// The step thread owns all sequences, the pool of cache blocks and the prefix cache, so nothing
// between two tokens takes a lock that another thread holds for long.
//
// Order
//   step      Every sequence that decodes has a row in every step, so each stream keeps its pace.
//   prompts   Beside them prompts may take until the step lasts max(2 x a step without them,
//             kChunkS), by costs fitted when the engine was loaded. The shortest remaining prompt
//             goes first; a prompt's rank improves with the time it has waited, so a long one ends
//             too. Without sequences that decode, a chunk has up to kPromptRows tokens. Of several
//             clients, the one whose prompt is through soonest goes first, counted from the seconds
//             of the processor it had.
//   clients   Among the texts that wait, clients (RequestContext::client) have even shares of the
//             processor's seconds (sched/fair_share.h): a text is charged with its part of each
//             step's time, by rows. Where all places or blocks are taken, an interactive text of a
//             client that has fewer texts takes those of the newest text of the client that has
//             most, which goes on later.
//   classes   Interactive before bulk: bulk texts begin when no interactive one waits, and where
//             they leave a quarter of the places and of the cache's blocks. Bulk ages: of nine
//             texts that begin while both wait one is bulk. If that one does not fit, what is given
//             back is kept for it; interactive texts begin beside it where they leave enough, and
//             give way when nothing else runs. So it waits for the texts that ran before. The gate
//             ages bulk work over all engines.
//   drafts    A text that repeats itself or its prompt has rows for tokens that are guessed
//             (generate/ngram_draft.h), where the chance that they come true pays for them. Tokens
//             are chosen row after row as ever, and rows behind the first guess that was wrong are
//             thrown away; so a text is the same with and without them.
//   samples   of one prompt wait until the first has run it, and take no place before.
//   memory    Blocks of the cache are taken as sequences grow. Where none is left, the newest bulk
//             sequence gives its blocks back, and without bulk the newest of all; it is recomputed
//             later, to the same bits. So does bulk, but what has aged, where an interactive text
//             that is to begin does not fit. A text's own memory is taken from its request's
//             (RequestContext::memory) when it begins; if there is none it waits while others run.
// Text does not depend on any of this: a token's bits are the same in any step
// (program/program_run.h).
//
// A job whose client has left, or whose deadline has passed, ends within a step, and its blocks are
// free then; one that waits, when it is looked at, every 20 ms where few wait and within a second
// or some steps where many do. A step's cost does not grow with the number that wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/kv_block.h"
#include "base/status.h"
#include "gate/compute_gate.h"
#include "generate/decode_job.h"
#include "generate/decode_metrics.h"
#include "generate/step_cost.h"
#include "generate/text_model.h"
#include "metrics/metrics.h"
#include "threads/request_context.h"

namespace penstock::generate {

struct DecodeSchedulerOptions {
  // Sequences that may be in a step at once.
  int32_t sequences_max = 64;
  // Of all jobs that wait or run: tokens of prompts and, as estimated, to come; three quarters of
  // it bulk.
  int64_t max_queued_tokens = 1 << 20;
  int64_t max_queued_rows = 1 << 17;  // samples of these jobs
  // Blocks of each group of the cache (CacheGroups), of kKvBlockTokens tokens each; at least those
  // of one text of the whole context. None or 0 for a later group: see ChooseCacheBlocks.
  std::vector<int32_t> cache_blocks = {};
  bool prefix_cache = true;
  bool speculation = true;  // drafts, where the model has no recurrent layers
  // After so long idle, pages of the cache that hold no prefix are given back; 0: never.
  double idle_release_s = 60;
  StepCost cost;                      // fitted; empty: a fixed number of prompt tokens a step
  gate::ComputeGate* gate = nullptr;  // null: one of its own
  // For tests: another clock; no thread, Step() does the work.
  std::function<Clock::time_point()> now;
  bool manual = false;
  std::string model;  // value of the `model` label of the metrics
};

// Blocks of a group of a cache.
struct CacheGroupStats {
  CacheKind kind = CacheKind::kFull;
  int64_t blocks = 0;
  int64_t used = 0;    // by sequences
  int64_t cached = 0;  // with a known prefix, and no sequence holds them
  uint64_t block_bytes = 0;
};

struct DecodeStats {
  int32_t running = 0;  // sequences, as waiting
  int32_t waiting = 0;
  std::vector<CacheGroupStats> groups = std::vector<CacheGroupStats>(1);  // the first one is full

  // Of `count` blocks of each group.
  uint64_t BytesOf(int64_t CacheGroupStats::*count) const {
    uint64_t bytes = 0;
    for (const CacheGroupStats& one : groups) {
      bytes += static_cast<uint64_t>(one.*count) * one.block_bytes;
    }
    return bytes;
  }
};

// Blocks of each group beside `full` of the first: what `sequences` long texts hold at once, one of
// them at its prompt, and some for what texts that may go on need.
std::vector<int32_t> ChooseCacheBlocks(std::span<const CacheGroup> groups, int32_t context,
                                       int32_t full, int32_t sequences);
// The fewest of each group: of one text of the whole context.
std::vector<int32_t> LeastCacheBlocks(std::span<const CacheGroup> groups, int32_t context);

class DecodeScheduler {
 public:
  // Tokens of prompts that are run in one step.
  static constexpr int32_t kPromptRows = 512;
  // Of these, those that are scored: each has a row of logits as large as the vocabulary.
  static constexpr int32_t kScoredRows = 32;
  // Rows of guessed tokens in one step.
  static constexpr int32_t kDraftRows = 16;

  // `model` and `metrics` must outlive it. kResourceExhausted: no memory for cache or activations.
  // `run`: null but in tests and simulations.
  static Expected<std::unique_ptr<DecodeScheduler>> Make(
      const TextModel* model, const DecodeSchedulerOptions& options, metrics::Metrics* metrics,
      std::unique_ptr<program::ProgramRun> run = nullptr);
  ~DecodeScheduler();  // Stop()

  // OK: the job is taken, and its sink gets OnEnd once. Else the sink is never called:
  //   kInvalidArgument    prompt (empty, or not shorter than the context: both numbers), n, or a
  //                       setting of sampling; max_tokens that do not fit beside the prompt
  //   kResourceExhausted  too much work waits; retry_after_s from the rate at which it drains
  //   kPayloadTooLarge    the job alone is over the bound, or one of its texts over its memory's
  //   kUnavailable        Stop() was called
  Status Submit(std::unique_ptr<DecodeJob> job);

  // Counts a request for this model that was refused before its text was read.
  void CountRefused(Priority priority);

  // Manual mode: forms and runs one step on this thread. False: there is nothing to do.
  bool Step();

  // Refuses new jobs, finishes those taken and joins the step thread. May be called twice, but not
  // by a sink.
  void Stop();

  int32_t context() const;
  DecodeStats stats() const;
  uint64_t HeldBytes() const;
  // Has the step thread give back, when it is idle, pages of the cache and the prefixes in them.
  void ReleaseMemory();

 private:
  struct Impl;
  explicit DecodeScheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::generate

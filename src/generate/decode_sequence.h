// A sequence of the decode scheduler: one sample of one job, with its tokens and its cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "generate/decode_job.h"
#include "generate/ngram_draft.h"
#include "generate/text_stream.h"
#include "kv/sequence.h"
#include "sched/admission.h"
#include "sched/fair_share.h"
#include "threads/byte_budget.h"
#include "threads/request_context.h"

namespace penstock::generate {

// A job while the scheduler has it. Of the step thread once it is out of the inbox.
struct TakenJob : std::enable_shared_from_this<TakenJob> {
  std::unique_ptr<DecodeJob> job;
  sched::Admission::Amount counted;
  uint64_t number = 0;  // in the order of arrival
  Clock::time_point submitted;
  Clock::time_point started;      // its first step; the epoch: none yet
  Clock::time_point first_token;  // the epoch: none yet
  DecodeUsage usage;
  int32_t texts = 1;         // samples, or one that only has the prompt
  int32_t texts_begun = 0;   // of these; the others wait
  int32_t open_samples = 0;  // that have not ended
  bool prompt_run = false;   // by the first sample: the others may begin
  bool ended = false;
  // Where it waits (generate/waiting_texts.h).
  sched::FairShare::Place place;
  bool in_line = false;
  Priority priority() const { return job->context.priority; }
  // Of the cache: clients that share nothing have other salts, and texts that are rotated unlike
  // share no keys (CachedSequence::long_rope).
  uint64_t Salt(bool long_rope) const { return job->context.cache_salt + (long_rope ? 1 : 0); }
  std::span<const int32_t> prompt() const { return job->prompt; }
};

// A text from when it begins: its memory was taken before.
struct DecodeSequence {
  DecodeSequence(std::shared_ptr<TakenJob> owner_in, int32_t sample_in, TextStream stream_in,
                 kv::CachePools* pools, kv::PrefixCache* prefixes, int32_t context,
                 std::unique_ptr<ScopedMemory> memory_in = nullptr)
      : owner(std::move(owner_in)),
        sample(sample_in),
        memory(std::move(memory_in)),
        stream(std::move(stream_in)),
        cache(pools, prefixes, context, owner->Salt(false)) {}

  // Once the text is as long as `run` rotates otherwise: what is cached is given back, to be
  // computed again. Before the sequence's first step, and after each token.
  void FollowRope(const program::ProgramRun& run) {
    if (long_rope || !run.LongRope(static_cast<size_t>(tokens()))) return;
    cache.Release();
    cache.SetSalt(owner->Salt(true));
    long_rope = true;
  }

  int32_t tokens() const { return static_cast<int32_t>(owner->prompt().size() + text.size()); }
  int32_t id(int32_t at) const {
    const auto prompt = owner->prompt();
    const auto i = static_cast<size_t>(at);
    return i < prompt.size() ? prompt[i] : text[i - prompt.size()];
  }
  // Ids of prompt and text; *joined is used where they are of both.
  std::span<const int32_t> Ids(int32_t from, int32_t count, std::vector<int32_t>* joined) const {
    const auto prompt = owner->prompt();
    const auto begin = static_cast<size_t>(from), end = begin + static_cast<size_t>(count);
    if (end <= prompt.size()) return prompt.subspan(begin, end - begin);
    if (begin >= prompt.size()) return std::span(text).subspan(begin - prompt.size(), end - begin);
    joined->assign(prompt.begin() + from, prompt.end());
    joined->insert(joined->end(), text.begin(),
                   text.begin() + static_cast<ptrdiff_t>(end - prompt.size()));
    return *joined;
  }
  // Tokens whose keys and values are not cached. One: the sequence decodes, or is as good as if it
  // did. More: it has a prompt to run, or was preempted.
  int32_t remaining() const { return tokens() - cache.length(); }
  bool decodes() const { return remaining() == 1; }
  // The part of them that a step may have: the last one waits for the grammar of what follows.
  int32_t rows_left() const { return remaining() - (awaits_grammar ? 1 : 0); }
  // The ids of the step that is formed, guessed ones last.
  std::span<const int32_t> StepIds(std::vector<int32_t>* joined) const {
    if (drafts.empty()) return Ids(cache.length(), rows, joined);
    joined->assign(1, id(tokens() - 1));
    joined->insert(joined->end(), drafts.begin(), drafts.end());
    return *joined;
  }
  // Whether tokens of the prompt have yet to be scored. A row's logits score the token after it.
  bool scores() const {
    return sample == 0 && owner->job->scores_prompt && scored < prompt_tokens();
  }
  int32_t prompt_tokens() const { return owner->usage.prompt_tokens; }
  // The first position whose logits score; its row and those after it are never taken from the
  // cache.
  int32_t score_from() const { return std::max(scored, 1) - 1; }
  // Of the next `count` rows, those that score.
  int32_t ScoredRows(int32_t count) const {
    if (!scores()) return 0;
    return std::max(0, std::min(cache.length() + count, prompt_tokens() - 1) - score_from());
  }
  // The most rows next of which `count` at most score.
  int32_t RowsWithScores(int32_t count) const {
    if (ScoredRows(remaining()) <= count) return remaining();
    return score_from() - cache.length() + count;
  }
  // Takes what other texts that began so have left in the cache.
  void TakeCached(std::vector<int32_t>* joined) {
    cache.TakeCached(Ids(0, scores() ? score_from() + 1 : tokens(), joined));
  }
  // The rows of the step that is formed are run. What they follow and was never run before, nor
  // counted, was found in the cache: a sequence that is tried in vain, or computed again after it
  // gave its blocks back, counts nothing twice.
  void CountCached() {
    if (sample != 0 || owner->first_token != Clock::time_point()) return;
    owner->usage.cached_tokens += std::max(0, cache.length() - prompt_done);
    prompt_done = std::max(prompt_done, cache.length() + rows);
  }

  const std::shared_ptr<TakenJob> owner;
  const int32_t sample;
  const std::unique_ptr<ScopedMemory> memory;  // null: not counted
  int32_t tokens_max = 0;                      // of prompt and text
  TextStream stream;
  kv::Sequence cache;
  std::vector<int32_t> text;  // ids
  std::optional<NgramDraft> ngrams;
  std::vector<int32_t> drafts;    // guessed ids, in the step being formed
  bool long_rope = false;         // of each of its steps
  bool awaits_grammar = false;    // GrammarUse::pending, which was not ready when it began
  sched::FairShare::Place place;  // where it waits, if it gave its blocks back
  double turn_s = 0;              // of its prompt, while a step is formed: the lower, the sooner
  bool aged = false;              // a bulk text that began while interactive ones waited for it
  bool beside = false;            // it began in room that a bulk text does not need, which waits
  Clock::time_point last_token;   // the epoch: none yet
  int32_t rows = 0;               // in the step being formed
  int32_t logit_row = -1;         // in it; -1: none
  int32_t ahead_row = -1;         // in the step that was started ahead; -1: none
  int32_t score_row = -1;   // in it, the first logit row that scores; -1: the prompt is scored
  int32_t scored = 0;       // tokens of the prompt, the first included, that were given out
  int32_t prompt_done = 0;  // tokens of the prompt that were found in the cache or run, ever
};

// Before those that came later, and before later samples.
inline void InsertByArrival(std::unique_ptr<DecodeSequence> sequence,
                            std::vector<std::unique_ptr<DecodeSequence>>* to) {
  const auto before = [&](const DecodeSequence& other) {
    return sequence->owner->number != other.owner->number
               ? sequence->owner->number < other.owner->number
               : sequence->sample < other.sample;
  };
  auto at = to->end();
  while (at != to->begin() && before(**std::prev(at))) --at;
  to->insert(at, std::move(sequence));
}

}  // namespace penstock::generate

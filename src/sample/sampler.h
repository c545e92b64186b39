// The choice of the next token of one sequence. Steps, in this order:
//
//   1. penalties     repetition (prompt and generated text, in its window), then frequency and
//                    presence (generated text)
//   2. bias          logit_bias is added; ends among the first min_tokens get the least logit;
//                    tokens that a grammar does not allow are left out
//   3. temperature   logits are divided by it; greedy takes the largest and skips what follows
//   4. top-k         the k largest
//   5. top-p         the fewest whose share of what top-k kept reaches top_p
//   6. min-p         those at least min_p times as probable as the first
//   7. draw          by their probabilities
//
// Steps 4 to 7 in this order are those of transformers. Equal logits are ordered by id, the lower
// first, in every step; so top-k keeps k even where others are as large as the last of them. Steps
// 1 and 2 work on floats, held within kLogitMax.
//
// The draw at a position depends on logits, settings, seed, position and the tokens before, and on
// nothing else: neither on other sequences, nor on the threads that made the logits, nor on whether
// the whole row or candidates were given.
//
// Log-probabilities are the model's own, of the logits before step 1, at temperature 1: what OpenAI
// documents and vLLM ("raw_logprobs") and llama.cpp (n_probs without post_sampling_probs) give by
// default. So a token may have been drawn that is not among the most probable, and vice versa.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "sample/draw_best.h"
#include "sample/logit_scan.h"
#include "sample/row_draw.h"
#include "sample/sampling_options.h"
#include "sample/token_counts.h"

namespace penstock::sample {

// The logits of one position. All that is given must be of the same logits.
struct Logits {
  // One for each token of the vocabulary; empty: not kept.
  std::span<const float> row;
  // What scans of all parts of the vocabulary found; empty: not scanned.
  std::span<const LogitPart> parts;
  // With `parts`, for log-probabilities: LogitBlocks(vocabulary) sums; else empty.
  std::span<const LogitBlock> blocks;
  // A bit for each token, bit id % 32 of word id / 32: whether it may be chosen; at least one may.
  // Empty: all may. Log-probabilities are as without it.
  std::span<const uint32_t> allowed;
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  // natural logarithm
};

struct SampledToken {
  int32_t id = -1;
  float logprob = 0;  // where options.logprobs
  std::span<const TokenLogprob>
      top;  // the most probable, in order; valid until the scratch's next Sample
};

// Whether the row is needed beside its candidates. kCandidatesMax of each part are enough for
// kNever.
enum class RowNeed {
  kNever,
  kPerhaps,  // a penalty or bias may bring up a token that is not a candidate
  kAlways,   // more than kCandidatesMax tokens may be kept, or a setting raises logits
};

// kInternal: the logit of that token is NaN, infinite or beyond kLogitMax.
Status BadLogit(int32_t id);

// What the choice of a token works with and needs no longer: the row after penalties, candidates,
// sums of blocks. Samplers of one vocabulary that one thread uses in turns can share it.
class SamplerScratch {
 private:
  friend class Sampler;
  void Reserve(size_t vocabulary, size_t parts_max);

  std::vector<float> adjusted_;
  LogitScan scan_;
  RowDraw row_draw_;
  std::vector<LogitBlock> blocks_;
  std::vector<Candidate> raw_;     // candidates of all parts
  std::vector<Candidate> merged_;  // the same after penalties and bias
  std::vector<TokenLogprob> top_;
};

// Not thread-safe. After Make, and up to `tokens_max` tokens and `parts_max` parts, nothing is
// allocated unless a call fails.
class Sampler {
 public:
  // `tokens_max`: of prompt and generated text together. `ends`: what is not chosen among the first
  // options.min_tokens, unless there is nothing else. `scratch`: null: one of its own.
  // kInvalidArgument as SamplingOptions::Check; also for a vocabulary below 1.
  static Expected<Sampler> Make(const SamplingOptions& options, int32_t vocabulary,
                                size_t tokens_max, size_t parts_max = 16,
                                std::span<const int32_t> ends = {},
                                std::shared_ptr<SamplerScratch> scratch = nullptr);
  // The most bytes that one allocates, beside its scratch.
  static int64_t HeapBytes(const SamplingOptions& options, int32_t vocabulary, size_t tokens_max);

  RowNeed row_need() const { return row_need_; }
  // Whether Logits::blocks is wanted with Logits::parts.
  bool wants_sums() const { return options_.logprobs; }
  uint64_t seed() const { return seed_; }
  // How Sample draws at `position`, where the kCandidatesMax best logits tell it without penalties
  // and without `allowed`; empty: they may not.
  std::optional<DrawRule> RuleAt(uint64_t position) const;

  // Chooses the token at `position`, which the caller counts as it likes as long as each position
  // has a number of its own. Changes no state: what was chosen enters the counts by Accept.
  // Candidates are used where they prove enough, else the row. kInternal: a logit is NaN, infinite
  // or beyond kLogitMax (the message names the token); the row is needed and not there, or has not
  // the vocabulary's size.
  Status Sample(const Logits& logits, uint64_t position, SampledToken* out);

  // Tokens that penalties and min_tokens count; ids are those of the vocabulary.
  void AddPrompt(std::span<const int32_t> ids);
  void Accept(int32_t id);

 private:
  Sampler(const SamplingOptions& options, int32_t vocabulary, size_t tokens_max, size_t parts_max,
          std::vector<int32_t> held, std::shared_ptr<SamplerScratch> scratch);

  bool small() const { return options_.greedy() || top_k_ > 0; }
  bool holds() const { return generated_ < options_.min_tokens && !held_.empty(); }
  bool adjusts(const Logits& logits) const {
    return adjusts_ || holds() || !logits.allowed.empty();
  }
  float Penalized(float logit, const TokenCounts::Entry& entry) const;
  float Adjusted(const Candidate& candidate, bool holds_ends) const;
  void AdjustRow(const Logits& logits);
  // Whether ends are held back: not where a grammar allows nothing else.
  bool HoldsEnds(std::span<const uint32_t> allowed) const;
  Status FromRow(const Logits& logits, double uniform, SampledToken* out);
  // False: the candidates do not tell.
  bool FromParts(const Logits& logits, double uniform, SampledToken* out);
  // The draw from the best of small().
  DrawRule RuleWith(double uniform) const;
  int32_t DrawFrom(std::span<const Candidate> best, double uniform) const;
  void SetTop(std::span<const Candidate> best, double log_sum, SampledToken* out);

  SamplingOptions options_;
  std::vector<LogitBias> biases_;  // ascending ids
  std::vector<int32_t> held_;      // ends that min_tokens holds back, ascending
  int64_t generated_ = 0;
  size_t vocabulary_;
  size_t top_k_;  // 1 to kCandidatesMax, else 0
  uint64_t seed_;
  RowNeed row_need_;
  bool adjusts_;
  RowFilter filter_;

  TokenCounts counts_;
  std::shared_ptr<SamplerScratch> scratch_;
};

}  // namespace penstock::sample

// How far a decoder's distributions of the next token are from those of the same weights in f32.
// Plain arithmetic in double precision; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::checks {

// The distribution of one row of logits, over the whole vocabulary. An id of logit -inf has
// probability 0; where a logit is NaN or +inf, or all are -inf, every log-probability is NaN.
class TokenDistribution {
 public:
  // Not empty.
  void Set(std::span<const float> logits);

  std::span<const double> logprobs() const { return logprobs_; }  // [vocabulary]
  size_t best() const { return best_; }  // the most probable id, of equal ones the first

 private:
  std::vector<double> logprobs_;
  size_t best_ = 0;
};

// Of `wanted` from `other`, in nats: the sum of p (ln p - ln q). Infinite where `other` excludes
// what `wanted` does not; NaN where one of them is. The sizes are equal.
double KlDivergence(const TokenDistribution& wanted, const TokenDistribution& other);

// The mean KL divergence from f32 up to which a type is advisable.
inline constexpr double kKlMeanMax = 2e-3;

struct NextTokenAccuracy {
  size_t tokens = 0;
  double kl_mean = 0;
  double kl_max = 0;
  double agreement_percent = 0;  // tokens with the same most probable next one
  double perplexity_f32 = 0;
  double perplexity = 0;

  double perplexity_difference_percent() const { return 100 * (perplexity / perplexity_f32 - 1); }
  bool finite() const;
  // "mean KL 0.0031 (limit 0.002)"; "" = within the limit, which NaN never is.
  std::string Beyond(double limit) const;
};

// Sums over the tokens of texts.
class NextTokenComparison {
 public:
  // After the same text; `next` is the id that follows there.
  void Add(const TokenDistribution& f32, const TokenDistribution& other, int32_t next);
  // At least one Add before.
  NextTokenAccuracy Result() const;

 private:
  size_t tokens_ = 0, same_best_ = 0;
  double kl_sum_ = 0, kl_max_ = 0;
  double logprob_f32_ = 0, logprob_ = 0;  // of the ids that follow
};

}  // namespace penstock::checks

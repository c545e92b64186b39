#include "checks/next_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::checks {

void TokenDistribution::Set(std::span<const float> logits) {
  best_ = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const double most = logits[best_];
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x} - most);
  // Not finite where `most` is not, or where a logit is NaN.
  const double log_sum = most + std::log(sum);
  logprobs_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) logprobs_[i] = double{logits[i]} - log_sum;
}

double KlDivergence(const TokenDistribution& wanted, const TokenDistribution& other) {
  const std::span<const double> p = wanted.logprobs(), q = other.logprobs();
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double probability = std::exp(p[i]);
    // NaN is not 0. What `wanted` excludes counts only if it makes the other's sum NaN.
    if (probability != 0 || std::isnan(q[i])) sum += probability * (p[i] - q[i]);
  }
  return sum;
}

bool NextTokenAccuracy::finite() const {
  return std::isfinite(kl_mean) && std::isfinite(kl_max) && std::isfinite(perplexity) &&
         std::isfinite(perplexity_f32);
}

std::string NextTokenAccuracy::Beyond(double limit) const {
  if (kl_mean <= limit) return std::string();
  return fmt::format("mean KL {:.6f} (limit {:g})", kl_mean, limit);
}

void NextTokenComparison::Add(const TokenDistribution& f32, const TokenDistribution& other,
                              int32_t next) {
  const double kl = KlDivergence(f32, other);
  ++tokens_;
  kl_sum_ += kl;
  // The first NaN stays.
  if (!std::isnan(kl_max_) && !(kl <= kl_max_)) kl_max_ = kl;
  same_best_ += f32.best() == other.best() ? 1 : 0;
  logprob_f32_ += f32.logprobs()[static_cast<size_t>(next)];
  logprob_ += other.logprobs()[static_cast<size_t>(next)];
}

NextTokenAccuracy NextTokenComparison::Result() const {
  const auto tokens = static_cast<double>(tokens_);
  NextTokenAccuracy result;
  result.tokens = tokens_;
  result.kl_mean = kl_sum_ / tokens;
  result.kl_max = kl_max_;
  result.agreement_percent = 100 * static_cast<double>(same_best_) / tokens;
  result.perplexity_f32 = std::exp(-logprob_f32_ / tokens);
  result.perplexity = std::exp(-logprob_ / tokens);
  return result;
}

}  // namespace penstock::checks

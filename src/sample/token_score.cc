#include "sample/token_score.h"

#include <algorithm>
#include <string>

namespace penstock::sample {

Status ScoreToken(const Logits& logits, int32_t id, size_t top_count, float* logprob,
                  std::vector<TokenLogprob>* top) {
  if (id < 0 || static_cast<size_t>(id) >= logits.row.size() || logits.blocks.empty()) {
    return Status::Internal("there are no logits of token " + std::to_string(id));
  }
  std::vector<Candidate> best;
  for (const LogitPart& part : logits.parts) {
    if (part.bad_id >= 0) return BadLogit(part.bad_id);
    best.insert(best.end(), part.best.begin(),
                part.best.begin() + static_cast<ptrdiff_t>(std::min(top_count, part.best.size())));
  }
  const double log_sum = LogSumExp(logits.blocks);
  const auto score = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  *logprob = score(logits.row[static_cast<size_t>(id)]);
  const size_t count = std::min(top_count, best.size());
  std::partial_sort(best.begin(), best.begin() + static_cast<ptrdiff_t>(count), best.end(), Before);
  top->clear();
  for (size_t i = 0; i < count; ++i) top->push_back({best[i].id, score(best[i].logit)});
  return Status::Ok();
}

}  // namespace penstock::sample

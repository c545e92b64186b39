#include "sample/finish_check.h"

#include <algorithm>
#include <limits>

namespace penstock::sample {

FinishCheck::FinishCheck(const SamplingOptions& options, std::span<const int32_t> model_ends)
    : ends_(options.stop_token_ids),
      tokens_max_(options.max_tokens ? *options.max_tokens : std::numeric_limits<int64_t>::max()) {
  if (!options.ignore_eos) ends_.insert(ends_.end(), model_ends.begin(), model_ends.end());
  std::sort(ends_.begin(), ends_.end());
}

Finish FinishCheck::After(int32_t id, int64_t generated) const {
  if (std::binary_search(ends_.begin(), ends_.end(), id)) return Finish::kStopToken;
  return IsLength(generated) ? Finish::kLength : Finish::kNone;
}

}  // namespace penstock::sample

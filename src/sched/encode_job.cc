#include "sched/encode_job.h"

namespace penstock::sched {

Status CheckJob(const EncodeJob& job) {
  if (job.lengths.empty()) return Status::InvalidArgument("a job needs at least one sequence");
  size_t total = 0;
  for (const int32_t length : job.lengths) {
    if (length <= 0) return Status::InvalidArgument("a sequence needs at least one token");
    total += static_cast<size_t>(length);
  }
  if (total != job.ids.size() || (!job.type_ids.empty() && job.type_ids.size() != total)) {
    return Status::InvalidArgument("the lengths of a job do not add up to its tokens");
  }
  if (!job.pool_skip.empty() && job.pool_skip.size() != job.lengths.size()) {
    return Status::InvalidArgument("a job needs one pool_skip for each sequence, or none");
  }
  return Status::Ok();
}

}  // namespace penstock::sched

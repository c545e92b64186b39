#include "threads/work.h"

namespace penstock {

bool Work::Stop(Status why) {
  if (status_.ok()) status_ = std::move(why);
  granted_ = slice_ = -1;
  return false;
}

bool Work::Look() {
  if (!status_.ok()) return Stop({});
  if (left_ != kUnlimited) left_ -= granted_ - slice_;
  if (left_ < 0) return Stop({StatusCode::kUnprocessable, "takes too many steps"});
  if (stop_.cancel != nullptr && stop_.cancel->cancelled()) {
    return Stop({StatusCode::kCancelled, "cancelled while a text was tokenized"});
  }
  if (stop_.deadline != Clock::time_point::max() && Clock::now() >= stop_.deadline) {
    return Stop({StatusCode::kDeadlineExceeded, "deadline passed while a text was tokenized"});
  }
  granted_ = slice_ = std::min(left_, kSlice);
  return true;
}

}  // namespace penstock

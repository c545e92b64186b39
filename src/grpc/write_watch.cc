#include "grpc/write_watch.h"

namespace penstock {

void WriteWatch::Begin() {
  const std::lock_guard lock(mutex_);
  writing_ = true;
  begin_ = SystemClock::now();
  // One alarm for many writes: where it rings too soon, it is set again.
  if (!armed_ && !stopped_) Arm(begin_ + timeout_);
}

void WriteWatch::End() {
  const std::lock_guard lock(mutex_);
  writing_ = false;
}

void WriteWatch::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (armed_) alarm_.Cancel();
}

void WriteWatch::Arm(SystemClock::time_point when) {
  armed_ = true;
  // Weak: an alarm keeps its callback as long as it lives itself.
  alarm_.Set(when, [weak = weak_from_this()](bool) {
    if (const auto self = weak.lock()) self->Ring();
  });
}

void WriteWatch::Ring() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
  if (stopped_ || !writing_) return;
  if (SystemClock::now() - begin_ >= timeout_) return late_();
  Arm(begin_ + timeout_);
}

}  // namespace penstock

// The times of an answer that is streamed: the text that a silent one sends, and the request's
// deadline, after which its producer has a moment to report the early end in the body.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "http/message.h"

namespace penstock::http {

class StreamClock {
 public:
  // After the deadline, for the producer.
  static constexpr std::chrono::seconds kGrace{1};

  // Takes what `head` says of silence.
  StreamClock(const HttpRequest& request, HttpResponse* head)
      : deadline_(request.context.deadline),
        idle_text_(std::move(head->idle_text)),
        idle_after_(head->idle_after) {}

  // Something was sent.
  void Sent(Clock::time_point now) {
    idle_at_ = idle_after_.count() > 0 ? now + idle_after_ : Clock::time_point::max();
  }
  // When the stream must end, later once it is late.
  Clock::time_point deadline() const {
    return late_ && deadline_ != Clock::time_point::max() ? deadline_ + kGrace : deadline_;
  }
  // When to look again; `sending`: something is on its way.
  Clock::time_point Next(bool sending) const {
    return sending ? deadline() : std::min(deadline(), idle_at_);
  }
  bool IdleIsDue(Clock::time_point now) const { return now >= idle_at_ && now < deadline(); }
  // The deadline has passed. False: its second time, the grace is over.
  bool BecomeLate() { return !std::exchange(late_, true); }
  const std::string& idle_text() const { return idle_text_; }

 private:
  const Clock::time_point deadline_;
  const std::string idle_text_;
  const std::chrono::milliseconds idle_after_;
  Clock::time_point idle_at_ = Clock::time_point::max();
  bool late_ = false;
};

}  // namespace penstock::http

// LogLimit: keeps lines that clients can cause from filling the log. A few pass each second; the
// rest is counted, and the next line that passes tells the count. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace penstock {

class LogLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogLimit(int lines_per_second_max) : lines_per_second_max_(lines_per_second_max) {}

  // nullopt: leave the line out. Else the number of lines left out since the last one.
  std::optional<int64_t> Pass(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (now - second_begin_ >= std::chrono::seconds(1)) {
      second_begin_ = now;
      lines_ = 0;
    }
    if (lines_ == lines_per_second_max_) {
      ++left_out_;
      return std::nullopt;
    }
    ++lines_;
    return std::exchange(left_out_, 0);
  }

  // "; 7 more since the last line", or "" if none was: the end of a line that passed.
  static std::string LeftOut(int64_t left_out) {
    return left_out == 0 ? "" : "; " + std::to_string(left_out) + " more since the last line";
  }

 private:
  const int lines_per_second_max_;
  std::mutex mutex_;
  Clock::time_point second_begin_;  // guarded by mutex_
  int lines_ = 0;                   // guarded by mutex_: in that second
  int64_t left_out_ = 0;            // guarded by mutex_: since the last line
};

}  // namespace penstock

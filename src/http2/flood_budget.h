// FloodBudget: how often a client may do what costs it less than the server. Full at first, filled
// up again by time and by work that the client did pay for.
#pragma once

#include <algorithm>
#include <chrono>

#include "threads/request_context.h"

namespace penstock::http2 {

class FloodBudget {
 public:
  FloodBudget(double most, double per_second, Clock::time_point now)
      : most_(most), per_second_(per_second), left_(most), at_(now) {}

  // False: there is none left.
  bool Take(Clock::time_point now) {
    Add(std::chrono::duration<double>(now - at_).count() * per_second_);
    at_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  void Add(double count) { left_ = std::min(most_, left_ + count); }

 private:
  const double most_, per_second_;
  double left_;
  Clock::time_point at_;
};

}  // namespace penstock::http2

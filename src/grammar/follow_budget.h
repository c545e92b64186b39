// FollowBudget: what following one text may cost. An ambiguous grammar, `([0-9]+)+` say, has more
// and more readings of a text as it grows, each of which takes time and memory at every token; and a
// step of a model waits for all its texts. A text whose readings cost more than plain ones ever do
// ends with an error.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>

namespace penstock::grammar {

class FollowBudget {
 public:
  // Seconds of the processor. A plain grammar takes 2 to 10 us a token.
  static constexpr double kSeconds = 0.25, kSecondsAToken = 50e-6;
  // A set of allowed tokens, which is of the vocabulary's size, is free up to here.
  static constexpr double kMaskSeconds = 1e-3;

  // The processor time of this thread.
  class Stopwatch {
   public:
    double seconds() const { return Now() - began_; }

   private:
    static double Now() {
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
    const double began_ = Now();
  };

  // Charges what is done while it lives, beyond what is free.
  class Scope {
   public:
    explicit Scope(FollowBudget* budget, double free_seconds = 0)
        : budget_(budget), free_(free_seconds) {}
    ~Scope() { budget_->spent_ += std::max(0.0, watch_.seconds() - free_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FollowBudget* const budget_;
    const double free_;
    const Stopwatch watch_;
  };

  // Tokens that are counted while it lives are taken back.
  class Tokens {
   public:
    explicit Tokens(FollowBudget* budget) : budget_(budget), before_(budget->tokens_) {}
    ~Tokens() { budget_->tokens_ = before_; }
    Tokens(const Tokens&) = delete;
    Tokens& operator=(const Tokens&) = delete;

   private:
    FollowBudget* const budget_;
    const size_t before_;
  };

  void CountToken() { ++tokens_; }
  bool over() const { return spent_ > kSeconds + kSecondsAToken * static_cast<double>(tokens_); }

 private:
  double spent_ = 0;
  size_t tokens_ = 0;
};

}  // namespace penstock::grammar

// When a batch is full, and how long it takes: BatchLimits, BatchTimes, and how they are measured.
//
//   seconds of a batch = a + b * tokens + c * (sum of squared lengths)
//
// a: the fixed cost of a batch; b: the linear layers; c: attention. The fit comes from a few runs
// of the real model (MeasureBatchTimes), and gives the knee: the smallest batch that works at
// nearly the full rate. A larger one would only make later jobs wait longer.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/status.h"
#include "program/encoder_runner.h"
#include "threads/request_context.h"

namespace penstock::sched {

struct BatchTimes {
  double fixed_s = 0;
  double token_s = 0;
  double work_s = 0;  // for each unit of attention work
  bool known() const { return token_s > 0; }
  double Seconds(double tokens, double work) const {
    return fixed_s + token_s * tokens + work_s * work;
  }
};

struct BatchLimits {
  uint32_t tokens = 0;
  uint32_t rows = 0;
  uint64_t work = UINT64_MAX;  // sum of squared lengths
  // By `times`; infinite: not bounded. A batch of one row may take longer.
  double seconds = std::numeric_limits<double>::infinity();
  BatchTimes times;
  bool SecondsFit(size_t batch_tokens, uint64_t batch_work) const {
    return std::isinf(seconds) || times.Seconds(static_cast<double>(batch_tokens),
                                                static_cast<double>(batch_work)) <= seconds;
  }
};

// One timed run.
struct BatchSample {
  double tokens = 0;
  double work = 0;
  double seconds = 0;
};

// Least squares of relative errors with no coefficient below 0. With fewer than three samples, or
// samples of one length, terms that cannot be told apart are 0: work_s, then fixed_s.
BatchTimes FitBatchTimes(const std::vector<BatchSample>& samples);

// Smallest number of tokens, a multiple of 128, within kKneeShare of the best rate there is in
// sequences of `length` tokens; at least `length`, at most `tokens_max`.
int32_t KneeTokens(const BatchTimes& times, int32_t length, int32_t tokens_max);
// The rate at the knee, as a share of an endless batch's. At nine tenths of the possible load, the
// 3 % that 0.97 leaves cost 13 % of the 95th percentile (penstock-lab policy, bursts).
inline constexpr double kKneeShare = 0.99;

// Attention work that takes as long as the linear layers of `tokens` tokens, but never less than
// `tokens` of the length `length`: so a batch of maximal length takes at most twice the time of one
// of short rows.
uint64_t WorkLimit(const BatchTimes& times, int32_t tokens, int32_t length);

inline constexpr int32_t kKneeTokensMin = 256;

struct MeasureOptions {
  program::EncoderOutput output = program::EncoderOutput::kPooled;
  int32_t length_max = 512;   // longest sequence the model takes
  int32_t tokens_max = 8192;  // largest batch tried
  // No run after the first is begun that would probably end later; a device's time, where it tells
  // that. A processor whose batches take the longer the more tokens they have spends 0.05 s.
  double budget_s = 0.15;
  std::function<Clock::time_point()> now;  // null: the steady clock
};

struct BatchMeasurement {
  BatchTimes times;
  int32_t knee_tokens = 0;  // the measured knee, or the fall-back
  bool complete = false;    // the budget was enough
};

// Runs the model on made-up sequences and fits their times; on a device apart from the host, the
// device's times. Passes on an error of the model. The knee is the larger of the fit's and of the
// smallest size that ran at kMeasuredShare of the best rate; it is 1024 tokens where the budget
// allowed too few runs for a fit. Its bounds, in times of short sequences:
// - At least kKneeTokensMin, and what runs in about kQuickBatchS up to 1024 tokens: threads share
//   few sequences of unlike lengths unevenly (256 tokens ran at 0.91 of the rate of 1024).
// - At most what runs in about kSlowBatchS, since other work waits for it; and, unless a larger
//   batch was tried, the larger of 1024 tokens and what runs in kQuickBatchS.
Expected<BatchMeasurement> MeasureBatchTimes(program::EncoderRunner* runner,
                                             const MeasureOptions& options);
inline constexpr double kMeasuredShare = 0.97;
inline constexpr double kSlowBatchS = 0.25;
inline constexpr double kQuickBatchS = 0.05;

}  // namespace penstock::sched

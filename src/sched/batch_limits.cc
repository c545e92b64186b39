#include "sched/batch_limits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sched/encode_batch.h"

namespace penstock::sched {
namespace {

constexpr int32_t kTokenStep = 128;
// A run is repeated if it took less than this part of the budget.
constexpr double kRepeatShare = 0.04;
// With fewer runs than this a knee would be chance; then this many tokens, which suits many models.
constexpr size_t kSamplesMin = 4;
// Larger batches on a processor end within this part of the budget once batches clearly take the
// longer the more tokens they have: they would tell little more, and the server is ready the sooner.
constexpr double kMoreShare = 0.35;
// A batch that was not tried has at most this many times the tokens of the largest that was.
constexpr int32_t kUntriedTimes = 8;
constexpr int32_t kKneeTokensUnknown = 1024;

// Solves the normal equations of the columns in use, by Gauss-Jordan; false: singular.
bool Solve(const std::vector<BatchSample>& samples, const std::array<bool, 3>& used,
           std::array<double, 3>* result) {
  double m[3][4] = {};
  for (const BatchSample& sample : samples) {
    // Weighted by 1 / seconds: a relative error counts the same in a small batch.
    const double columns[3] = {1 / sample.seconds, sample.tokens / sample.seconds,
                               sample.work / sample.seconds};
    for (int i = 0; i < 3; ++i) {
      if (!used[i]) continue;
      for (int j = 0; j < 3; ++j) {
        if (used[j]) m[i][j] += columns[i] * columns[j];
      }
      m[i][3] += columns[i];
    }
  }
  double scale[3];
  for (int i = 0; i < 3; ++i) scale[i] = used[i] ? 1 / std::sqrt(m[i][i]) : 1;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) m[i][j] *= scale[i] * scale[j];
    m[i][3] *= scale[i];
    if (!used[i]) m[i][i] = 1;
  }
  for (int i = 0; i < 3; ++i) {
    if (std::abs(m[i][i]) < 1e-9) return false;  // columns that are dependent
    for (int row = 0; row < 3; ++row) {
      if (row == i) continue;
      const double factor = m[row][i] / m[i][i];
      for (int j = i; j < 4; ++j) m[row][j] -= factor * m[i][j];
    }
  }
  for (int i = 0; i < 3; ++i) (*result)[i] = used[i] ? m[i][3] / m[i][i] * scale[i] : 0;
  return true;
}

double Error(const std::vector<BatchSample>& samples, const std::array<double, 3>& fit) {
  double sum = 0;
  for (const BatchSample& sample : samples) {
    const double got = fit[0] + fit[1] * sample.tokens + fit[2] * sample.work;
    sum += (got / sample.seconds - 1) * (got / sample.seconds - 1);
  }
  return sum;
}

// A batch of `count` sequences of `length` tokens and where its results go.
struct ProbeBatch {
  ProbeBatch(int32_t length, int32_t count, size_t width)
      : ids(static_cast<size_t>(length) * static_cast<size_t>(count)),
        values(static_cast<size_t>(count) * width) {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % 2);
    for (int32_t i = 0; i <= count; ++i) offsets.push_back(i * length);
    for (int32_t i = 0; i < count; ++i) {
      sinks.push_back(values.data() + static_cast<size_t>(i) * width);
    }
  }
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets;
  std::vector<float> values;
  std::vector<float*> sinks;
};

class Prober {
 public:
  Prober(program::EncoderRunner* runner, const MeasureOptions& options)
      : runner_(runner), options_(options) {
    if (!options_.now) options_.now = [] { return Clock::now(); };
  }

  // A run that is not counted, nor its time: the first one touches the weights for the first time.
  Status WarmUp(int32_t length) {
    ProbeBatch batch(length, 1, static_cast<size_t>(runner_->OutputWidth(options_.output)));
    PENSTOCK_ASSIGN_OR_RETURN(const double seconds, Run(batch));
    warm_up = {static_cast<double>(length), static_cast<double>(AttentionWork(length)), seconds};
    begin_ = Now();
    spent_device_s_ = 0;
    return Status::Ok();
  }

  // Times about `tokens` tokens; false: the budget would not be enough. Short runs, of which a
  // disturbance is a larger part, are made twice; the better one counts.
  Expected<bool> Probe(int32_t tokens, int32_t length) {
    const int32_t count = std::max(1, tokens / length);
    const double work = static_cast<double>(AttentionWork(length)) * count;
    BatchSample sample{static_cast<double>(length) * count, work, 1e30};
    ProbeBatch batch(length, count, static_cast<size_t>(runner_->OutputWidth(options_.output)));
    const BatchSample& last = samples.empty() ? warm_up : samples.back();
    if (!Fits(sample.tokens / last.tokens)) return false;
    double wall_s = 1e30;
    for (int run = 0; run < 2 && (run == 0 || LastSeconds() < kRepeatShare * options_.budget_s);
         ++run) {
      PENSTOCK_ASSIGN_OR_RETURN(const double seconds, Run(batch));
      sample.seconds = std::min(sample.seconds, seconds);
      wall_s = std::min(wall_s, wall_s_);
    }
    wall_s_ = wall_s;
    samples.push_back(sample);
    return true;
  }

  std::vector<BatchSample> samples;
  BatchSample warm_up;  // used if no other run fits in the budget

 private:
  // Seconds of the batch: a device's, else those of the clock.
  Expected<double> Run(const ProbeBatch& batch) {
    const double begin = Now();
    PENSTOCK_RETURN_IF_ERROR(
        runner_->Run({batch.ids, {}, batch.offsets, {}}, options_.output, batch.sinks));
    wall_s_ = std::max(Now() - begin, 1e-9);
    device_s_ = runner_->device_seconds();
    spent_device_s_ += device_s_;
    return LastSeconds();
  }
  double LastSeconds() const { return device_s_ > 0 ? device_s_ : wall_s_; }
  // Whether a run of `times` the last one's tokens probably ends within the budget. On a device
  // it may wait for batches of others, whose time is not this model's: there the clock's bound is
  // wider.
  bool Fits(double times) const {
    constexpr double kWithWaits = 4;
    const double share = device_s_ > 0 ? kWithWaits : TimesGrow() ? kMoreShare : 1;
    return Now() + times * wall_s_ <= begin_ + share * options_.budget_s &&
           spent_device_s_ + times * device_s_ <= options_.budget_s;
  }
  // Whether tokens cost at least half of what they would if there was no fixed time.
  bool TimesGrow() const {
    if (samples.size() < kSamplesMin) return false;
    const BatchSample &first = samples.front(), &last = samples.back();
    return 2 * last.seconds * first.tokens >= first.seconds * last.tokens;
  }
  double Now() const {
    return std::chrono::duration<double>(options_.now().time_since_epoch()).count();
  }

  program::EncoderRunner* const runner_;
  MeasureOptions options_;
  double begin_ = 0;
  double wall_s_ = 0, device_s_ = 0;  // of the last run
  double spent_device_s_ = 0;
};

// Accounts for sizes that divide badly among the backend's threads, which the fit does not show.
int32_t MeasuredKnee(const std::vector<BatchSample>& samples, int32_t length) {
  const auto is_short = [&](const BatchSample& sample) {
    return sample.work <= sample.tokens * length;
  };
  double best = 0;
  for (const BatchSample& sample : samples) {
    if (is_short(sample)) best = std::max(best, sample.tokens / sample.seconds);
  }
  for (const BatchSample& sample : samples) {
    if (is_short(sample) && sample.tokens / sample.seconds >= kMeasuredShare * best) {
      return static_cast<int32_t>(sample.tokens);
    }
  }
  return 0;
}

}  // namespace

BatchTimes FitBatchTimes(const std::vector<BatchSample>& samples) {
  BatchTimes best;
  double best_error = INFINITY;
  // Every subset of columns that has `tokens` in it: the best one without a negative coefficient.
  for (const std::array<bool, 3>& used : {std::array{true, true, true},
                                          {true, true, false},
                                          {false, true, true},
                                          {false, true, false}}) {
    const auto columns = static_cast<size_t>(std::count(used.begin(), used.end(), true));
    std::array<double, 3> fit;
    if (samples.size() < columns || samples.empty() || !Solve(samples, used, &fit)) continue;
    if (fit[0] < 0 || fit[1] <= 0 || fit[2] < 0) continue;
    const double error = Error(samples, fit);
    if (error >= best_error) continue;
    best_error = error;
    best = {fit[0], fit[1], fit[2]};
  }
  return best;
}

int32_t KneeTokens(const BatchTimes& times, int32_t length, int32_t tokens_max) {
  // Rate at T tokens, in parts of the limit: T v / (a + T v), v being the time of a token.
  const double v = times.token_s + times.work_s * length;
  const double knee = v > 0 ? times.fixed_s * kKneeShare / (v * (1 - kKneeShare)) : tokens_max;
  const double wanted = std::clamp<double>(knee, std::max(length, kKneeTokensMin), tokens_max);
  return std::min((static_cast<int32_t>(wanted) + kTokenStep - 1) / kTokenStep * kTokenStep,
                  tokens_max);
}

uint64_t WorkLimit(const BatchTimes& times, int32_t tokens, int32_t length) {
  if (times.work_s <= 0) return UINT64_MAX;
  const double even = times.token_s * tokens / times.work_s;
  const double at_least = static_cast<double>(std::min(tokens, length)) * tokens;
  return static_cast<uint64_t>(std::min(std::max(even, at_least), 9e18));
}

Expected<BatchMeasurement> MeasureBatchTimes(program::EncoderRunner* runner,
                                             const MeasureOptions& options) {
  // Cheap runs first, so that a cut-short budget still fits the two largest terms.
  const int32_t short_length = std::min(32, options.length_max);
  const int32_t long_length = std::min(256, options.length_max);
  Prober prober(runner, options);
  PENSTOCK_RETURN_IF_ERROR(prober.WarmUp(short_length));
  BatchMeasurement result;
  result.complete = true;
  const auto probe = [&](int32_t tokens, int32_t length) -> Expected<bool> {
    if (tokens > options.tokens_max) return true;
    return prober.Probe(tokens, length);
  };
  const struct {
    int32_t tokens;
    int32_t length;
  } plan[] = {{32, short_length},   {128, short_length},  {256, long_length},
              {256, short_length},  {512, short_length},  {512, long_length},
              {1024, short_length}, {1024, long_length},  {2048, short_length},
              {4096, short_length}, {8192, short_length}, {16384, short_length},
              {32768, short_length}};
  for (const auto& [tokens, length] : plan) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool in_time, probe(tokens, length));
    if (!in_time) {
      result.complete = false;
      break;
    }
  }
  if (prober.samples.empty()) prober.samples.push_back(prober.warm_up);
  result.times = FitBatchTimes(prober.samples);
  const int32_t measured = MeasuredKnee(prober.samples, short_length);
  const auto tried =
      static_cast<int32_t>(std::ranges::max(prober.samples, {}, &BatchSample::tokens).tokens);
  const int32_t most = std::max(options.tokens_max, kKneeTokensMin);
  result.knee_tokens = std::max(measured, KneeTokens(result.times, short_length, most));
  if (prober.samples.size() < kSamplesMin) result.knee_tokens = kKneeTokensUnknown;
  if (result.times.known()) {
    const double short_token_s = result.times.token_s + result.times.work_s * short_length;
    const auto fits = [&](double seconds) {
      return static_cast<int32_t>(
          std::clamp((seconds - result.times.fixed_s) / short_token_s, 0.0, 1e9));
    };
    const int32_t quick = fits(kQuickBatchS);
    // Threads share sequences of unlike lengths the better the more there are of them.
    result.knee_tokens =
        std::max(result.knee_tokens, std::clamp(quick, kKneeTokensMin, kKneeTokensUnknown));
    // A batch that was not tried may take longer than the fit says, and that of a slow model holds
    // up others: both are bounded by their time.
    const int32_t untried = std::max(kKneeTokensUnknown, std::min(quick, kUntriedTimes * tried));
    result.knee_tokens = std::min({result.knee_tokens, std::max(tried, untried),
                                   std::max(kKneeTokensMin, fits(kSlowBatchS))});
  }
  result.knee_tokens = std::min(result.knee_tokens, options.tokens_max);
  return result;
}

}  // namespace penstock::sched

// The server's counters, gauges and histograms, and their Prometheus text form.
//
// One Metrics lives as long as the process. Updating takes no lock, from any thread; Render walks
// everything. Every series exists from the start (value 0), so that a dashboard never shows a gap,
// but for those of large tables of labels, which are printed once they are used (Shown::kOnceUsed).
// Labels come from fixed lists only, never from what a client sent.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/duration_histogram.h"
#include "metrics/router_gauges.h"

namespace penstock::metrics {

class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void Add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Processor time that is asked for (a counter) or that waits (a gauge), kept in nanoseconds.
class SecondsMetric {
 public:
  // A day at most at once; NaN is none.
  void Add(double seconds) {
    constexpr double kMax = 86'400;
    if (std::isnan(seconds)) return;
    ns_.fetch_add(std::llround(std::clamp(seconds, -kMax, kMax) * 1e9), std::memory_order_relaxed);
  }
  double value() const { return static_cast<double>(ns_.load(std::memory_order_relaxed)) / 1e9; }

 private:
  std::atomic<int64_t> ns_{0};
};

// Of `whole`; 0 where that is 0.
inline double RatioOf(const Gauge& part, const Gauge& whole) {
  const int64_t all = whole.value();
  return all <= 0 ? 0 : static_cast<double>(part.value()) / static_cast<double>(all);
}

// Counts of observations by fixed upper bounds. Counts are kept a bucket each and summed up only
// when they are printed, so that an observation touches one of them.
class Histogram {
 public:
  static constexpr size_t kBoundsMax = 24;
  // Bounds must rise, kBoundsMax at most; the bucket to +Inf is added.
  explicit Histogram(std::vector<double> bounds);
  // An observation equal to a bound belongs to it. NaN is counted in +Inf and not in the sum.
  void Observe(double v);
  const std::vector<double>& bounds() const { return bounds_; }
  // Observations above bounds[i - 1] and not above bounds[i]; i == bounds.size(): the rest.
  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::array<std::atomic<uint64_t>, kBoundsMax + 1> buckets_{};
  std::atomic<double> sum_{0};
};

// `key="value"`, the value escaped as the text format demands; for the `labels` below.
std::string MetricLabel(std::string_view key, std::string_view value);

// Upper bounds for durations: 0.1 ms to 60 s, in seconds.
std::vector<double> DurationBounds();

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Registration, at start-up only. `labels` is the inside of the braces, e.g.
  // `route="/embed",code="200"`, or "". Returned references live as long as this object.
  // The same name and labels again give the same object.
  // kOnceUsed: not printed while the counter is 0 or the histogram empty.
  enum class Shown { kAlways, kOnceUsed };
  Counter& AddCounter(std::string_view name, std::string_view help, std::string_view labels = "",
                      Shown shown = Shown::kAlways);
  Gauge& AddGauge(std::string_view name, std::string_view help, std::string_view labels = "");
  // Bounds in the metric's unit (seconds, tokens).
  Histogram& AddHistogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                          std::string_view labels = "", Shown shown = Shown::kAlways);

  // Durations in nanoseconds, printed in seconds with bounds at powers of two nanoseconds, from 1
  // us to 69 s. A duration is cut to whole nanoseconds, so one that equals a bound is counted above
  // it.
  DurationHistogram& AddDurations(std::string_view name, std::string_view help,
                                  std::string_view labels = "");
  enum class Kind { kCounter, kGauge };
  SecondsMetric& AddSeconds(std::string_view name, std::string_view help, Kind kind,
                            std::string_view labels = "");
  // A value read when it is printed. `read` must neither block nor use this object, and must work
  // as long as it is printed; the same name and labels again replace it.
  void AddFunction(std::string_view name, std::string_view help, Kind kind,
                   std::function<double()> read, std::string_view labels = "");

  // For GET /metrics/router.
  RouterGauges& router();

  // The text exposition format 0.0.4.
  std::string Render() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::metrics

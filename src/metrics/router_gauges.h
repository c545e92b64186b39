// RouterGauges: the few gauges that a router reads many times a second, printed without a lock and
// with one allocation: the answer.
//
// Families are fixed; each has a series a model, up to kModelsMax. The answer has kBytesMax bytes
// at most: where the series of all models do not fit, those of the models that were there first
// stand in it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

namespace penstock::metrics {

class Gauge;
class SecondsMetric;

class RouterGauges {
 public:
  static constexpr size_t kBytesMax = 2048;
  static constexpr size_t kSeriesMax = 32;  // of a family

  enum class Family {
    kInFlight,
    kGenerateWaiting,
    kGenerateRunning,
    kKvUsage,
    kKvBlockSize,
    kKvBlocks,
    kQueueSeconds,
  };
  static constexpr size_t kFamilies = 7;

  // A part of a whole; 0 where there is none.
  struct Ratio {
    const Gauge* part;
    const Gauge* whole;
  };
  using Source = std::variant<const Gauge*, const SecondsMetric*, Ratio, int64_t>;

  // What sources point to must outlive this. The same labels again change nothing; beyond
  // kSeriesMax nothing is added. Any thread.
  void Add(Family family, std::string_view labels, Source source);

  // The text exposition format 0.0.4, without HELP lines. Any thread, no lock.
  std::string Render() const;

  // The sum over the models; of kKvUsage and kQueueSeconds the largest. 0 where there are none. Any
  // thread, no lock.
  double Total(Family family) const;

 private:
  struct Series {
    std::string name;  // with its labels
    Source source;
  };
  // Prints the first `series` of each family. False: that is over kBytesMax.
  bool Print(size_t series, std::string* out) const;

  std::mutex mutex_;  // of Add
  struct List {
    std::array<Series, kSeriesMax> series;
    std::atomic<size_t> size{0};  // those before it do not change any more
  };
  std::array<List, kFamilies> lists_;
};

}  // namespace penstock::metrics

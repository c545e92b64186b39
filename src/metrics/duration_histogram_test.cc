#include "metrics/duration_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <latch>
#include <random>
#include <thread>

namespace penstock::metrics {
namespace {

constexpr double kFractions[] = {0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1};

double Exact(const std::vector<int64_t>& sorted, double fraction) {
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[std::max<size_t>(rank, 1) - 1]);
}

void ExpectAccurate(const char* name, std::vector<int64_t> values) {
  DurationHistogram histogram;
  double sum = 0;
  for (const int64_t v : values) histogram.Record(v), sum += static_cast<double>(v);
  std::sort(values.begin(), values.end());
  const DurationSnapshot snapshot = histogram.Snapshot();
  EXPECT_EQ(snapshot.count(), values.size());
  EXPECT_NEAR(snapshot.mean_ns(), sum / static_cast<double>(values.size()), 1e-9 * sum);
  for (const double fraction : kFractions) {
    const double exact = Exact(values, fraction);
    EXPECT_NEAR(snapshot.percentile_ns(fraction), exact, 0.02 * exact) << name << " p" << fraction;
  }
}

TEST(DurationHistogram, PercentilesAreWithinTwoPercentOfASort) {
  std::mt19937_64 random(7);
  const auto draw = [&](int n, const std::function<double()>& next) {
    std::vector<int64_t> values;
    for (int i = 0; i < n; ++i) values.push_back(static_cast<int64_t>(next()));
    return values;
  };
  std::uniform_real_distribution<double> uniform(1e5, 9e7);
  std::exponential_distribution<double> exponential(1e-6);
  std::lognormal_distribution<double> lognormal(13, 2.5);
  std::normal_distribution<double> fast(2e5, 1e4), slow(3e9, 1e8);
  ExpectAccurate("uniform", draw(100'000, [&] { return uniform(random); }));
  ExpectAccurate("exponential", draw(100'000, [&] { return exponential(random); }));
  ExpectAccurate("lognormal", draw(100'000, [&] { return lognormal(random); }));
  ExpectAccurate("two modes",
                 draw(50'000, [&] { return random() % 20 == 0 ? slow(random) : fast(random); }));
  ExpectAccurate("constant", draw(1000, [] { return 1'234'567; }));
  ExpectAccurate("one", {987'654'321});
  ExpectAccurate("few", {3, 70, 1'000, 999'999'999});
  ExpectAccurate("powers", draw(40, [n = 0]() mutable { return std::ldexp(1, n++); }));
}

TEST(DurationHistogram, EveryBucketsMiddleIsWithinTwoPercentOfItsEdges) {
  size_t buckets = 0;
  for (int64_t v = 0; v <= DurationHistogram::kValueNsMax;) {
    const size_t bucket = DurationHistogram::BucketOf(v);
    EXPECT_EQ(bucket, buckets);  // each follows the one before
    ++buckets;
    // The bucket's last value, by bisection.
    int64_t low = v;
    int64_t high = std::min(DurationHistogram::kValueNsMax, v + v / 8 + 8);
    while (low < high) {
      const int64_t mid = low + (high - low + 1) / 2;
      if (DurationHistogram::BucketOf(mid) == bucket) {
        low = mid;
      } else {
        high = mid - 1;
      }
    }
    const double middle = DurationHistogram::MiddleOf(bucket);
    EXPECT_LE(std::abs(middle - static_cast<double>(v)), 0.02 * static_cast<double>(v)) << v;
    EXPECT_LE(std::abs(middle - static_cast<double>(low)), 0.02 * static_cast<double>(low)) << low;
    v = low + 1;
  }
  EXPECT_EQ(buckets, DurationHistogram::kBuckets);
}

TEST(DurationHistogram, EmptyAndOutOfRange) {
  DurationHistogram histogram;
  EXPECT_EQ(histogram.Snapshot().percentile_ns(0.99), 0);
  EXPECT_EQ(histogram.Snapshot().mean_ns(), 0);
  histogram.Record(-5);
  EXPECT_EQ(histogram.Snapshot().max_ns(), 0);
  histogram.Record(INT64_MAX);
  EXPECT_EQ(histogram.Snapshot().count(), 2u);
  EXPECT_NEAR(histogram.Snapshot().max_ns(), static_cast<double>(DurationHistogram::kValueNsMax),
              0.02 * static_cast<double>(DurationHistogram::kValueNsMax));
}

TEST(DurationHistogram, AWindowHoldsWhatCameAfterItsBegin) {
  DurationHistogram histogram;
  for (int i = 0; i < 100; ++i) histogram.Record(1'000'000'000);
  const DurationSnapshot before = histogram.Snapshot();
  for (int i = 0; i < 10; ++i) histogram.Record(1'000'000);
  const DurationSnapshot window = histogram.Snapshot().Since(before);
  EXPECT_EQ(window.count(), 10u);
  EXPECT_NEAR(window.total_s(), 0.01, 1e-12);
  EXPECT_NEAR(window.max_ns(), 1e6, 0.02e6);  // the second before is no longer the maximum
}

TEST(DurationHistogram, CountsBelowPowersOfTwoAreExact) {
  DurationHistogram histogram;
  for (const int64_t v : {0, 1, 1023, 1024, 1025, 2047, 2048}) histogram.Record(v);
  const DurationSnapshot snapshot = histogram.Snapshot();
  EXPECT_EQ(snapshot.CountBelowPowerOfTwo(0), 1u);
  EXPECT_EQ(snapshot.CountBelowPowerOfTwo(10), 3u);
  EXPECT_EQ(snapshot.CountBelowPowerOfTwo(11), 6u);
  EXPECT_EQ(snapshot.CountBelowPowerOfTwo(12), 7u);
  EXPECT_EQ(snapshot.CountBelowPowerOfTwo(63), 7u);
}

// Windows are cut again and again while threads record and end: every record is in exactly one.
TEST(DurationHistogram, NoRecordIsLostOrCountedTwiceByResets) {
  DurationHistogram histogram;
  constexpr int kRounds = 10;
  constexpr int kThreads = 4;
  constexpr int kRecords = 5'000;
  std::atomic<bool> stop{false};
  uint64_t counted = 0;
  DurationSnapshot base = histogram.Snapshot();
  const auto cut = [&] {
    DurationSnapshot now = histogram.Snapshot();
    counted += now.Since(base).count();
    base = std::move(now);
  };
  std::thread resetter([&] {
    while (!stop) cut();
  });
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&histogram, t] {
        for (int i = 0; i < kRecords; ++i) histogram.Record(1000 * t + i);
      });
    }
    for (std::thread& thread : threads) thread.join();  // their numbers go to the next round's
  }
  stop = true;
  resetter.join();
  cut();
  EXPECT_EQ(counted, uint64_t{kRounds} * kThreads * kRecords);
  EXPECT_EQ(histogram.Snapshot().count(), counted);
  // Each thread adds 1000 t + i over its records.
  const double sum =
      kRounds * (kRecords * 1000.0 * (0 + 1 + 2 + 3) + kThreads * (kRecords - 1.0) * kRecords / 2);
  EXPECT_NEAR(histogram.Snapshot().total_s(), sum * 1e-9, 1e-9);
  EXPECT_EQ(histogram.sum_ns(), static_cast<uint64_t>(sum));
}

TEST(DurationHistogram, MoreThreadsThanSlotsLoseNothing) {
  DurationHistogram histogram;
  constexpr int kThreads = kThreadSlots + 8;
  constexpr int kRecords = 300;
  std::latch all_there(kThreads);
  std::atomic<int> without_slot{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      without_slot += ThreadSlot() == kThreadSlots;
      all_there.arrive_and_wait();
      for (int i = 0; i < kRecords; ++i) histogram.Record(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(without_slot.load(), 8);
  EXPECT_EQ(histogram.Snapshot().count(), uint64_t{kThreads} * kRecords);
  // All have ended: there is a number for the next thread.
  size_t slot = kThreadSlots;
  std::thread([&slot] { slot = ThreadSlot(); }).join();
  EXPECT_LT(slot, kThreadSlots);
}

}  // namespace
}  // namespace penstock::metrics

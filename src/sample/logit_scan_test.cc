#include "sample/logit_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "sample/exp_neg.h"
#include "sample/test_util.h"

namespace penstock::sample {
namespace {

std::vector<Candidate> Sorted(const std::vector<float>& logits) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) all.push_back({logits[i], static_cast<int32_t>(i)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return all;
}

void ExpectBest(const LogitPart& part, const std::vector<Candidate>& sorted, size_t keep) {
  ASSERT_EQ(part.best.size(), std::min(keep, sorted.size()));
  EXPECT_EQ(part.dropped, keep < sorted.size());
  EXPECT_EQ(part.bad_id, -1);
  for (size_t i = 0; i < part.best.size(); ++i) {
    ASSERT_EQ(part.best[i].id, sorted[i].id) << i;
    ASSERT_EQ(part.best[i].logit, sorted[i].logit) << i;
  }
}

// Sizes around a block, many equal logits, ascending and descending ones, several parts in a
// random order.
TEST(LogitScan, KeepsTheBestInOrder) {
  std::mt19937 random(1);
  LogitScan scan;
  for (const size_t size : {1u, 3u, 31u, 32u, 255u, 256u, 257u, 1000u, 5000u}) {
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<float> logits = RandomLogits(size, random(), 3, kind == 1 ? 0.5f : 0.0f);
      if (kind == 2) std::sort(logits.begin(), logits.end());
      if (kind == 3) std::sort(logits.begin(), logits.end(), std::greater<>());
      const std::vector<Candidate> sorted = Sorted(logits);
      for (const size_t keep : {1u, 2u, 40u, 64u}) {
        scan.Reset(keep, false);
        scan.Add(logits, 0, nullptr);
        ExpectBest(scan.Part(), sorted, keep);

        scan.Reset(keep, false);
        std::vector<size_t> blocks(LogitBlocks(size));
        std::iota(blocks.begin(), blocks.end(), size_t{0});
        std::shuffle(blocks.begin(), blocks.end(), random);
        for (const size_t b : blocks) {
          const size_t begin = b * kLogitBlock;
          scan.Add(std::span(logits).subspan(begin, std::min(kLogitBlock, size - begin)), begin,
                   nullptr);
        }
        ExpectBest(scan.Part(), sorted, keep);
      }
    }
  }
}

TEST(LogitScan, NamesTheLowestBadLogit) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> good = RandomLogits(1000, 2);
  LogitScan scan;
  for (const float bad : {nan, -nan, inf, -inf, 1.1e30f, -1.1e30f}) {
    for (const size_t at : {0u, 1u, 33u, 255u, 256u, 767u, 768u, 990u, 999u}) {
      std::vector<float> logits = good;
      logits[at] = bad;
      if (at + 1 < logits.size()) logits[at + 1] = 7;
      logits[999] = at == 999 ? bad : nan;
      scan.Reset(3, true);
      std::vector<LogitBlock> blocks(LogitBlocks(logits.size()));
      scan.Add(std::span(logits).subspan(512), 512, blocks.data());
      scan.Add(std::span(logits).first(512), 0, blocks.data());
      EXPECT_EQ(scan.Part().bad_id, static_cast<int32_t>(at));
    }
  }
  std::vector<float> most = good;
  most[5] = kLogitMax;
  most[6] = -kLogitMax;
  scan.Reset(1, false);
  scan.Add(most, 0, nullptr);
  EXPECT_EQ(scan.Part().bad_id, -1);
  EXPECT_EQ(scan.Part().best[0].id, 5);
}

TEST(LogitScan, SumsAreExactAndDoNotDependOnTheParts) {
  for (const float spread : {0.1f, 3.0f, 30.0f}) {
    std::vector<float> logits = RandomLogits(2900, 7, spread);
    double max = logits[0], sum = 0;
    for (const float x : logits) max = std::max(max, static_cast<double>(x));
    for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
    LogitScan scan;
    std::vector<LogitBlock> whole(LogitBlocks(logits.size())), cut(whole.size());
    scan.Reset(1, true);
    scan.Add(logits, 0, whole.data());
    EXPECT_NEAR(LogSumExp(whole), max + std::log(sum), 1e-6 * std::max(1.0, max));
    for (const size_t begin : {1024u, 2560u, 0u, 256u}) {
      const size_t end = begin == 1024 ? 2560 : begin == 2560 ? 2900 : begin == 0 ? 256 : 1024;
      scan.Reset(64, true);
      scan.Add(std::span(logits).subspan(begin, end - begin), begin, cut.data());
    }
    for (size_t b = 0; b < whole.size(); ++b) {
      EXPECT_EQ(whole[b].max, cut[b].max);
      EXPECT_EQ(whole[b].sum, cut[b].sum);
    }
  }
}

TEST(ExpNeg, IsCloseToExp) {
  for (float d = 0; d < 87; d += 0.0037f) {
    const double exact = std::exp(-static_cast<double>(d));
    ASSERT_NEAR(static_cast<double>(ExpNeg(d)) / exact, 1, 3e-7) << d;
  }
  EXPECT_EQ(ExpNeg(0), 1);
  EXPECT_EQ(ExpNeg(87), 0);
  EXPECT_EQ(ExpNeg(1e30f), 0);
  EXPECT_EQ(ExpNeg(std::numeric_limits<float>::infinity()), 0);
}

}  // namespace
}  // namespace penstock::sample

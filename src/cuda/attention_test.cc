#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/attention-inl.h"

namespace penstock::cuda {
namespace {

using emulator::Counters;
using emulator::LaunchOptions;
using emulator::WakeOrder;

constexpr int kHeads = 2;

class AttentionTest : public testing::Test {
 protected:
  // Queries, keys and values of a sequence.
  template <int kDepth, bool kHalf>
  static std::vector<uint16_t> Draw(int length, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> rows(static_cast<size_t>(length * 3 * kHeads * kDepth));
    for (uint16_t& value : rows) {
      const float x = normal(random);
      value = static_cast<uint16_t>(kHalf ? simt::PackHalf(x, 0) : simt::PackBf16(x, 0));
    }
    return rows;
  }

  template <int kDepth, bool kHalf>
  std::vector<uint16_t> Run(const std::vector<std::vector<uint16_t>>& sequences, int window = 0) {
    constexpr int kStride = 3 * kHeads * kDepth;
    std::vector<uint16_t> qkv;
    std::vector<AttentionTile> tiles;
    int rows = 0;
    for (const auto& sequence : sequences) {
      qkv.insert(qkv.end(), sequence.begin(), sequence.end());
      const int length = static_cast<int>(sequence.size()) / kStride;
      for (int query = 0; query < length; query += 64) {
        tiles.push_back({rows, length, query, std::min(64, length - query), rows + query});
      }
      rows += length;
    }
    std::vector<uint16_t> y(static_cast<size_t>(rows * kHeads * kDepth), 0x7FFF);
    const int count = static_cast<int>(tiles.size());
    const AttentionArgs args = {.qkv = qkv.data(),
                                .y = y.data(),
                                .tiles = tiles.data(),
                                .tile_count = &count,
                                .stride = kStride,
                                .y_stride = kHeads * kDepth,
                                .heads = kHeads,
                                .head_size = kDepth,
                                .window = window,
                                .scale = 1 / std::sqrt(static_cast<float>(kDepth))};
    using Kernel = Attention<kDepth, kHalf, false>;
    // One block row more than there are tiles: it leaves.
    const Status status = Launch(
        {kHeads, count + 1, Kernel::kThreads, Kernel::kSharedBytes}, options_,
        [&] { Kernel::Run(args); }, &counters_);
    EXPECT_TRUE(status.ok()) << status.message();
    return y;
  }

  // Against doubles: the probabilities are rounded to 8 or 11 bits, and so is the result.
  template <int kDepth, bool kHalf>
  void ExpectNear(int length, int window) {
    constexpr int kStride = 3 * kHeads * kDepth;
    const auto rows = Draw<kDepth, kHalf>(length, static_cast<uint32_t>(length + window));
    const auto y = Run<kDepth, kHalf>({rows}, window);
    const auto value = [&](int row, int part, int head, int at) -> double {
      const auto index = static_cast<size_t>(row * kStride + (part * kHeads + head) * kDepth + at);
      return OperandValue(rows[index], kHalf ? Operand::kF16 : Operand::kBf16);
    };
    const double bound = kHalf ? 2e-3 : 2e-2;
    for (int head = 0; head < kHeads; ++head) {
      for (int query = 0; query < length; ++query) {
        std::vector<double> weights(static_cast<size_t>(length));
        double sum = 0;
        for (int key = 0; key < length; ++key) {
          double score = 0;
          for (int i = 0; i < kDepth; ++i)
            score += value(query, 0, head, i) * value(key, 1, head, i);
          const bool seen = window == 0 || std::abs(query - key) < window;
          sum += weights[static_cast<size_t>(key)] =
              seen ? std::exp(score / std::sqrt(static_cast<double>(kDepth))) : 0;
        }
        for (int i = 0; i < kDepth; ++i) {
          double want = 0;
          for (int key = 0; key < length; ++key) {
            want += weights[static_cast<size_t>(key)] / sum * value(key, 2, head, i);
          }
          const uint16_t got = y[static_cast<size_t>((query * kHeads + head) * kDepth + i)];
          ASSERT_NEAR(OperandValue(got, kHalf ? Operand::kF16 : Operand::kBf16), want, bound)
              << length << " " << window << " " << query << " " << i;
        }
      }
    }
  }

  LaunchOptions options_;
  Counters counters_;
};

TEST_F(AttentionTest, IsNearTheExactOne) {
  for (const int length : {1, 17, 64, 130}) {
    ExpectNear<64, true>(length, 0);
    ExpectNear<32, false>(length, 0);
  }
  ExpectNear<128, true>(70, 0);
  for (const int window : {2, 5, 64, 65}) ExpectNear<32, true>(200, window);
}

TEST_F(AttentionTest, ASequencesBitsAreItsOwn) {
  const auto a = Draw<32, false>(70, 1), b = Draw<32, false>(5, 2), c = Draw<32, false>(129, 3);
  auto all = Run<32, false>({a, b, c});
  for (const auto& one : {a, b, c}) {
    const auto alone = Run<32, false>({one});
    EXPECT_EQ(
        std::vector<uint16_t>(all.begin(), all.begin() + static_cast<ptrdiff_t>(alone.size())),
        alone);
    all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(alone.size()));
  }
}

TEST_F(AttentionTest, NoOrderChangesIt) {
  const auto rows = Draw<32, true>(150, 4);
  const auto want = Run<32, true>({rows});
  for (const WakeOrder order :
       {WakeOrder::kFirst, WakeOrder::kLast, WakeOrder::kRandom, WakeOrder::kWarps}) {
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      options_.order = order;
      options_.seed = seed;
      options_.late_copies = seed % 2 == 0;
      EXPECT_EQ((Run<32, true>({rows})), want);
    }
  }
}

TEST_F(AttentionTest, NoBanksConflict) {
  (void)Run<32, true>({Draw<32, true>(64, 5)});
  (void)Run<64, true>({Draw<64, true>(64, 5)});
  (void)Run<128, true>({Draw<128, true>(64, 5)});
  EXPECT_GT(counters_.shared_requests, 0u);
  EXPECT_EQ(counters_.shared_waves, counters_.shared_requests);
}

}  // namespace
}  // namespace penstock::cuda

// The emulator as a test of kernels: faults that were planted are found, right programs pass.
#include "cuda/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/simt.h"

namespace penstock::cuda {
namespace {

using emulator::Launch;
using emulator::LaunchOptions;
using emulator::LaunchShape;
using emulator::WakeOrder;
using testing::HasSubstr;

#if defined(__SANITIZE_THREAD__)
constexpr bool kFibers = false;  // that sanitizer has to be told of them
#else
constexpr bool kFibers = true;
#endif

class EmulatorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kFibers) GTEST_SKIP() << "not under the thread sanitizer";
  }
};

// Calls `run` with every order of waking, early and late copies and eight seeds. `run` launches a
// kernel and compares its results. Returns the message of the first error, or "".
std::string FirstFault(const std::function<Status(const LaunchOptions&)>& run) {
  for (const WakeOrder order :
       {WakeOrder::kFirst, WakeOrder::kLast, WakeOrder::kRandom, WakeOrder::kWarps}) {
    for (const bool late : {false, true}) {
      for (uint64_t seed = 1; seed <= 8; ++seed) {
        LaunchOptions options;
        options.order = order;
        options.late_copies = late;
        options.seed = seed;
        const Status status = run(options);
        if (!status.ok()) return status.message();
      }
    }
  }
  return "";
}

Status Compare(const Status& status, const std::vector<float>& got,
               const std::vector<float>& want) {
  if (!status.ok()) return status;
  return got == want ? Status::Ok() : Status::Internal("wrong results");
}

std::vector<float> Numbers(size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return numbers;
}

// Reverses each block's part through shared memory.
enum class Reverse { kRight, kNoSync, kSyncOfHalf, kOneLeaves };
std::string RunReverse(Reverse fault) {
  constexpr int kThreads = 128, kBlocks = 3;
  const std::vector<float> in = Numbers(kThreads * kBlocks);
  std::vector<float> want;
  for (int block = 0; block < kBlocks; ++block) {
    for (int t = 0; t < kThreads; ++t) {
      want.push_back(in[static_cast<size_t>(block * kThreads + kThreads - 1 - t)]);
    }
  }
  return FirstFault([&](const LaunchOptions& options) {
    std::vector<float> out(in.size());
    const Status status =
        Launch({kBlocks, 1, kThreads, kThreads * sizeof(float)}, options, [&, fault] {
          simt::WaitForPrerequisites();
          auto* const shared = simt::Shared<float>();
          const int t = simt::ThreadX(), at = simt::BlockX() * kThreads + t;
          if (fault == Reverse::kOneLeaves && t == 77) return;
          shared[t] = in[static_cast<size_t>(at)];
          if (fault == Reverse::kSyncOfHalf) {
            simt::SyncBarrier(1 + t / 64, 64);
          } else if (fault != Reverse::kNoSync) {
            simt::Sync();
          }
          out[static_cast<size_t>(at)] = shared[kThreads - 1 - t];
        });
    return Compare(status, out, want);
  });
}

TEST_F(EmulatorTest, BarriersOfABlock) {
  EXPECT_EQ(RunReverse(Reverse::kRight), "");
  EXPECT_EQ(RunReverse(Reverse::kNoSync), "wrong results");
  EXPECT_EQ(RunReverse(Reverse::kSyncOfHalf), "wrong results");
  EXPECT_THAT(RunReverse(Reverse::kOneLeaves), HasSubstr("wait for ever: 127 at Sync"));
}

// Two stages of copies, the second under way while the first is used.
enum class Stages { kRight, kNoWait, kWaitForTooFew, kNoSync, kNoSecondSync, kNeverWaited };
std::string RunStages(Stages fault) {
  constexpr int kThreads = 64, kStages = 4;
  const std::vector<float> in = Numbers(kThreads * 4 * kStages);
  std::vector<float> want(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t s = 0; s < kStages; ++s) {
      for (size_t i = 0; i < 4; ++i) want[t] += in[(s * kThreads + (t + 33) % kThreads) * 4 + i];
    }
  }
  return FirstFault([&](const LaunchOptions& options) {
    std::vector<float> out(kThreads);
    const Status status = Launch({1, 1, kThreads, 2 * kThreads * 16}, options, [&, fault] {
      simt::WaitForPrerequisites();
      auto* const shared = simt::Shared<float>();
      const int t = simt::ThreadX();
      const auto load = [&](int stage) {
        if (stage < kStages) {
          simt::CopyAsync16(shared + (stage % 2 * kThreads + t) * 4,
                            in.data() + (stage * kThreads + t) * 4, true);
        }
        simt::CommitCopies();
      };
      load(0);
      float sum = 0;
      for (int stage = 0; stage < kStages; ++stage) {
        load(stage + 1);
        if (fault == Stages::kWaitForTooFew) {
          simt::WaitCopies<2>();
        } else if (fault != Stages::kNoWait) {
          simt::WaitCopies<1>();
        }
        if (fault != Stages::kNoSync) simt::Sync();
        const float* const from = shared + (stage % 2 * kThreads + (t + 33) % kThreads) * 4;
        for (int i = 0; i < 4; ++i) sum += from[i];
        if (fault != Stages::kNoSecondSync) simt::Sync();
      }
      if (fault != Stages::kNeverWaited) simt::WaitCopies<0>();
      out[static_cast<size_t>(t)] = sum;
      if (fault == Stages::kNeverWaited) load(0);
    });
    return Compare(status, out, want);
  });
}

TEST_F(EmulatorTest, CopiesInStages) {
  EXPECT_EQ(RunStages(Stages::kRight), "");
  EXPECT_EQ(RunStages(Stages::kNoWait), "wrong results");
  EXPECT_EQ(RunStages(Stages::kWaitForTooFew), "wrong results");
  EXPECT_EQ(RunStages(Stages::kNoSync), "wrong results");
  EXPECT_EQ(RunStages(Stages::kNoSecondSync), "wrong results");
  EXPECT_THAT(RunStages(Stages::kNeverWaited), HasSubstr("copies that it does not wait for"));
}

TEST_F(EmulatorTest, CopiesThatAreNotValidAreZeros) {
  EXPECT_EQ(FirstFault([](const LaunchOptions& options) {
              std::vector<float> out(32 * 4, 5.0F);
              const Status status = Launch({1, 1, 32, 32 * 16}, options, [&] {
                simt::WaitForPrerequisites();
                auto* const shared = simt::Shared<float>() + 4 * simt::Lane();
                simt::CopyAsync16(shared, nullptr, false);
                simt::CommitCopies();
                simt::WaitCopies<0>();
                for (int i = 0; i < 4; ++i)
                  out[static_cast<size_t>(4 * simt::Lane() + i)] = shared[i];
              });
              return Compare(status, out, std::vector<float>(32 * 4));
            }),
            "");
}

// One thread copies, the others use it: two slots, full and empty.
enum class Ring { kRight, kNoFull, kNoEmpty, kNoInit, kFewBytes, kManyArrivals };
std::string RunRing(Ring fault) {
  constexpr int kThreads = 64, kRounds = 6, kSlotBytes = 512;
  const std::vector<float> in = Numbers(kRounds * kSlotBytes / 4);
  std::vector<float> want(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t r = 0; r < kRounds; ++r) want[t] += in[r * 128 + t * 2] - in[r * 128 + t * 2 + 1];
  }
  return FirstFault([&](const LaunchOptions& options) {
    std::vector<float> out(kThreads);
    const Status status = Launch({1, 1, kThreads + 32, 2 * kSlotBytes + 64}, options, [&, fault] {
      simt::WaitForPrerequisites();
      auto* const slots = simt::Shared<float>();
      auto* const full = reinterpret_cast<simt::Barrier*>(simt::Shared<char>() + 2 * kSlotBytes);
      simt::Barrier* const empty = full + 2;
      const int t = simt::ThreadX();
      if (t == 0 && fault != Ring::kNoInit) {
        for (int i = 0; i < 2; ++i) {
          simt::BarrierInit(full + i, 1);
          simt::BarrierInit(empty + i, fault == Ring::kManyArrivals ? 60 : kThreads);
        }
        simt::FenceBarrierInit();
      }
      simt::Sync();
      if (t >= kThreads) {
        for (int r = 0; t == kThreads && r < kRounds; ++r) {
          if (fault != Ring::kNoEmpty) simt::BarrierWait(empty + r % 2, r / 2 % 2 ^ 1);
          simt::BarrierExpect(full + r % 2, fault == Ring::kFewBytes ? 256 : kSlotBytes);
          simt::CopyBulk(slots + r % 2 * 128, in.data() + r * 128, kSlotBytes, full + r % 2);
        }
        return;
      }
      float sum = 0;
      for (int r = 0; r < kRounds; ++r) {
        if (fault != Ring::kNoFull) simt::BarrierWait(full + r % 2, r / 2 % 2);
        sum += slots[r % 2 * 128 + t * 2] - slots[r % 2 * 128 + t * 2 + 1];
        simt::BarrierArrive(empty + r % 2);
      }
      out[static_cast<size_t>(t)] = sum;
    });
    return Compare(status, out, want);
  });
}

TEST_F(EmulatorTest, BarriersInSharedMemory) {
  EXPECT_EQ(RunRing(Ring::kRight), "");
  EXPECT_NE(RunRing(Ring::kNoFull), "");
  EXPECT_NE(RunRing(Ring::kNoEmpty), "");
  EXPECT_THAT(RunRing(Ring::kNoInit), HasSubstr("before its init"));
  EXPECT_NE(RunRing(Ring::kFewBytes), "");
  EXPECT_NE(RunRing(Ring::kManyArrivals), "");
}

// A tile of 64 rows and 64 values times another one of 192 rows, in two groups of two steps.
enum class Tiles {
  kRight,
  kNoFence,
  kNoBarrierFence,
  kNoCommit,
  kNoWait,
  kWaitForTooFew,
  kNoFull,
  kFewBytes,
  kPlainRows,
  kOneWarpWaits,
};
std::string RunTiles(Tiles fault) {
  constexpr int kThreads = 128, kRows = 64, kColumns = 192, kDepth = 64;
  // Small whole numbers: sums are exact.
  const auto operands = [](int rows) {
    std::vector<uint16_t> values(static_cast<size_t>(rows * kDepth));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
      values[i] = static_cast<uint16_t>(simt::PackHalf(value, 0));
    }
    return values;
  };
  const std::vector<uint16_t> x = operands(kRows), w = operands(kColumns);
  std::vector<float> want(kRows * kColumns);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      for (size_t k = 0; k < kDepth; ++k) {
        want[row * kColumns + column] += OperandValue(x[row * kDepth + k], Operand::kF16) *
                                         OperandValue(w[column * kDepth + k], Operand::kF16);
      }
    }
  }
  const TileMap x_map = {x.data(), kRows, kDepth, kDepth, kRows, {}};
  const TileMap w_map = {w.data(), kColumns, kDepth, kDepth, kColumns, {}};
  return FirstFault([&](const LaunchOptions& options) {
    std::vector<float> out(want.size());
    const size_t shared_bytes = (kRows + kColumns) * 128 + 8;
    const Status status = Launch({1, 1, kThreads, shared_bytes}, options, [&, fault] {
      simt::WaitForPrerequisites();
      char* const tiles = simt::Shared<char>();
      char* const columns = tiles + kRows * 128;
      auto* const full = reinterpret_cast<simt::Barrier*>(columns + kColumns * 128);
      const int warp = simt::WarpIndex(), lane = simt::Lane();
      if (simt::ThreadX() == 0) {
        simt::BarrierInit(full, 1);
        if (fault != Tiles::kNoBarrierFence) simt::FenceBarrierInit();
      }
      simt::Sync();
      if (simt::ThreadX() == 0) {
        const uint32_t bytes = (kRows + kColumns) * 128;
        simt::BarrierExpect(full, fault == Tiles::kFewBytes ? bytes / 2 : bytes);
        simt::CopyTile(tiles, x_map, 0, 0, full);
        if (fault == Tiles::kPlainRows) {
          simt::CopyBulk(columns, w.data(), kColumns * 128, full);
        } else {
          simt::CopyTile(columns, w_map, 0, 0, full);
        }
      }
      if (fault != Tiles::kNoFull) simt::BarrierWait(full, 0);
      float sums[24][4];
      if (fault != Tiles::kNoFence) simt::WgmmaFence();
      for (int step = 0; step < 4; ++step) {
        simt::Wgmma<true>(sums, simt::TileDescriptor(tiles + step * 32),
                          simt::TileDescriptor(columns + step * 32), step > 0);
        if (step % 2 == 1 && fault != Tiles::kNoCommit) simt::WgmmaCommit();
      }
      if (fault == Tiles::kWaitForTooFew) {
        simt::WgmmaWait<1>();
      } else if (fault != Tiles::kNoWait && (fault != Tiles::kOneWarpWaits || warp == 0)) {
        simt::WgmmaWait<0>();
      }
      for (int n = 0; n < 24; ++n) {
        for (int i = 0; i < 4; ++i) {
          const int row = warp * 16 + lane / 4 + i / 2 * 8;
          out[static_cast<size_t>(row * kColumns + n * 8 + 2 * (lane % 4) + i % 2)] = sums[n][i];
        }
      }
    });
    return Compare(status, out, want);
  });
}

TEST_F(EmulatorTest, TilesAndProductsOfFourWarps) {
  EXPECT_EQ(RunTiles(Tiles::kRight), "");
  EXPECT_THAT(RunTiles(Tiles::kNoFence), HasSubstr("not behind a fence"));
  EXPECT_THAT(RunTiles(Tiles::kNoBarrierFence), HasSubstr("was not fenced"));
  for (const Tiles fault :
       {Tiles::kNoCommit, Tiles::kNoWait, Tiles::kWaitForTooFew, Tiles::kOneWarpWaits}) {
    EXPECT_THAT(RunTiles(fault), HasSubstr("products that it does not wait for"));
  }
  for (const Tiles fault : {Tiles::kNoFull, Tiles::kFewBytes, Tiles::kPlainRows}) {
    EXPECT_NE(RunTiles(fault), "") << static_cast<int>(fault);
  }
}

TEST_F(EmulatorTest, WarpsThatDiverge) {
  const auto fault = [](bool leaves) {
    return FirstFault([leaves](const LaunchOptions& options) {
      return Launch({1, 1, 64}, options, [leaves] {
        simt::WaitForPrerequisites();
        if (leaves && simt::Lane() == 3) return;
        if (simt::Lane() < 16) {
          (void)simt::Shuffle(1.0F, 0);
        } else {
          simt::SyncWarp();
        }
      });
    });
  };
  EXPECT_THAT(fault(false), HasSubstr("a warp diverges"));
  const auto stuck = FirstFault([](const LaunchOptions& options) {
    return Launch({1, 1, 32}, options, [] {
      simt::WaitForPrerequisites();
      if (simt::Lane() != 3) (void)simt::WarpSum(1.0F);
    });
  });
  EXPECT_THAT(stuck, HasSubstr("wait for ever: 31 at Shuffle"));
}

// The kernel before has not ended when this one begins.
TEST_F(EmulatorTest, PrerequisitesAreWaitedFor) {
  enum class Wait { kRight, kLate, kNever, kTwice };
  const auto fault = [](Wait wait) {
    return FirstFault([wait](LaunchOptions options) {
      std::vector<float> in(64), out(64);
      options.before = [&] { in = Numbers(64); };
      const Status status = Launch({2, 1, 32}, options, [&, wait] {
        const auto at = static_cast<size_t>(simt::BlockX() * 32 + simt::ThreadX());
        if (wait == Wait::kRight || wait == Wait::kTwice) simt::WaitForPrerequisites();
        if (wait == Wait::kTwice) simt::WaitForPrerequisites();
        const float value = in[at];
        if (wait == Wait::kLate) simt::WaitForPrerequisites();
        out[at] = value;
      });
      return Compare(status, out, Numbers(64));
    });
  };
  EXPECT_EQ(fault(Wait::kRight), "");
  EXPECT_EQ(fault(Wait::kLate), "wrong results");
  EXPECT_THAT(fault(Wait::kNever), HasSubstr("has not waited for its prerequisites"));
  EXPECT_THAT(fault(Wait::kTwice), HasSubstr("twice"));
}

// Blocks that wait for each other by a counter in global memory.
TEST_F(EmulatorTest, BarriersOfAGrid) {
  enum class Grid { kRight, kNone, kTooMany };
  constexpr int kBlocks = 4, kThreads = 64;
  const auto fault = [](Grid grid) {
    return FirstFault([grid](LaunchOptions options) {
      options.together = true;
      std::vector<float> cells(kBlocks), out(kBlocks);
      int arrived = 0;
      const Status status = Launch({kBlocks, 1, kThreads}, options, [&, grid] {
        simt::WaitForPrerequisites();
        const int block = simt::BlockX();
        if (simt::ThreadX() == 0) cells[static_cast<size_t>(block)] = static_cast<float>(block + 1);
        simt::Sync();
        if (simt::ThreadX() == 0 && grid != Grid::kNone) {
          (void)simt::AtomicAdd(&arrived, 1);
          while (simt::LoadAcquire(&arrived) < (grid == Grid::kTooMany ? kBlocks + 1 : kBlocks)) {
            simt::Pause();
          }
        }
        simt::Sync();
        if (simt::ThreadX() == 1) {
          out[static_cast<size_t>(block)] = cells[static_cast<size_t>((block + 1) % kBlocks)];
        }
      });
      return Compare(status, out, {2, 3, 4, 1});
    });
  };
  EXPECT_EQ(fault(Grid::kRight), "");
  EXPECT_EQ(fault(Grid::kNone), "wrong results");
  EXPECT_THAT(fault(Grid::kTooMany), HasSubstr("for ever"));
}

TEST_F(EmulatorTest, LaunchesAreChecked) {
  for (const LaunchShape& shape : {LaunchShape{1, 1, 33}, {1, 1, 0}, {0, 1, 32}, {1, 1, 1024}}) {
    EXPECT_FALSE(emulator::Launch(shape, {}, [] {}).ok());
  }
  const Status thrown = emulator::Launch({1, 1, 32}, {}, [] { throw std::runtime_error("oh"); });
  EXPECT_THAT(thrown.message(), HasSubstr("oh"));
  const Status unaligned = emulator::Launch({1, 1, 32, 64}, {}, [] {
    simt::WaitForPrerequisites();
    simt::CopyAsync16(simt::Shared<char>() + 4, simt::Shared<char>(), true);
  });
  EXPECT_THAT(unaligned.message(), HasSubstr("aligned"));
}

#if defined(__SANITIZE_ADDRESS__)
// The sanitizer knows how much shared memory a block has, and which buffers there are.
TEST_F(EmulatorTest, AnOverrunIsSeen) {
  const auto run = [](bool shared) {
    std::vector<float> out(31);
    (void)Launch({1, 1, 32, 31 * sizeof(float)}, {}, [&] {
      simt::WaitForPrerequisites();
      (shared ? simt::Shared<float>() : out.data())[simt::Lane()] = 1;
    });
  };
  EXPECT_DEATH(run(true), "heap-buffer-overflow");
  EXPECT_DEATH(run(false), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace penstock::cuda

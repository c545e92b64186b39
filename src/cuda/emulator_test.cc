// The emulator as a test of kernels: faults that were planted are found, right programs pass.
#include "cuda/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/simt.h"

#if defined(__SANITIZE_THREAD__)
// Reports are wanted here: of each race, also where another one has the same lines.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0";
}
#endif

namespace penstock::cuda {
namespace {

using emulator::Launch;
using emulator::LaunchOptions;
using emulator::LaunchShape;
using emulator::WakeOrder;
using testing::HasSubstr;

class EmulatorTest : public testing::Test {};

// Every report outside these tests, which plant races, is a failure.
class NoReports : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { reports_ = race::Reports(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (std::string(test.test_suite_name()) == "EmulatorTest") return;
    EXPECT_EQ(race::Reports(), reports_) << "reports of the thread sanitizer";
  }
  int reports_ = 0;
};
[[maybe_unused]] const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NoReports);
  return true;
}();

// A race gives wrong results in some order of threads; the thread sanitizer reports it in any.
constexpr const char* kRace = race::kOn ? "a data race" : "wrong results";

// Calls `run` with every order of waking, early and late copies and eight seeds. `run` launches a
// kernel and compares its results. Returns the message of the first error, or "".
std::string FirstFault(const std::function<Status(const LaunchOptions&)>& run) {
  for (const WakeOrder order :
       {WakeOrder::kFirst, WakeOrder::kLast, WakeOrder::kRandom, WakeOrder::kWarps}) {
    for (const bool late : {false, true}) {
      for (uint64_t seed = 1; seed <= (race::kOn ? 2 : 8); ++seed) {
        LaunchOptions options;
        options.order = order;
        options.late_copies = late;
        options.seed = seed;
        const int reports = race::Reports();
        const Status status = run(options);
        if (!status.ok()) return status.message();
        if (race::Reports() != reports) return "a report beside the launch";
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
  EXPECT_THAT(RunReverse(Reverse::kNoSync), HasSubstr(kRace));
  EXPECT_THAT(RunReverse(Reverse::kSyncOfHalf), HasSubstr(kRace));
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
  EXPECT_THAT(RunStages(Stages::kNoSync), HasSubstr(kRace));
  EXPECT_THAT(RunStages(Stages::kNoSecondSync), HasSubstr(kRace));
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
      options.before = [&] { std::iota(in.begin(), in.end(), 1.0F); };
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
  EXPECT_THAT(fault(Wait::kLate), HasSubstr(kRace));
  EXPECT_THAT(fault(Wait::kNever), HasSubstr("has not waited for its prerequisites"));
  EXPECT_THAT(fault(Wait::kTwice), HasSubstr("twice"));
}

// Blocks that wait for each other by flags in global memory.
TEST_F(EmulatorTest, BarriersOfAGrid) {
  enum class Grid { kRight, kNone, kTooMany, kRelaxed };
  constexpr int kBlocks = 4, kThreads = 64;
  const auto fault = [](Grid grid) {
    return FirstFault([grid](LaunchOptions options) {
      options.together = true;
      std::vector<float> cells(kBlocks), out(kBlocks);
      std::vector<int> arrived(kBlocks + 1);
      const Status status = Launch({kBlocks, 1, kThreads}, options, [&, grid] {
        simt::WaitForPrerequisites();
        const int block = simt::BlockX();
        if (simt::ThreadX() == 0) cells[static_cast<size_t>(block)] = static_cast<float>(block + 1);
        simt::Sync();
        if (simt::ThreadX() == 0 && grid != Grid::kNone) {
          if (grid == Grid::kRelaxed) {
            (void)simt::AtomicAdd(arrived.data() + block, 1);
          } else {
            simt::StoreRelease(arrived.data() + block, 1);
          }
          const int count = grid == Grid::kTooMany ? kBlocks + 1 : kBlocks;
          for (int i = 0; i < count;) {
            if (simt::LoadAcquire(arrived.data() + i) == 0) {
              simt::Pause();
            } else {
              ++i;
            }
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
  EXPECT_THAT(fault(Grid::kNone), HasSubstr(kRace));
  EXPECT_THAT(fault(Grid::kTooMany), HasSubstr("for ever"));
  EXPECT_THAT(fault(Grid::kRelaxed), HasSubstr(race::kOn ? kRace : ""));
}

#if defined(__SANITIZE_THREAD__)
// Races that give right results in every order of the emulator's: the sanitizer alone finds them.
constexpr const char* kOnlyReported = "a data race";

void Load(const volatile float* at) { (void)*at; }

std::string RunThreads(int blocks, bool together, const std::function<void(float* cells)>& kernel) {
  return FirstFault([&](LaunchOptions options) {
    options.together = together;
    std::vector<float> cells(256);
    return Launch({blocks, 1, 64, 64 * 16}, options, [&] {
      simt::WaitForPrerequisites();
      kernel(cells.data());
    });
  });
}

TEST_F(EmulatorTest, WritersOfOneCell) {
  const auto one_cell = [](float* cells) { cells[7] = 1; };
  EXPECT_THAT(RunThreads(1, false, one_cell), HasSubstr(kOnlyReported));
  // Two blocks, at once and one behind the other; their threads of one number, and of two.
  for (const bool together : {true, false}) {
    for (const int apart : {0, 1, 32}) {
      const auto one_of_each = [apart](float* cells) {
        if (simt::ThreadX() == simt::BlockX() * apart) cells[7] = 1;
      };
      EXPECT_THAT(RunThreads(2, together, one_of_each), HasSubstr(kOnlyReported)) << apart;
    }
    EXPECT_EQ(RunThreads(2, together,
                         [](float* cells) { cells[simt::BlockX() * 64 + simt::ThreadX()] = 1; }),
              "");
  }
}

// What a block leaves in shared memory, the next one does not see.
TEST_F(EmulatorTest, SharedMemoryIsABlocksOwn) {
  EXPECT_EQ(RunThreads(3, false, [](float*) { simt::Shared<float>()[simt::ThreadX()] = 1; }), "");
  EXPECT_THAT(RunThreads(1, false, [](float*) { simt::Shared<float>()[3] = 1; }),
              HasSubstr(kOnlyReported));
}

// A warp's lanes exchange a cell. SyncWarp orders memory, and what else lanes meet at does not.
TEST_F(EmulatorTest, OnlySomeMeetingsOfAWarpOrderMemory) {
  const auto fault = [](void (*meet)()) {
    return RunThreads(1, false, [meet](float*) {
      auto* const shared = simt::Shared<float>();
      shared[simt::ThreadX()] = 1;
      meet();
      Load(shared + (simt::ThreadX() ^ 1));
    });
  };
  EXPECT_EQ(fault([] { simt::SyncWarp(); }), "");
  EXPECT_EQ(fault([] { simt::SyncBarrier(1 + simt::WarpIndex(), 32); }), "");
  EXPECT_THAT(fault([] { (void)simt::WarpSum(1); }), HasSubstr(kOnlyReported));
  EXPECT_THAT(fault([] { (void)simt::Transpose(1); }), HasSubstr(kOnlyReported));
  EXPECT_THAT(fault([] { simt::SyncBarrier(1 + simt::Lane(), 2); }), HasSubstr(kOnlyReported));
}

// The lane that gives a row reads it, whichever lane gets the values.
TEST_F(EmulatorTest, MatricesAreReadByTheLanesThatGiveTheirRows) {
  const auto fault = [](int turn, bool syncs) {
    return RunThreads(1, false, [turn, syncs](float*) {
      if (simt::WarpIndex() > 0) return;
      char* const shared = simt::Shared<char>();
      simt::StoreShared16(shared + 16 * simt::Lane(), {});
      if (syncs) simt::SyncWarp();
      uint32_t r[4];
      simt::LoadMatrix4(r, shared + 16 * ((simt::Lane() + turn) % 32));
    });
  };
  EXPECT_EQ(fault(1, true), "");
  EXPECT_EQ(fault(0, false), "");
  EXPECT_THAT(fault(1, false), HasSubstr(kOnlyReported));
}

// A copy reads what another thread has written, and overwrites what another one reads.
TEST_F(EmulatorTest, CopiesAreAccesses) {
  enum class Copies { kRight, kSourceIsWritten, kTargetIsRead, kBulkTargetIsRead };
  const auto fault = [](Copies copies) {
    return RunThreads(1, false, [copies](float* cells) {
      auto* const shared = simt::Shared<float>();
      auto* const barrier = reinterpret_cast<simt::Barrier*>(shared + 128);
      const int t = simt::ThreadX();
      if (t == 1) cells[0] = 1;
      shared[t] = 0;
      if (t == 0) simt::BarrierInit(barrier, 1);
      if (t == 0) simt::FenceBarrierInit();
      if (copies != Copies::kSourceIsWritten) simt::Sync();
      if (t == 1) Load(shared);
      if (copies != Copies::kTargetIsRead && copies != Copies::kBulkTargetIsRead) simt::Sync();
      if (t != 0) return;
      if (copies == Copies::kBulkTargetIsRead) {
        simt::BarrierExpect(barrier, 64);
        simt::CopyBulk(shared, cells, 64, barrier);
        return simt::BarrierWait(barrier, 0);
      }
      simt::CopyAsync16(shared, cells, true);
      simt::CommitCopies();
      simt::WaitCopies<0>();
    });
  };
  EXPECT_EQ(fault(Copies::kRight), "");
  EXPECT_THAT(fault(Copies::kSourceIsWritten), HasSubstr(kOnlyReported));
  EXPECT_THAT(fault(Copies::kTargetIsRead), HasSubstr(kOnlyReported));
  EXPECT_THAT(fault(Copies::kBulkTargetIsRead), HasSubstr(kOnlyReported));
}
#endif

// Threads store the operands of products, which tensor cores read. Only the sanitizer sees what is
// wrong: stores are there at once.
TEST_F(EmulatorTest, StoresNeedAFenceBeforeTensorCoresReadThem) {
  enum class Fence { kRight, kByReaders, kNone, kTooEarly, kNoSync };
  constexpr int kThreads = 128, kRowsX = 64, kRowsW = emulator::kProductColumns;
  const auto fault = [](Fence fence) {
    return FirstFault([fence](const LaunchOptions& options) {
      std::vector<float> out(kThreads);
      const Status status = Launch({1, 1, kThreads, (kRowsX + kRowsW) * 128}, options, [&] {
        simt::WaitForPrerequisites();
        char* const x = simt::Shared<char>();
        char* const w = x + kRowsX * 128;
        const int t = simt::ThreadX();
        if (fence == Fence::kTooEarly) simt::FenceProxyAsync();
        const uint32_t ones = simt::PackHalf(1, 1);
        for (int i = t; i < (kRowsX + kRowsW) * 8; i += kThreads) {
          simt::StoreShared16(x + 16 * i, {{ones, ones, ones, ones}});
        }
        if (fence == Fence::kRight || fence == Fence::kNoSync) simt::FenceProxyAsync();
        if (fence != Fence::kNoSync) simt::Sync();
        if (fence == Fence::kByReaders) simt::FenceProxyAsync();
        float sums[24][4];
        simt::WgmmaFence();
        simt::Wgmma<true>(sums, simt::TileDescriptor(x), simt::TileDescriptor(w), false);
        simt::WgmmaCommit();
        simt::WgmmaWait<0>();
        out[static_cast<size_t>(t)] = sums[t % 24][t % 4];
      });
      return Compare(status, out, std::vector<float>(kThreads, 16));
    });
  };
  EXPECT_EQ(fault(Fence::kRight), "");
  EXPECT_EQ(fault(Fence::kByReaders), "");
  EXPECT_THAT(fault(Fence::kNoSync), HasSubstr(kRace));
  if (!race::kOn) return;
  EXPECT_THAT(fault(Fence::kNone), HasSubstr(kRace));
  EXPECT_THAT(fault(Fence::kTooEarly), HasSubstr(kRace));
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

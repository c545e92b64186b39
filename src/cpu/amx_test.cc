// The tile unit of AMX: when it is used, and its int8 bits, which are the vector kernels'.
#include "cpu/amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/block_linear.h"
#include "cpu/dispatch.h"
#include "cpu/test_util.h"
#include "numbers/random_blocks.h"

namespace penstock::cpu {
namespace {

TEST(Amx, NobodyIsAskedWhereTheProcessorHasNone) {
  std::string refusal = "before";
  EXPECT_FALSE(AskForAmx({[] { return false; },
                          []() -> int {
                            ADD_FAILURE();
                            return 0;
                          },
                          [] { return true; }},
                         &refusal));
  EXPECT_EQ(refusal, "");
}

TEST(Amx, ARefusalSaysWhy) {
  std::string refusal;
  EXPECT_FALSE(AskForAmx({[] { return true; }, [] { return EPERM; },
                          [] {
                            ADD_FAILURE();  // would trap
                            return true;
                          }},
                         &refusal));
  EXPECT_EQ(refusal, "the kernel does not permit it (Operation not permitted)");
  EXPECT_FALSE(AskForAmx({[] { return true; }, [] { return 0; }, [] { return false; }}, &refusal));
  EXPECT_EQ(refusal, "it multiplies otherwise than documented");
  EXPECT_TRUE(AskForAmx({[] { return true; }, [] { return 0; }, [] { return true; }}, &refusal));
  EXPECT_EQ(refusal, "");
}

TEST(Amx, ThisMachineAnswersTheSameTwice) { EXPECT_EQ(AmxIsUsable(), AmxIsUsable()); }

// The check that a processor's unit has to pass tells one that rounds otherwise.
TEST(Amx, TheCheckAtTheStartTellsWrongResults) {
  const Kernels* const tiles = EmulatedAmxKernels();
  if (std::ranges::count(AllKernels(), tiles) == 0) GTEST_SKIP() << "no AVX-512 BF16";
  EXPECT_TRUE(TilesAgree(*tiles, *tiles));
  Kernels wrong = *tiles;
  wrong.gemm = [](const GemmTask& task) {
    EmulatedAmxKernels()->gemm(task);
    task.y[task.rows * task.y_stride - 1] *= 1.001f;
  };
  EXPECT_FALSE(TilesAgree(wrong, *tiles));
  wrong = *tiles;
  wrong.block_gemm = [](const BlockGemmTask& task) {
    EmulatedAmxKernels()->block_gemm(task);
    if (task.stored == numbers::DType::kQ6K) task.y[0] += 1;
  };
  EXPECT_FALSE(TilesAgree(wrong, *tiles));
}

TEST(Amx, OnlyAProcessorsUnitIsMeasured) {
  for (const Kernels* kernels : AllKernels()) {
    const size_t rows = TileRowsMin(*kernels);
    if (kernels == AmxKernels()) {
      EXPECT_LE(rows, 25u);
    } else {
      EXPECT_EQ(rows, 1u);
    }
  }
}

class TileUnit : public testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (GetParam() == nullptr) GTEST_SKIP() << "this processor has no AVX-512 BF16, or no AMX";
  }
};

// Rows that fill both tiles of rows, one, or neither; k of whole steps of the unit, and others.
TEST_P(TileUnit, Int8GivesTheBitsOfVectors) {
  const Kernels& tiles = *GetParam();
  for (const size_t in : {1, 63, 64, 128, 200, 512}) {
    for (const size_t rows : {1, 15, 16, 17, 31, 32, 33, 64, 75}) {
      HugePageArena arena;
      const std::vector<float> weight = NormalFloats(70 * in, 1, 0, 1);
      const std::vector<float> bias = NormalFloats(70, 2, 0, 1);
      const std::vector<float> x = NormalFloats(rows * in, 3, 0.2f, 2);
      const PanelLinear packed(
          {program::ViewOf(weight, static_cast<int64_t>(in)), program::ViewOf(bias, 70)},
          {numbers::DType::kI8, {}}, static_cast<size_t>(tiles.panel), &arena);
      AlignedBuffer memory(rows * PackedRowBytes(numbers::DType::kI8, in), &arena);
      const PackedRows from(memory.data(), rows, packed);
      tiles.pack_rows(from.Pack(x.data(), in, rows, 0, in));
      const auto run = [&](const Kernels& kernels, size_t tile_rows_min) {
        std::vector<float> y(rows * 70);
        GemmTask task;
        packed.FillTask(0, packed.panels(), &task);
        task.x = from.words;
        task.x_scales = from.scales;
        task.y = y.data();
        task.rows = rows;
        task.y_stride = 70;
        task.activation = program::Activation::kGelu;
        task.tile_rows_min = tile_rows_min;
        kernels.gemm(task);
        return y;
      };
      const std::vector<float> want = run(*Avx512Bf16Kernels(), 1);
      for (const size_t least : {1, 16, 33}) {
        const std::vector<float> got = run(tiles, least);
        ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
            << rows << " rows, k=" << in << ", tiles from " << least << " rows on";
      }
    }
  }
}

// Every stored type by `rows` rows in the given type.
std::vector<float> MultiplyBlocks(const Kernels& kernels, numbers::DType stored,
                                  numbers::DType dtype, const std::vector<float>& x, size_t rows) {
  constexpr size_t kIn = 768, kOut = 70;
  HugePageArena arena;
  ThreadPool pool(1, false);
  const std::vector<std::byte> blocks =
      numbers::RandomBlocks(stored, kOut * kIn / numbers::BlockOf(stored).elements, 5);
  const program::LinearRows weight = {{stored, kOut, kIn, blocks.data()}, {}};
  const auto linear = BlockLinear::Pack({&weight, 1}, {dtype, {}}, &kernels, &pool, &arena);
  EXPECT_TRUE(linear.ok());
  AlignedBuffer packed((*linear)->PackedWords(rows), &arena);
  AlignedBuffer scratch(kBlockScratchBytes / sizeof(float), &arena);
  (*linear)->PackRows(x.data(), kIn, rows, reinterpret_cast<Word*>(packed.data()));
  std::vector<float> y(rows * kOut);
  BlockRun run;
  run.x = reinterpret_cast<const Word*>(packed.data());
  run.rows = rows;
  run.y = y.data();
  run.y_stride = kOut;
  run.scratch = scratch.data();
  (*linear)->Run(run, 0, (*linear)->panels());
  return y;
}

TEST_P(TileUnit, BlocksGiveTheBitsOfVectorsInInt8AndTheirOwnInBf16) {
  const std::vector<float> x = NormalFloats(300 * 768, 6, 0.1f, 1);
  for (const numbers::DType stored : numbers::kStoredTypes) {
    if (stored == numbers::DType::kF32) continue;
    for (const size_t rows : {1, 3, 8, 9, 16, 17, 32, 33, 75, 300}) {
      if (numbers::IsBlockType(stored)) {
        const auto got = MultiplyBlocks(*GetParam(), stored, numbers::DType::kI8, x, rows);
        const auto want =
            MultiplyBlocks(*Avx512Bf16Kernels(), stored, numbers::DType::kI8, x, rows);
        ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
            << numbers::DTypeName(stored) << ", " << rows << " rows";
      }
      // A row has the same bits in any company, and nearly those of vectors.
      const auto got = MultiplyBlocks(*GetParam(), stored, numbers::DType::kBf16, x, rows);
      const auto alone = MultiplyBlocks(*GetParam(), stored, numbers::DType::kBf16, x, 1);
      ASSERT_EQ(std::memcmp(got.data(), alone.data(), alone.size() * sizeof(float)), 0)
          << numbers::DTypeName(stored) << ", " << rows << " rows";
      const auto want =
          MultiplyBlocks(*Avx512Bf16Kernels(), stored, numbers::DType::kBf16, x, rows);
      double size = 0;
      for (const float v : want) size = std::max(size, std::abs(static_cast<double>(v)));
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 2e-5 * size) << numbers::DTypeName(stored) << " " << i;
      }
    }
  }
}

// The sets with a tile unit. Without one a nullptr, for which the tests skip.
std::vector<const Kernels*> TileKernels() {
  std::vector<const Kernels*> out;
  for (const Kernels* kernels : AllKernels()) {
    if (kernels == AmxKernels() || kernels == EmulatedAmxKernels()) out.push_back(kernels);
  }
  if (out.empty()) out.push_back(nullptr);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Isa, TileUnit, testing::ValuesIn(TileKernels()), [](const auto& test) {
  return test.param == nullptr ? std::string("none") : std::string(test.param->name);
});

}  // namespace
}  // namespace penstock::cpu

// Every decoder of tests/golden/decoders against what the reference implementation computed in
// float64 (tests/golden/README.md), with every instruction set this processor has.
#include <gtest/gtest.h>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "generate/golden_decoder_test_util.h"

namespace penstock::generate {
namespace {

class GoldenDecoder : public testing::TestWithParam<std::string> {};

TEST_P(GoldenDecoder, AgreesWithReference) {
  const GoldenReference expected = ReadReference(GetParam());
  ASSERT_EQ(expected.greedy.size(), 128u);
  ASSERT_EQ(expected.texts.size(), 2u);
  for (const cpu::Kernels* kernels : cpu::AllKernels()) {
    SCOPED_TRACE(kernels->name);
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    const auto model =
        LoadDecoder(GoldenPath(GetParam()), backend->get(), numbers::DType::kF32, expected.context);
    ASSERT_NE(model, nullptr);
    double worst = 0;
    for (const GoldenText& text : expected.texts) {
      const LogitRows all = LogitsOf(*model, text.ids, numbers::DType::kF32);
      ASSERT_EQ(all.size(), text.ids.size());
      const double error = WorstError(PickedRows(all, text.rows), text.logits);
      EXPECT_LE(error, kGoldenErrorMax) << text.ids.size() << " tokens";
      worst = std::max(worst, error);
      EXPECT_EQ(all, LogitsOf(*model, text.ids, numbers::DType::kF32, 7)) << "in chunks";
    }
    EXPECT_EQ(GreedyTokens(*model, expected.prompt, expected.greedy.size()), expected.greedy);
    RecordProperty(std::string("error_max_") + kernels->name, std::to_string(worst));
  }
}

// Rounding moves random weights of 32 columns far: these bounds tell a mistake from rounding, no
// more.
TEST_P(GoldenDecoder, Bf16StaysClose) {
  const GoldenReference expected = ReadReference(GetParam());
  for (const cpu::Kernels* kernels : cpu::AllKernels()) {
    SCOPED_TRACE(kernels->name);
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    const auto model = LoadDecoder(GoldenPath(GetParam()), backend->get(), numbers::DType::kBf16,
                                   expected.context);
    ASSERT_NE(model, nullptr);
    for (const GoldenText& text : expected.texts) {
      const LogitRows all = LogitsOf(*model, text.ids, numbers::DType::kBf16);
      EXPECT_LE(WorstError(PickedRows(all, text.rows), text.logits), 0.1) << text.ids.size();
      EXPECT_EQ(all, LogitsOf(*model, text.ids, numbers::DType::kBf16, 7)) << "in chunks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenDecoder, testing::ValuesIn(GoldenDecoders()),
                         [](const auto& info) { return info.param; });

// The same weights in a folder and in GGUF files, whose rows of q and k have another order and
// whose blocks of 8 bits hold them exactly.
class GoldenGguf : public testing::Test {
 protected:
  void SetUp() override { backend_ = *cpu::NewCpuBackend({.threads = 2, .pin = false}); }
  std::unique_ptr<models::DecoderModel> Load(const std::string& name, numbers::DType dtype) {
    return LoadDecoder(GoldenPath(name), backend_.get(), dtype);
  }
  const GoldenReference expected_ = ReadReference("llama");
  std::unique_ptr<program::Backend> backend_;
};

class GoldenGgufFile : public GoldenGguf, public testing::WithParamInterface<const char*> {};

TEST_P(GoldenGgufFile, GivesTheLogitsAndTextOfTheFolder) {
  const auto gguf =
      Load(std::string("llama_gguf/llama-") + GetParam() + ".gguf", numbers::DType::kF32);
  const auto folder = Load("llama", numbers::DType::kF32);
  ASSERT_TRUE(gguf != nullptr && folder != nullptr);
  for (const GoldenText& text : expected_.texts) {
    const LogitRows got = LogitsOf(*gguf, text.ids, numbers::DType::kF32);
    EXPECT_LE(WorstError(PickedRows(got, text.rows), text.logits), kGoldenErrorMax);
    // Not the same bits: the order of rows is the order in which products are added.
    EXPECT_LE(WorstError(got, LogitsOf(*folder, text.ids, numbers::DType::kF32)), 1e-5);
    EXPECT_EQ(got, LogitsOf(*gguf, text.ids, numbers::DType::kF32, 7));
  }
  EXPECT_EQ(GreedyTokens(*gguf, expected_.prompt, expected_.greedy.size()), expected_.greedy);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenGgufFile, testing::Values("f16", "q8_0"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(GoldenGguf, TypesThatHoldTheSameValuesGiveTheSameBits) {
  const auto half = Load("llama_gguf/llama-f16.gguf", numbers::DType::kF32);
  const auto blocks = Load("llama_gguf/llama-q8_0.gguf", numbers::DType::kF32);
  ASSERT_TRUE(half != nullptr && blocks != nullptr);
  for (const GoldenText& text : expected_.texts) {
    EXPECT_EQ(LogitsOf(*half, text.ids, numbers::DType::kF32),
              LogitsOf(*blocks, text.ids, numbers::DType::kF32));
  }
}

TEST_F(GoldenGguf, RowsOfEightBitsStayClose) {
  const auto model = Load("llama_gguf/llama-q8_0.gguf", numbers::DType::kI8);
  ASSERT_NE(model, nullptr);
  for (const GoldenText& text : expected_.texts) {
    const LogitRows got = LogitsOf(*model, text.ids, numbers::DType::kF32);
    EXPECT_LE(WorstError(PickedRows(got, text.rows), text.logits), 0.1);
    EXPECT_EQ(got, LogitsOf(*model, text.ids, numbers::DType::kF32, 7));
  }
}

}  // namespace
}  // namespace penstock::generate

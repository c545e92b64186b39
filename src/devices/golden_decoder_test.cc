// Every golden decoder on the emulated device: the tokens of the CPU in f32, and close in f16.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cuda/golden_device_test_util.h"
#include "generate/golden_decoder_test_util.h"

namespace penstock::devices {
namespace {

using generate::GoldenReference;
using generate::GoldenText;
using numbers::DType;

class CudaGoldenDecoder : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "step_run_test.cc runs the same kernels on smaller models";
#endif
    expected_ = generate::ReadReference(GetParam());
  }
  std::unique_ptr<models::DecoderModel> Load(DType dtype) {
    backend_ = cuda::NewCudaBackend(cuda::TestDevice({}));
    return generate::LoadDecoder(generate::GoldenPath(GetParam()), backend_.get(), dtype,
                                 expected_.context);
  }

  GoldenReference expected_;
  std::unique_ptr<program::Backend> backend_;
};

TEST_P(CudaGoldenDecoder, HasTheTokensOfTheReferenceInF32) {
  const auto model = Load(DType::kF32);
  ASSERT_NE(model, nullptr);
  double worst = 0;
  for (const GoldenText& text : expected_.texts) {
    const generate::LogitRows all = generate::LogitsOf(*model, text.ids, DType::kF32);
    ASSERT_EQ(all.size(), text.ids.size());
    worst =
        std::max(worst, generate::WorstError(generate::PickedRows(all, text.rows), text.logits));
  }
  EXPECT_LE(worst, generate::kGoldenErrorMax);
  RecordProperty("error_max", std::to_string(worst));
  EXPECT_EQ(generate::GreedyTokens(*model, expected_.prompt, expected_.greedy.size()),
            expected_.greedy);
}

// As far as bf16 moves them on the CPU, a bound that tells a mistake from rounding; f16 has three
// bits more.
TEST_P(CudaGoldenDecoder, StaysCloseInF16) {
  const auto model = Load(DType::kF16);
  ASSERT_NE(model, nullptr);
  const GoldenText& text = expected_.texts.front();
  const generate::LogitRows all = generate::LogitsOf(*model, text.ids, DType::kBf16);
  EXPECT_LE(generate::WorstError(generate::PickedRows(all, text.rows), text.logits), 0.05);
}

INSTANTIATE_TEST_SUITE_P(All, CudaGoldenDecoder, testing::ValuesIn(generate::GoldenDecoders()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace penstock::devices

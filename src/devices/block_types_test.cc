// Blocks of GGUF on the emulated device and on the CPU, each in the type that it takes by itself: how
// far the next token's distribution is from that of the numbers that the blocks stand for.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cuda/golden_device_test_util.h"
#include "program/tiny_decoder_test_util.h"

namespace penstock::devices {
namespace {

using numbers::DType;

// The mean of KL(wanted || other) over rows of logits.
double MeanKl(const std::vector<std::vector<double>>& wanted, std::span<const float> other) {
  const auto log_sum = [](const auto& logits) {
    double sum = 0;
    for (const double one : logits) sum += std::exp(one);
    return std::log(sum);
  };
  double sum = 0;
  for (size_t row = 0; row < wanted.size(); ++row) {
    const std::vector<double>& p = wanted[row];
    const auto q = other.subspan(row * p.size(), p.size());
    const double p_sum = log_sum(p), q_sum = log_sum(q);
    for (size_t i = 0; i < p.size(); ++i) {
      const double log_p = p[i] - p_sum;
      sum += std::exp(log_p) * (log_p - (q[i] - q_sum));
    }
  }
  return sum / static_cast<double>(wanted.size());
}

TEST(BlockTypes, AreCloserThanOnTheCpu) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "step_run_test.cc runs the same kernels";
#endif
  program::TinyShape shape;
  shape.hidden = shape.inner = 256;
  shape.heads = 4;
  shape.head_size = shape.rope_size = 64;
  shape.layers = 2;
  shape.vocabulary = 300;
  const std::vector<int32_t> ids = program::RandomIds(shape, 64, 2);
  for (const DType stored : {DType::kQ8_0, DType::kQ4K, DType::kQ6K}) {
    const program::TinyWeights weights(shape, stored, 3);
    const auto kl = [&](std::unique_ptr<program::Backend> backend) {
      const DType type = backend->StepDType(stored);
      program::TinyDecoder decoder(weights, type, std::move(backend));
      // A cache in bf16 would move both alike.
      const auto run = decoder.NewRun(DType::kF32, 64);
      const std::vector<float> logits = program::RunInSteps(run.get(), shape, ids, {64});
      return MeanKl(program::PlainLogits(weights, ids), logits);
    };
    const double device = kl(cuda::NewCudaBackend(cuda::TestDevice({})));
    const double host = kl(*cpu::NewCpuBackend({.threads = 1, .pin = false}));
    RecordProperty(std::string(numbers::DTypeName(stored)) + "_device", std::to_string(device));
    EXPECT_LE(device, host / 2) << numbers::DTypeName(stored);
    GTEST_LOG_(INFO) << numbers::DTypeName(stored) << ": " << device << ", on the CPU " << host;
  }
}

}  // namespace
}  // namespace penstock::devices

// Kernels against scalar ones, and the scalar ones against plain formulae in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/self_check.h"
#include "cpu/test_util.h"

namespace penstock::cpu {
namespace {

TEST(Kernels, EveryInstructionSetAgreesWithScalar) {
  for (const program::KernelDifference& check : CheckKernels()) {
    EXPECT_LE(check.error, check.error_max) << check.of;
  }
}

TEST(Dispatch, ForcedSetsAndUnknownOnes) {
  for (const Kernels* kernels : AllKernels()) {
    auto selected = ChooseKernels(kernels->name);
    ASSERT_TRUE(selected.ok());
    EXPECT_EQ(*selected, kernels);
  }
  auto unknown = ChooseKernels("sse9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(unknown.status().message().find("scalar"), std::string::npos);
}

// Runs a function of one number through the activation of a 1x1 linear layer.
std::vector<float> Apply(CpuDevice* device, program::Activation activation,
                         const std::vector<float>& x, numbers::DType dtype = numbers::DType::kF32) {
  const auto identity = PackFor(device, {1.0f}, {}, 1, dtype);
  std::vector<float> y(x.size());
  device->ops.gemm().Linear(x.data(), x.size(), *identity, activation, y.data());
  return y;
}

class EveryIsa : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto kernels = ChooseKernels(GetParam());
    ASSERT_TRUE(kernels.ok());
    device_ = NewTestDevice(**kernels, 2);
  }
  std::unique_ptr<CpuDevice> device_;
};

TEST_P(EveryIsa, ActivationsAgreeWithDoublePrecision) {
  std::vector<float> x;
  for (float v = -12; v <= 12; v += 0.003f) x.push_back(v);
  for (float v : {0.0f, 1e-30f, -1e-30f, 1e-5f, 40.0f, -40.0f, 90.0f, -90.0f}) x.push_back(v);
  const auto check = [&](program::Activation activation, auto&& formula) {
    const std::vector<float> y = Apply(device_.get(), activation, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = formula(static_cast<double>(x[i]));
      EXPECT_NEAR(y[i], want, 4e-7 * std::max(1.0, std::abs(static_cast<double>(x[i])))) << x[i];
    }
  };
  check(program::Activation::kGelu,
        [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  check(program::Activation::kGeluTanh, [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  });
  check(program::Activation::kRelu, [](double v) { return std::max(v, 0.0); });
  check(program::Activation::kSilu, [](double v) { return v / (1 + std::exp(-v)); });
  check(program::Activation::kTanh, [](double v) { return std::tanh(v); });
}

// bf16 GEMMs take GELU with a polynomial; its inputs here are exact in bf16.
TEST_P(EveryIsa, CoarseGeluIsWithinItsBound) {
  std::vector<float> x;
  for (float v = -16; v <= 16; v += 0.0625f) x.push_back(v);
  for (float v : {0.0f, 4.2001953125f, 1e4f, -1e4f}) x.push_back(v);
  const std::vector<float> y =
      Apply(device_.get(), program::Activation::kGelu, x, numbers::DType::kBf16);
  const std::vector<float> same =
      Apply(device_.get(), program::Activation::kNone, x, numbers::DType::kBf16);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(same[i]);
    EXPECT_NEAR(y[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))), 8e-5 + 4e-6 * std::abs(v));
  }
}

TEST_P(EveryIsa, NanGoesThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (program::Activation activation :
       {program::Activation::kNone, program::Activation::kGelu, program::Activation::kGeluTanh,
        program::Activation::kRelu, program::Activation::kSilu, program::Activation::kTanh}) {
    const std::vector<float> y = Apply(device_.get(), activation, {1.0f, nan, 2.0f});
    EXPECT_FALSE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(y[1])) << static_cast<int>(activation);
    EXPECT_FALSE(std::isnan(y[2]));
  }
}

// A NaN in one sequence stays there.
TEST_P(EveryIsa, AttentionKeepsSequencesApart) {
  const int32_t size = 8;
  std::vector<float> qkv(20 * 3 * size, 0.5f);
  qkv[3 * 3 * size] = std::numeric_limits<float>::quiet_NaN();  // q of token 3
  std::vector<float> out(20 * size);
  const std::vector<int32_t> offsets = {0, 7, 20};
  AttentionArgs args;
  args.qkv = qkv.data();
  args.out = out.data();
  args.offsets = offsets;
  args.shape.heads = 1;
  args.shape.head_size = size;
  device_->ops.Attention(args);
  EXPECT_TRUE(std::isnan(out[3 * size]));
  for (size_t i = 7 * size; i < out.size(); ++i) EXPECT_FLOAT_EQ(out[i], 0.5f);
}

INSTANTIATE_TEST_SUITE_P(Isa, EveryIsa, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Kernels* kernels : AllKernels()) {
                             names.push_back(kernels->name);
                           }
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace penstock::cpu

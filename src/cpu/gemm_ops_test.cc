// The operations made of linear layers, against the layers they are made of: to the bit, for every
// instruction set and type, however many rows and threads.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/test_util.h"

namespace penstock::cpu {
namespace {

constexpr int32_t kHidden = 70;
constexpr int32_t kInner = 300;       // two groups of int8 scales, the second one short
constexpr int32_t kWideInner = 3001;  // a block of rows does not fit the cache: chunks of k

std::vector<float> Random(size_t n, unsigned seed) { return NormalFloats(n, seed, 0, 0.3f); }

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Operations : public testing::TestWithParam<const Kernels*> {
 protected:
  std::unique_ptr<CpuDevice> NewDevice(int threads) const {
    return NewTestDevice(*GetParam(), threads);
  }
};

struct FeedForwardCase {
  numbers::DType in, out;
  bool gated, norm, sum;
  int32_t inner = kInner;
};

class Layer {
 public:
  Layer(CpuDevice* device, const FeedForwardCase& c) : device_(device), case_(c) {
    in_ = Pack(c.inner, kHidden, 1, c.in);
    if (c.gated) gate_ = Pack(c.inner, kHidden, 2, c.in);
    out_ = Pack(kHidden, c.inner, 3, c.out);
    if (c.norm) norm_ = {gamma_.data(), beta_.data(), 1e-5f};
  }

  // y, then the sum, `step` rows a call.
  std::vector<float> Fused(const std::vector<float>& x, const std::vector<float>& residual,
                           size_t step) const {
    std::vector<float> y = residual;  // in place
    std::vector<float> sum(y.size());
    const size_t rows = x.size() / kHidden;
    for (size_t r = 0; r < rows; r += step) {
      FeedForwardArgs args;
      args.x = x.data() + r * kHidden;
      args.rows = std::min(step, rows - r);
      args.in = in_.get();
      args.gate = gate_.get();
      args.activation = program::Activation::kGelu;
      args.out = out_.get();
      args.residual = y.data() + r * kHidden;
      args.norm = norm_;
      args.sum = case_.sum ? sum.data() + r * kHidden : nullptr;
      args.y = y.data() + r * kHidden;
      args.next = in_.get();
      device_->ops.gemm().FeedForward(args);
    }
    y.insert(y.end(), sum.begin(), sum.end());
    return y;
  }

  std::vector<float> InSteps(const std::vector<float>& x,
                             const std::vector<float>& residual) const {
    const size_t rows = x.size() / kHidden;
    GemmOps& gemm = device_->ops.gemm();
    std::vector<float> inner(rows * static_cast<size_t>(case_.inner));
    gemm.Linear(x.data(), rows, *in_, program::Activation::kGelu, inner.data());
    if (gate_ != nullptr) {
      std::vector<float> factor(inner.size());
      gemm.Linear(x.data(), rows, *gate_, program::Activation::kNone, factor.data());
      for (size_t i = 0; i < inner.size(); ++i) inner[i] *= factor[i];
    }
    std::vector<float> y(residual.size());
    std::vector<float> sum(residual.size());
    gemm.LinearNorm(inner.data(), rows, *out_,
                    {residual.data(), norm_, case_.sum ? sum.data() : nullptr, y.data()});
    y.insert(y.end(), sum.begin(), sum.end());
    return y;
  }

 private:
  std::unique_ptr<PanelLinear> Pack(int32_t out, int32_t in, unsigned seed,
                                    numbers::DType dtype) const {
    const std::vector<float> weight =
        Random(static_cast<size_t>(out) * static_cast<size_t>(in), seed);
    const std::vector<float> bias = Random(static_cast<size_t>(out), seed + 10);
    return PackFor(device_, weight, bias, static_cast<size_t>(in), dtype);
  }

  CpuDevice* device_;
  FeedForwardCase case_;
  std::unique_ptr<PanelLinear> in_, gate_, out_;
  std::vector<float> gamma_ = Random(kHidden, 21);
  std::vector<float> beta_ = Random(kHidden, 22);
  NormWeights norm_;
};

TEST_P(Operations, FeedForwardIsTheSameAsItsLinears) {
  const numbers::DType kF = numbers::DType::kF32, kB = numbers::DType::kBf16,
                       kI = numbers::DType::kI8;
  const std::vector<FeedForwardCase> cases = {{kF, kF, false, true, false},
                                              {kF, kF, true, true, true},
                                              {kB, kB, false, true, false},
                                              {kB, kB, true, false, true},
                                              {kI, kI, false, true, false},
                                              {kI, kI, true, true, true},
                                              {kI, kB, false, true, false},
                                              {kB, kF, true, true, false},
                                              {kF, kF, false, true, false, kWideInner}};
  constexpr size_t kRows = 230;
  const std::vector<float> x = Random(kRows * kHidden, 31);
  const std::vector<float> residual = Random(kRows * kHidden, 32);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto one = NewDevice(1);
    const std::vector<float> want = Layer(one.get(), cases[i]).InSteps(x, residual);
    for (int threads : {1, 2, 3}) {
      const auto device = NewDevice(threads);
      const Layer layer(device.get(), cases[i]);
      for (size_t step : {size_t{1}, size_t{16}, size_t{45}, kRows}) {
        EXPECT_TRUE(Same(layer.Fused(x, residual, step), want))
            << "case " << i << ", " << threads << " threads, " << step << " rows a call";
      }
    }
  }
}

TEST_P(Operations, AttentionOfOneTokenIsThatOfAll) {
  const auto device = NewDevice(2);
  constexpr size_t kHeads = 3, kSize = 8, kWidth = kHeads * kSize;
  // The last one takes several blocks of keys.
  const std::vector<int32_t> offsets = {0, 1, 40, 97, 1297};
  const std::vector<int32_t> skip = {0, 37, 20, 515};
  constexpr size_t kTokens = 1297;
  const std::vector<float> qkv = Random(kTokens * 3 * kWidth, 41);
  for (numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
    for (int32_t window : {0, 5, 600}) {
      std::vector<float> all(kTokens * kWidth), one(4 * kWidth);
      AttentionArgs args;
      args.qkv = qkv.data();
      args.out = all.data();
      args.offsets = offsets;
      args.shape = {.heads = kHeads, .head_size = kSize, .scale = 2, .dtype = dtype};
      args.shape.window = window;
      device->ops.Attention(args);
      args.out = one.data();
      for (const program::Pick pick : {program::Pick::kFirst, program::Pick::kLast}) {
        for (const bool skips : {false, true}) {
          args.queries = pick;
          args.skip = skips ? std::span<const int32_t>(skip) : std::span<const int32_t>();
          device->ops.Attention(args);
          for (size_t s = 0; s < skip.size(); ++s) {
            const int32_t query = pick == program::Pick::kLast ? offsets[s + 1] - 1
                                                               : offsets[s] + (skips ? skip[s] : 0);
            const float* want = all.data() + static_cast<size_t>(query) * kWidth;
            EXPECT_EQ(std::memcmp(one.data() + s * kWidth, want, kWidth * sizeof(float)), 0)
                << numbers::DTypeName(dtype) << " window " << window << " sequence " << s;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Operations, testing::ValuesIn(AllKernels()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace penstock::cpu

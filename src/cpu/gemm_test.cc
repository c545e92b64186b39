// Linear layers of every data type on every instruction set: against double precision and exact
// integers, over odd shapes; and the same bits however rows are cut and threads counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/packed_linear.h"
#include "cpu/test_util.h"

namespace penstock::cpu {
namespace {

struct Shape {
  size_t rows, in, out;
};
// Tails in every direction: of tiles, panels, words, groups of scales.
const std::vector<Shape> kShapes = {{1, 1, 1},     {3, 5, 7},     {13, 255, 33}, {14, 256, 32},
                                    {15, 257, 31}, {29, 770, 65}, {2, 1537, 96}, {113, 61, 100}};

std::vector<float> Random(size_t n, unsigned seed) { return NormalFloats(n, seed, 0.1f, 1); }

float RoundBf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

class Gemm : public testing::TestWithParam<const Kernels*> {
 protected:
  std::unique_ptr<CpuDevice> NewDevice(int threads) const {
    return NewTestDevice(*GetParam(), threads);
  }
  // x W^T + bias on two threads. `factors`: empty, or of the columns.
  std::vector<float> Multiply(const Shape& shape, const std::vector<float>& x,
                              const std::vector<float>& weight, const std::vector<float>& bias,
                              numbers::DType dtype, const std::vector<float>& factors = {}) const {
    const auto device = NewDevice(2);
    const auto packed = PackFor(device.get(), weight, bias, shape.in, dtype, factors);
    std::vector<float> y(shape.rows * shape.out);
    device->ops.gemm().Linear(x.data(), shape.rows, *packed, program::Activation::kNone, y.data());
    return y;
  }
};

// Errors of a chain of `in` additions whose terms' sizes sum up to `size`.
double Rounding(size_t in, double size) {
  return 6e-8 * (4 + std::sqrt(static_cast<double>(in))) * size;
}

TEST_P(Gemm, F32AndBf16AgreeWithDoublePrecision) {
  for (numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
    for (const Shape& shape : kShapes) {
      std::vector<float> x = Random(shape.rows * shape.in, 1);
      std::vector<float> weight = Random(shape.out * shape.in, 2);
      const std::vector<float> bias = Random(shape.out, 3);
      const std::vector<float> y = Multiply(shape, x, weight, bias, dtype);
      if (dtype == numbers::DType::kBf16) {
        for (float& v : x) v = RoundBf16(v);
        for (float& v : weight) v = RoundBf16(v);
      }
      for (size_t r = 0; r < shape.rows; ++r) {
        for (size_t c = 0; c < shape.out; ++c) {
          double want = bias[c], size = std::abs(want);
          for (size_t k = 0; k < shape.in; ++k) {
            const double product = static_cast<double>(x[r * shape.in + k]) *
                                   static_cast<double>(weight[c * shape.in + k]);
            want += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(y[r * shape.out + c], want, Rounding(shape.in, size))
              << numbers::DTypeName(dtype) << " k=" << shape.in << " row " << r << " column " << c;
        }
      }
    }
  }
}

// Checks the kernel's quantised rows against x, and its result against an exact GEMM of them.
// `factors`: empty, or of the columns.
void CheckInt8(const Kernels& kernels, const Shape& shape, const std::vector<float>& x,
               const std::vector<float>& weight, const std::vector<float>& bias,
               const std::vector<float>& factors, const std::vector<float>& y) {
  const size_t in = shape.in;
  HugePageArena arena;
  const PanelLinear packed({program::ViewOf(weight, static_cast<int64_t>(in)),
                            program::ViewOf(bias, static_cast<int64_t>(shape.out))},
                           {numbers::DType::kI8, factors}, static_cast<size_t>(kernels.panel),
                           &arena);
  AlignedBuffer memory(shape.rows * PackedRowBytes(numbers::DType::kI8, in), &arena);
  const PackedRows rows(memory.data(), shape.rows, packed);
  kernels.pack_rows(rows.Pack(x.data(), in, shape.rows, 0, in));
  const auto factor = [&](size_t k) { return factors.empty() ? 1 : factors[k]; };
  const size_t groups = ScaleGroups(numbers::DType::kI8, in);
  for (size_t r = 0; r < shape.rows; ++r) {
    const Word* words = rows.words + r * RowStride(numbers::DType::kI8, in);
    const auto q = [&](size_t k) -> int32_t {
      const uint8_t byte = reinterpret_cast<const uint8_t*>(words)[k];
      return kernels.signed_rows ? static_cast<int8_t>(byte) : byte;
    };
    const RowScale* scales = rows.scales + r * groups;
    for (size_t k = 0; k < in; ++k) {
      const RowScale& scale = scales[k / kScaleGroup];
      ASSERT_NEAR(static_cast<double>(scale.scale) * (q(k) - scale.zero),
                  x[r * in + k] * (1 / factor(k)), 0.502 * static_cast<double>(scale.scale))
          << k;
    }
    for (size_t c = 0; c < shape.out; ++c) {
      double want = bias[c], size = std::abs(want);
      for (size_t g = 0; g < groups; ++g) {
        const size_t begin = g * kScaleGroup;
        const size_t end = std::min(in, begin + kScaleGroup);
        const float* w = weight.data() + c * in;
        float largest = 0;
        for (size_t k = begin; k < end; ++k)
          largest = std::max(largest, std::abs(w[k] * factor(k)));
        int64_t sum = 0;
        for (size_t k = begin; k < end; ++k) {
          sum += (q(k) - scales[g].zero) * std::lrint(w[k] * factor(k) * (127 / largest));
        }
        const double part = static_cast<double>(sum) * static_cast<double>(largest) / 127 *
                            static_cast<double>(scales[g].scale);
        want += part;
        size += std::abs(part);
      }
      ASSERT_NEAR(y[r * shape.out + c], want, Rounding(groups, size))
          << "k=" << in << " row " << r << " column " << c;
    }
  }
}

TEST_P(Gemm, Int8IsExactButForScales) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> x = Random(shape.rows * shape.in, 1);
    const std::vector<float> weight = Random(shape.out * shape.in, 2);
    const std::vector<float> bias = Random(shape.out, 3);
    std::vector<float> factors = Random(shape.in, 4);
    for (float& v : factors) v = 0.1f + std::abs(v);
    for (const std::vector<float>& given : {std::vector<float>(), factors}) {
      CheckInt8(*GetParam(), shape, x, weight, bias, given,
                Multiply(shape, x, weight, bias, numbers::DType::kI8, given));
    }
  }
}

// A column far larger than the rest costs them their precision; factors give it back.
TEST_P(Gemm, FactorsOfColumnsEvenOutliers) {
  const Shape shape = {9, 200, 33};
  std::vector<float> x = Random(shape.rows * shape.in, 10);
  const std::vector<float> weight = Random(shape.out * shape.in, 11);
  const std::vector<float> bias(shape.out, 0);
  std::vector<float> factors(shape.in, 1);
  factors[77] = 8;
  for (size_t r = 0; r < shape.rows; ++r) x[r * shape.in + 77] *= 50;
  const std::vector<float> want = Multiply(shape, x, weight, bias, numbers::DType::kF32);
  const auto error = [&](const std::vector<float>& given) {
    const std::vector<float> y = Multiply(shape, x, weight, bias, numbers::DType::kI8, given);
    double squares = 0;
    for (size_t i = 0; i < y.size(); ++i) squares += std::pow(y[i] - want[i], 2);
    return std::sqrt(squares / static_cast<double>(y.size()));
  };
  EXPECT_LT(error(factors), 0.6 * error({}));
}

// Extremes do not saturate: every byte at its end, the sums of a whole group.
TEST_P(Gemm, Int8HoldsExtremes) {
  const Shape shape = {2, 512, 33};
  std::vector<float> x(shape.rows * shape.in, 1);
  std::fill(x.begin() + static_cast<ptrdiff_t>(shape.in), x.end(), -1.0f);
  const auto sign = [](size_t column) { return column % 2 == 0 ? -1.0f : 1.0f; };
  std::vector<float> weight(shape.out * shape.in);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 3 * sign(i / shape.in);
  const std::vector<float> bias(shape.out, 0);
  const std::vector<float> y = Multiply(shape, x, weight, bias, numbers::DType::kI8);
  for (size_t c = 0; c < shape.out; ++c) {
    EXPECT_FLOAT_EQ(y[c], 3 * 512 * sign(c));
    EXPECT_FLOAT_EQ(y[shape.out + c], -3 * 512 * sign(c));
  }
}

TEST_P(Gemm, SameBitsForAnyCutAndThreads) {
  for (numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8}) {
    const Shape shape = {131, 390, 100};
    const std::vector<float> x = Random(shape.rows * shape.in, 4);
    const std::vector<float> weight = Random(shape.out * shape.in, 5);
    const std::vector<float> bias = Random(shape.out, 6);
    const auto run = [&](int threads, size_t step) {
      const auto device = NewDevice(threads);
      const auto packed = PackFor(device.get(), weight, bias, shape.in, dtype);
      std::vector<float> y(shape.rows * shape.out);
      for (size_t r = 0; r < shape.rows; r += step) {
        device->ops.gemm().Linear(x.data() + r * shape.in, std::min(step, shape.rows - r), *packed,
                                  program::Activation::kGelu, y.data() + r * shape.out);
      }
      return y;
    };
    const std::vector<float> want = run(1, shape.rows);
    for (int threads : {1, 2, 3}) {
      for (size_t step : {size_t{1}, size_t{17}, size_t{64}, shape.rows}) {
        const std::vector<float> y = run(threads, step);
        EXPECT_EQ(std::memcmp(y.data(), want.data(), y.size() * sizeof(float)), 0)
            << numbers::DTypeName(dtype) << ", " << threads << " threads, " << step
            << " rows a call";
      }
    }
  }
}

// Weights are packed from any stored type: f16 and bf16 give the bits of their floats, several
// parts those of one matrix.
TEST_P(Gemm, PackedFromStoredTypesAndParts) {
  const Shape shape = {5, 70, 40};
  const std::vector<float> x = Random(shape.rows * shape.in, 12);
  const std::vector<float> bias = Random(shape.out, 14);
  std::vector<float> weight(shape.out * shape.in);
  for (size_t i = 0; i < weight.size(); ++i) {  // exact in both
    weight[i] = static_cast<float>(static_cast<int>(i * 37 % 129) - 64) / 64;
  }
  std::vector<uint16_t> bf16, f16;
  for (const float v : weight) {
    bf16.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
    const uint32_t bits = std::bit_cast<uint32_t>(v);
    const uint32_t rest = bits & 0x7fffffff;
    f16.push_back(static_cast<uint16_t>(bits >> 16 & 0x8000) |
                  static_cast<uint16_t>(rest == 0 ? 0 : (rest - (112u << 23)) >> 13));
  }
  const auto device = NewDevice(2);
  for (const numbers::DType dtype :
       {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8}) {
    const std::vector<float> want = Multiply(shape, x, weight, bias, dtype);
    for (const auto& [stored, bits] :
         {std::pair{numbers::DType::kBf16, &bf16}, {numbers::DType::kF16, &f16}}) {
      const auto in = static_cast<int64_t>(shape.in), out = static_cast<int64_t>(shape.out);
      const program::TensorView view = {stored, out, in, std::as_bytes(std::span(*bits)).data()};
      const std::vector<program::LinearRows> parts = {
          {view.Rows(0, 13), program::ViewOf(std::span(bias).first(13), 13)},
          {view.Rows(13, 27), program::ViewOf(std::span(bias).subspan(13), 27)}};
      const PanelLinear packed(parts, {dtype, {}}, static_cast<size_t>(GetParam()->panel),
                               &device->weight_arena);
      device->ReserveLinear(packed);
      std::vector<float> y(want.size());
      device->ops.gemm().Linear(x.data(), shape.rows, packed, program::Activation::kNone, y.data());
      EXPECT_EQ(y, want) << numbers::DTypeName(dtype) << " of " << numbers::DTypeName(stored);
    }
  }
}

TEST_P(Gemm, NanAndInfinityStayInTheirRow) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (numbers::DType dtype : {numbers::DType::kBf16, numbers::DType::kI8}) {
      const Shape shape = {5, 300, 40};
      std::vector<float> x = Random(shape.rows * shape.in, 7);
      x[2 * shape.in + 299] = bad;
      const std::vector<float> y =
          Multiply(shape, x, Random(shape.out * shape.in, 8), std::vector<float>(shape.out, 0),
                   dtype, std::vector<float>(shape.in, 3));
      for (size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(std::isfinite(y[i]), i / shape.out != 2) << numbers::DTypeName(dtype) << " " << i;
      }
    }
  }
}

TEST_P(Gemm, Int8RowsOfZerosAndTinyValues) {
  const Shape shape = {3, 40, 8};
  std::vector<float> x(shape.rows * shape.in, 0);
  std::fill(x.begin() + 40, x.begin() + 80, 1e-38f);
  std::fill(x.begin() + 80, x.end(), 1e30f);
  const std::vector<float> y = Multiply(shape, x, std::vector<float>(shape.out * shape.in, 1),
                                        std::vector<float>(shape.out, 0.25f), numbers::DType::kI8);
  for (size_t c = 0; c < shape.out; ++c) {
    EXPECT_EQ(y[c], 0.25f);
    EXPECT_NEAR(y[shape.out + c], 0.25f, 1e-6);
    EXPECT_NEAR(y[2 * shape.out + c] / 4e31f, 1, 1e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Gemm, testing::ValuesIn(AllKernels()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace penstock::cpu

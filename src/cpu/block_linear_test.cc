// Linear layers of GGUF blocks on every instruction set: bit by bit against a scalar emulation of
// the chain in block_layout.h, against double precision, and the same bits for any number of rows,
// cut and number of threads.
#include "cpu/block_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "cpu/amx.h"
#include "cpu/dispatch.h"
#include "cpu/test_util.h"
#include "numbers/dtype.h"
#include "numbers/random_blocks.h"

namespace penstock::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<numbers::DType> QuantTypes() {
  std::vector<numbers::DType> out;
  for (const numbers::DType type : numbers::kStoredTypes) {
    if (numbers::IsBlockType(type)) out.push_back(type);
  }
  return out;
}

bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

float RoundBf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// A matrix, a layer of it, and rows to multiply.
class Layer {
 public:
  Layer(const Kernels* kernels, numbers::DType stored, numbers::DType dtype, size_t in, size_t out,
        std::vector<std::byte> blocks = {}, const std::vector<float>& bias = {})
      : kernels_(kernels), stored_(stored), in_(in), out_(out), blocks_(std::move(blocks)) {
    if (blocks_.empty())
      blocks_ = numbers::RandomBlocks(stored, out * in / numbers::BlockOf(stored).elements, 11);
    ThreadPool pool(2, false);
    program::LinearRows rows = {View(), {}};
    if (!bias.empty()) rows.bias = program::ViewOf(bias, static_cast<int64_t>(out));
    auto packed = BlockLinear::Pack({&rows, 1}, {dtype, {}}, kernels, &pool, &arena_);
    PENSTOCK_CHECK(packed.ok());
    linear_ = std::move(*packed);
  }

  const BlockLinear& linear() const { return *linear_; }
  // As stored.
  program::TensorView View() const {
    return {stored_, static_cast<int64_t>(out_), static_cast<int64_t>(in_), blocks_.data()};
  }

  struct Rows {
    HugePageArena::Block memory;
    const Word* packed = nullptr;
    // Of kInt8, row by row.
    std::vector<uint8_t> codes;      // [rows][in]
    std::vector<BlockScale> scales;  // [rows][in / 32]
  };
  Rows Pack(const std::vector<float>& x) {
    const size_t rows = x.size() / in_;
    Rows out;
    out.memory = arena_.Alloc(linear_->PackedWords(rows) * sizeof(Word));
    auto* packed = static_cast<Word*>(out.memory.data);
    linear_->PackRows(x.data(), in_, rows, packed);
    out.packed = packed;
    if (linear_->dtype() != numbers::DType::kI8) return out;
    out.codes.resize(x.size());
    out.scales.resize(x.size() / 32);
    for (size_t r = 0; r < rows; ++r) {
      const BlockRowCut cut =
          CutBlockRows(numbers::DType::kI8, rows, static_cast<size_t>(kernels_->tile_rows),
                       static_cast<size_t>(kernels_->coarse_rows), BlockTileRowsMin(*kernels_));
      const BlockRowPlace place = BlockRowAt(numbers::DType::kI8, in_, rows, cut, r);
      for (size_t g = 0; g < in_ / 32; ++g) {
        Word words[11];
        for (size_t w = 0; w < 11; ++w) {
          words[w] = packed[BlockWordAt(numbers::DType::kI8, place, g, w)];
        }
        std::memcpy(out.codes.data() + r * in_ + 32 * g, words, 32);
        std::memcpy(&out.scales[r * (in_ / 32) + g], words + 8, sizeof(BlockScale));
      }
    }
    return out;
  }

  // By `threads`, each a range of panels.
  std::vector<float> Multiply(const std::vector<float>& x, size_t threads = 1, BlockRun run = {}) {
    const Rows packed = Pack(x);
    run.x = packed.packed;
    run.rows = x.size() / in_;
    std::vector<float> y(run.rows * out_, -7.0f);
    if (run.y == nullptr) run.y = y.data();
    run.y_stride = out_;
    std::vector<std::thread> workers;
    for (size_t t = 0; t < threads; ++t) {
      const size_t begin = linear_->panels() * t / threads;
      const size_t end = linear_->panels() * (t + 1) / threads;
      const HugePageArena::Block scratch = arena_.Alloc(kBlockScratchBytes);
      workers.emplace_back([this, run, begin, end, scratch]() mutable {
        run.scratch = scratch.data;
        linear_->Run(run, begin, end - begin);
      });
    }
    for (std::thread& worker : workers) worker.join();
    return y;
  }

  // The weights as floats, [out][in].
  std::vector<float> Weights() const {
    std::vector<float> out(out_ * in_);
    View().CopyToF32(0, static_cast<int64_t>(out_), out.data());
    return out;
  }

  // The chain of block_layout.h, step by step.
  std::vector<float> Emulate(const std::vector<float>& x, const std::vector<float>& bias = {}) {
    const Rows packed = Pack(x);
    std::vector<float> y(x.size() / in_ * out_);
    for (size_t c = 0; c < out_; ++c) {
      for (size_t r = 0; r < x.size() / in_; ++r) {
        y[r * out_ + c] = EmulateOne(packed, r, c, bias.empty() ? 0 : bias[c]);
      }
    }
    return y;
  }

 private:
  float Fma(float a, float b, float c) const {
    return kernels_->needs == 0 ? a * b + c : std::fma(a, b, c);
  }

  float EmulateOne(const Rows& rows, size_t row, size_t column, float y) const {
    const numbers::BlockFormat format = numbers::FormatOf(stored_);
    const uint8_t* q = rows.codes.data() + row * in_;
    const BlockScale* scales = rows.scales.data() + row * (in_ / 32);
    const size_t step = numbers::FormatOf(stored_).scale_elements;
    numbers::BlockFields block;
    for (size_t k = 0; k < in_; k += step) {
      if (k % format.elements == 0) {
        numbers::ReadBlock(
            stored_, blocks_.data() + (column * in_ + k) / format.elements * format.bytes, &block);
      }
      const BlockScale& scale = scales[k / 32];
      const size_t at = k % format.elements;
      int32_t sum = 0;
      for (size_t j = 0; j < step; ++j) {
        sum += (block.codes[at + j] - format.offset) * (q[k + j] - scale.zero);
      }
      float d = numbers::HalfToFloat(block.d), m = numbers::HalfToFloat(block.m);
      if (format.has_scales) {
        d = static_cast<float>(block.scales[at / step]) * d;
        m = static_cast<float>(block.mins[at / 32]) * -m;
      }
      y = Fma(static_cast<float>(sum) * d, scale.scale, y);
      if (format.has_min) y = Fma(m, scale.sum, y);
    }
    return y;
  }

  const Kernels* kernels_;
  numbers::DType stored_;
  size_t in_;
  size_t out_;
  std::vector<std::byte> blocks_;
  HugePageArena arena_;
  std::unique_ptr<BlockLinear> linear_;
};

class BlockLinearTest : public testing::TestWithParam<const Kernels*> {};

std::vector<float> Random(size_t n, unsigned seed) { return NormalFloats(n, seed, 0.1f, 1); }

TEST_P(BlockLinearTest, RowsAreQuantisedInGroupsOf32) {
  const size_t in = 96 + 32;
  std::vector<float> x = Random(2 * in, 1);
  std::fill(x.begin(), x.begin() + 32, 0.0f);
  for (size_t k = 32; k < 64; ++k) x[k] = 1 + std::abs(x[k]);  // zero is widened to
  Layer layer(GetParam(), numbers::DType::kQ8_0, numbers::DType::kI8, in, 5);
  const Layer::Rows packed = layer.Pack(x);
  for (size_t r = 0; r < 2; ++r) {
    const uint8_t* q = packed.codes.data() + r * in;
    for (size_t g = 0; g < in / 32; ++g) {
      const BlockScale& scale = packed.scales[r * (in / 32) + g];
      int steps = 0;
      for (size_t k = 32 * g; k < 32 * g + 32; ++k) {
        EXPECT_NEAR(scale.scale * static_cast<float>(q[k] - scale.zero), x[r * in + k],
                    0.502 * static_cast<double>(scale.scale));
        steps += q[k] - scale.zero;
      }
      EXPECT_EQ(scale.steps, steps);
      EXPECT_EQ(scale.sum, scale.scale * static_cast<float>(steps));
    }
  }
  EXPECT_EQ(packed.scales[0].scale, 0);
  EXPECT_EQ(packed.scales[1].zero, 0);
}

// The small kernel (to 8 rows) and the large one, both sides of every border between tiles; pieces
// of 2048 k; columns that fill no panel.
TEST_P(BlockLinearTest, BitsOfTheEmulatedChain) {
  for (const numbers::DType type : QuantTypes()) {
    for (const auto& [in, out] : {std::pair<size_t, size_t>{2048 + 256, 37}, {256, 70}}) {
      const std::vector<float> bias = Random(out, 3);
      Layer layer(GetParam(), type, numbers::DType::kI8, in, out, {}, bias);
      const std::vector<float> x = Random(31 * in, 2);
      const std::vector<float> want = layer.Emulate(x, bias);
      for (const size_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 28, 31}) {
        const std::vector<float> some(x.begin(), x.begin() + static_cast<ptrdiff_t>(rows * in));
        const std::vector<float> y = layer.Multiply(some);
        for (size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(y[i], want[i]) << numbers::DTypeName(type) << ", " << rows << " rows of " << in
                                   << ": row " << i / out << " column " << i % out;
        }
      }
    }
  }
}

TEST_P(BlockLinearTest, AgreesWithDoublePrecision) {
  const size_t in = 512, out = 40, rows = 9;
  for (const numbers::DType dtype :
       {numbers::DType::kI8, numbers::DType::kBf16, numbers::DType::kF32}) {
    for (const numbers::DType type : numbers::kStoredTypes) {
      if (dtype == numbers::DType::kI8 && !numbers::IsBlockType(type)) continue;
      Layer layer(GetParam(), type, dtype, in, out);
      std::vector<float> x = Random(rows * in, 4);
      const std::vector<float> y = layer.Multiply(x);
      std::vector<float> weights = layer.Weights();
      if (dtype == numbers::DType::kBf16) {
        for (float& v : x) v = RoundBf16(v);
        for (float& v : weights) v = RoundBf16(v);
      } else if (dtype == numbers::DType::kI8) {
        const Layer::Rows packed = layer.Pack(x);
        for (size_t i = 0; i < x.size(); ++i) {
          const BlockScale& scale = packed.scales[i / in * (in / 32) + i % in / 32];
          x[i] = scale.scale * static_cast<float>(packed.codes[i] - scale.zero);
        }
      }
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < out; ++c) {
          double want = 0, size = 0;
          for (size_t k = 0; k < in; ++k) {
            const double product =
                static_cast<double>(x[r * in + k]) * static_cast<double>(weights[c * in + k]);
            want += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(y[r * out + c], want, 6e-8 * (8 + std::sqrt(512.0)) * size)
              << numbers::DTypeName(type) << " dtype " << numbers::DTypeName(dtype) << " row " << r
              << " column " << c;
        }
      }
    }
  }
}

TEST_P(BlockLinearTest, SameBitsForAnyRowsAndThreads) {
  const size_t in = 768, out = 165;
  for (const numbers::DType dtype :
       {numbers::DType::kI8, numbers::DType::kBf16, numbers::DType::kF32}) {
    for (const numbers::DType type : numbers::kStoredTypes) {
      if (dtype == numbers::DType::kI8 && !numbers::IsBlockType(type)) continue;
      Layer layer(GetParam(), type, dtype, in, out);
      const std::vector<float> x = Random(64 * in, 5);
      const std::vector<float> want = layer.Multiply(x);
      for (size_t rows = 1; rows <= 64; ++rows) {
        // The last ones, so that a row's place in a tile changes too.
        const size_t first = 64 - rows;
        const std::vector<float> some(x.begin() + static_cast<ptrdiff_t>(first * in), x.end());
        const std::vector<float> y = layer.Multiply(some, 1 + rows % 3);
        ASSERT_EQ(std::memcmp(y.data(), want.data() + first * out, y.size() * sizeof(float)), 0)
            << numbers::DTypeName(type) << " dtype " << numbers::DTypeName(dtype) << ", " << rows
            << " rows";
      }
    }
  }
}

// More rows than one block holds in L2.
TEST_P(BlockLinearTest, SameBitsForManyRows) {
  const size_t in = 1024, out = 33, rows = 523;
  for (const numbers::DType type :
       {numbers::DType::kQ8_0, numbers::DType::kQ4K, numbers::DType::kQ6K}) {
    Layer layer(GetParam(), type, numbers::DType::kI8, in, out);
    const std::vector<float> x = Random(rows * in, 6);
    const std::vector<float> all = layer.Multiply(x, 2);
    for (const size_t row : {size_t{0}, size_t{223}, size_t{224}, size_t{400}, rows - 1}) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(row * in);
      const std::vector<float> y = layer.Multiply({begin, begin + static_cast<ptrdiff_t>(in)});
      ASSERT_EQ(std::memcmp(y.data(), all.data() + row * out, out * sizeof(float)), 0) << row;
    }
  }
}

// Codes and activations at their ends: no sum saturates.
TEST_P(BlockLinearTest, HoldsExtremes) {
  const size_t in = 256, out = 33;
  std::vector<float> x(3 * in, 1);
  std::fill(x.begin() + in, x.begin() + 2 * in, -1.0f);
  for (size_t k = 0; k < in; ++k) x[2 * in + k] = k % 2 == 0 ? 1.0f : -1.0f;
  for (const numbers::DType type : QuantTypes()) {
    for (const std::byte fill : {std::byte{0x80}, std::byte{0x7f}, std::byte{0xff}, std::byte{0}}) {
      std::vector<std::byte> blocks(
          out * in / numbers::FormatOf(type).elements * numbers::FormatOf(type).bytes, fill);
      for (size_t b = 0; b < blocks.size(); b += numbers::FormatOf(type).bytes) {
        std::byte* scale = blocks.data() + b + numbers::ScaleOffset(type);
        const uint16_t halves[] = {0x3c00, 0xc000};  // 1, -2
        std::memcpy(scale, halves, numbers::FormatOf(type).has_min ? 4 : 2);
      }
      Layer layer(GetParam(), type, numbers::DType::kI8, in, out, blocks);
      const std::vector<float> want = layer.Emulate(x);
      EXPECT_EQ(layer.Multiply(x), want) << numbers::DTypeName(type);
      std::vector<float> many;
      for (int i = 0; i < 5; ++i) many.insert(many.end(), x.begin(), x.end());
      const std::vector<float> y = layer.Multiply(many);
      EXPECT_EQ(std::vector<float>(y.end() - static_cast<ptrdiff_t>(want.size()), y.end()), want)
          << numbers::DTypeName(type);
    }
  }
}

// d and m of 0, the smallest subnormal, infinity and NaN: the bits of the chain; other columns keep
// theirs.
TEST_P(BlockLinearTest, OddScales) {
  const size_t in = 512, out = 35;
  for (const numbers::DType type : QuantTypes()) {
    const numbers::BlockFormat format = numbers::FormatOf(type);
    std::vector<std::byte> blocks = numbers::RandomBlocks(type, out * in / format.elements, 9);
    const uint16_t odd[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x7e00};
    for (size_t c = 0; c < std::size(odd); ++c) {
      for (size_t field = 0; field < (format.has_min ? 2u : 1u); ++field) {
        const size_t column = 2 * c + field;
        std::byte* block = blocks.data() + column * in / format.elements * format.bytes;
        std::memcpy(block + numbers::ScaleOffset(type) + 2 * field, &odd[c], 2);
      }
    }
    Layer layer(GetParam(), type, numbers::DType::kI8, in, out, blocks);
    const std::vector<float> x = Random(11 * in, 10);
    const std::vector<float> want = layer.Emulate(x);
    const std::vector<float> large = layer.Multiply(x);
    const std::vector<float> small = layer.Multiply({x.begin(), x.begin() + 2 * in});
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(SameBits(large[i], want[i])) << numbers::DTypeName(type) << " " << i;
      if (i < small.size())
        EXPECT_TRUE(SameBits(small[i], want[i])) << numbers::DTypeName(type) << " " << i;
      if (i % out >= 14)
        EXPECT_TRUE(std::isfinite(large[i])) << numbers::DTypeName(type) << " " << i;
    }
    // Infinities and NaN are seen, not lost.
    EXPECT_FALSE(std::isfinite(large[8])) << numbers::DTypeName(type);
    EXPECT_TRUE(std::isnan(large[12])) << numbers::DTypeName(type);
  }
}

TEST_P(BlockLinearTest, NanAndInfinityStayInTheirRow) {
  const size_t in = 256, out = 20;
  for (const numbers::DType dtype :
       {numbers::DType::kI8, numbers::DType::kBf16, numbers::DType::kF32}) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (const size_t rows : {5, 12}) {
        Layer layer(GetParam(), numbers::DType::kQ4K, dtype, in, out);
        std::vector<float> x = Random(rows * in, 7);
        x[2 * in + 77] = bad;
        const std::vector<float> y = layer.Multiply(x);
        for (size_t i = 0; i < y.size(); ++i) {
          EXPECT_EQ(std::isfinite(y[i]), i / out != 2) << i;
        }
      }
    }
  }
}

TEST_P(BlockLinearTest, FloatRowsMayEndAnywhere) {
  const size_t in = 77, out = 19, rows = 3;
  for (const numbers::DType dtype : {numbers::DType::kBf16, numbers::DType::kF32}) {
    for (const numbers::DType type :
         {numbers::DType::kF32, numbers::DType::kF16, numbers::DType::kBf16}) {
      Layer layer(GetParam(), type, dtype, in, out, {}, Random(out, 1));
      std::vector<float> x = Random(rows * in, 8);
      const std::vector<float> y = layer.Multiply(x);
      std::vector<float> weights = layer.Weights();
      const std::vector<float> bias = Random(out, 1);
      for (size_t i = 0; i < y.size(); ++i) {
        double want = bias[i % out], size = std::abs(want);
        for (size_t k = 0; k < in; ++k) {
          float a = x[i / out * in + k], b = weights[i % out * in + k];
          if (dtype == numbers::DType::kBf16) a = RoundBf16(a), b = RoundBf16(b);
          want += static_cast<double>(a) * static_cast<double>(b);
          size += std::abs(static_cast<double>(a) * static_cast<double>(b));
        }
        EXPECT_NEAR(y[i], want, 1e-6 * size) << numbers::DTypeName(type);
      }
    }
  }
}

TEST_P(BlockLinearTest, Epilogues) {
  const size_t in = 256, out = 45;
  Layer layer(GetParam(), numbers::DType::kQ5K, numbers::DType::kI8, in, out);
  for (const size_t rows : {3, 17}) {
    const std::vector<float> x = Random(rows * in, 12);
    const std::vector<float> product = layer.Multiply(x);
    BlockRun run;
    run.activation = program::Activation::kRelu;
    const std::vector<float> relu = layer.Multiply(x, 2, run);
    std::vector<float> multiplied = Random(rows * out, 13);
    const std::vector<float> factor = multiplied;
    run = BlockRun();
    run.multiply = true;
    run.y = multiplied.data();
    layer.Multiply(x, 2, run);
    std::vector<float> sum = Random(rows * out, 14);
    const std::vector<float> residual = sum;
    run = BlockRun();
    run.y = sum.data();
    run.residual = sum.data();
    layer.Multiply(x, 2, run);
    for (size_t i = 0; i < product.size(); ++i) {
      EXPECT_EQ(relu[i], std::max(product[i], 0.0f));
      EXPECT_EQ(multiplied[i], product[i] * factor[i]);
      EXPECT_EQ(sum[i], product[i] + residual[i]);
    }
  }
}

// Panels [1, 2) write their own columns only, and the padding of the last panel is not written.
TEST_P(BlockLinearTest, WritesItsOwnColumns) {
  const size_t in = 256, width = static_cast<size_t>(GetParam()->panel), out = 2 * width + 1;
  Layer layer(GetParam(), numbers::DType::kQ4_0, numbers::DType::kI8, in, out);
  for (const size_t rows : {1, 10}) {
    const std::vector<float> x = Random(rows * in, 15);
    const std::vector<float> want = layer.Multiply(x);
    const Layer::Rows packed = layer.Pack(x);
    const size_t stride = out + 3;
    for (size_t p = 0; p < 3; ++p) {
      std::vector<float> y(rows * stride, -7.0f);
      HugePageArena arena;
      BlockRun run;
      run.x = packed.packed;
      run.rows = rows;
      run.y = y.data();
      run.y_stride = stride;
      run.scratch = arena.Alloc(kBlockScratchBytes).data;
      layer.linear().Run(run, p, 1);
      for (size_t i = 0; i < y.size(); ++i) {
        const bool mine = i % stride < out && i % stride / width == p;
        EXPECT_EQ(y[i], mine ? want[i / stride * out + i % stride] : -7.0f) << p << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockLinearTest, testing::ValuesIn(AllKernels()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace penstock::cpu

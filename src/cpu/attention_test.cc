// Attention of encoders against a plain one in double precision, on every instruction set: windows
// that are cut into parts, rotary angles, biases and queries from the middle.
#include <gtest/gtest.h>

#include <algorithm>
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

struct Case {
  size_t length, size;
  int32_t window;  // 0: none
  bool rotary, biased;
};

// One head of random tokens.
class Head {
 public:
  explicit Head(const Case& one)
      : case_(one),
        qkv_(NormalFloats(one.length * 3 * one.size, 1, 0, 1)),
        bias_(NormalFloats(2 * kReach + 1, 2, 0, 1)) {
    for (size_t t = 0; t < one.length; ++t) {
      for (size_t i = 0; i < one.size / 2; ++i) {
        const double angle = static_cast<double>(t) / std::pow(100, 2.0 * i / one.size);
        cosines_.push_back(static_cast<float>(std::cos(angle)));
        sines_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  // Queries [begin, end).
  std::vector<float> Run(const Kernels& kernels, numbers::DType dtype, size_t begin, size_t end) {
    const AlignedBuffer scratch(kernels.attention_scratch_floats(dtype, case_.length, case_.size),
                                &arena_);
    std::vector<float> out((end - begin) * case_.size);
    AttentionTask task;
    task.dtype = dtype;
    task.q = qkv_.data();
    task.k = qkv_.data() + case_.size;
    task.v = qkv_.data() + 2 * case_.size;
    task.stride = 3 * case_.size;
    task.out = out.data();
    task.out_stride = case_.size;
    task.length = static_cast<int32_t>(case_.length);
    task.query_begin = static_cast<int32_t>(begin);
    task.query_end = static_cast<int32_t>(end);
    task.head_size = static_cast<int32_t>(case_.size);
    task.scale = kScale;
    task.window = case_.window;
    if (case_.rotary) {
      task.rope_cos = cosines_.data();
      task.rope_sin = sines_.data();
      task.rope_size = task.head_size / 2 * 2;
    }
    if (case_.biased) {
      task.relative_bias = bias_.data();
      task.bias_reach = kReach;
    }
    task.scratch = scratch.data();
    kernels.attention(task);
    return out;
  }

  std::vector<double> Plain(size_t query) const {
    std::vector<double> weights(case_.length, 0), out(case_.size, 0);
    double sum = 0;
    for (size_t key = 0; key < case_.length; ++key) {
      const auto distance = static_cast<int64_t>(key) - static_cast<int64_t>(query);
      if (case_.window > 0 && std::abs(distance) > case_.window) continue;
      double score = 0;
      for (size_t i = 0; i < case_.size; ++i) score += At(0, query, i) * At(1, key, i);
      score *= static_cast<double>(kScale);
      if (case_.biased) {
        score += static_cast<double>(
            bias_[static_cast<size_t>(std::clamp<int64_t>(distance, -kReach, kReach) + kReach)]);
      }
      sum += weights[key] = std::exp(score);
    }
    for (size_t key = 0; key < case_.length; ++key) {
      for (size_t i = 0; i < case_.size && weights[key] > 0; ++i) {
        out[i] += weights[key] / sum * Value(2, key, i);
      }
    }
    return out;
  }

 private:
  static constexpr int32_t kReach = 40;
  static constexpr float kScale = 0.4f;

  double Value(size_t part, size_t token, size_t i) const {
    return static_cast<double>(qkv_[(3 * token + part) * case_.size + i]);
  }
  // Rotated, if it is.
  double At(size_t part, size_t token, size_t i) const {
    const size_t half = case_.size / 2;
    if (!case_.rotary || i >= 2 * half) return Value(part, token, i);
    const double cosine = static_cast<double>(cosines_[token * half + i % half]);
    const double sine = static_cast<double>(sines_[token * half + i % half]);
    if (i < half) return Value(part, token, i) * cosine - Value(part, token, i + half) * sine;
    return Value(part, token, i) * cosine + Value(part, token, i - half) * sine;
  }

  const Case case_;
  const std::vector<float> qkv_, bias_;
  std::vector<float> cosines_, sines_;
  HugePageArena arena_;
};

class Attention : public testing::TestWithParam<const Kernels*> {};

TEST_P(Attention, AgreesWithDoublePrecisionAndWithPartsOfItself) {
  for (const Case& one : {Case{1, 8, 0, false, false}, Case{45, 13, 0, false, true},
                          Case{700, 8, 5, true, false}, Case{1100, 16, 5, false, true},
                          Case{1300, 8, 0, true, true}, Case{2300, 8, 300, true, true}}) {
    Head head(one);
    for (const numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
      const std::vector<float> all = head.Run(*GetParam(), dtype, 0, one.length);
      const double most = dtype == numbers::DType::kF32 ? 2e-5 : 0.06;
      for (size_t query = 0; query < one.length; query += 1 + one.length / 40) {
        const std::vector<double> want = head.Plain(query);
        for (size_t i = 0; i < one.size; ++i) {
          ASSERT_NEAR(all[query * one.size + i], want[i], most)
              << numbers::DTypeName(dtype) << " length " << one.length << " query " << query;
        }
        const std::vector<float> alone = head.Run(*GetParam(), dtype, query, query + 1);
        ASSERT_EQ(
            std::memcmp(alone.data(), all.data() + query * one.size, one.size * sizeof(float)), 0)
            << numbers::DTypeName(dtype) << " length " << one.length << " query " << query;
      }
    }
  }
}

// Many blocks of keys whose largest score is that of the first: nothing of it may get lost. Scores
// that are huge leave one key.
TEST_P(Attention, EarlierBlocksKeepTheirShareAndHugeScoresOneKey) {
  constexpr size_t kLength = 512 * 20, kSize = 4;
  for (const float score : {0.0f, 1e18f}) {
    std::vector<float> qkv(kLength * 3 * kSize, 0);
    for (size_t t = 0; t < kLength; ++t) {
      float* const token = qkv.data() + t * 3 * kSize;
      token[0] = 1;                                      // the query
      token[kSize] = t == 3 ? score : -score;            // the key
      token[2 * kSize] = t < kLength / 2 ? 1.0f : 0.0f;  // the value
    }
    HugePageArena arena;
    for (const numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
      const AlignedBuffer scratch(GetParam()->attention_scratch_floats(dtype, kLength, kSize),
                                  &arena);
      float out[kSize];
      AttentionTask task;
      task.dtype = dtype;
      task.q = qkv.data();
      task.k = qkv.data() + kSize;
      task.v = qkv.data() + 2 * kSize;
      task.stride = 3 * kSize;
      task.out = out;
      task.out_stride = kSize;
      task.length = kLength;
      task.query_end = 1;
      task.head_size = kSize;
      task.scratch = scratch.data();
      GetParam()->attention(task);
      EXPECT_NEAR(out[0], score == 0 ? 0.5 : 1, 1e-4) << numbers::DTypeName(dtype) << " " << score;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Attention, testing::ValuesIn(AllKernels()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace penstock::cpu

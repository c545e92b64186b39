// Attention over cached keys and values against plain sums in double precision, and against itself
// in other splits; norms and rotations of heads.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/test_util.h"

namespace penstock::cpu {
namespace {

struct AlignedFree {
  void operator()(void* p) const { std::free(p); }
};
template <typename T>
using Aligned = std::unique_ptr<T[], AlignedFree>;
template <typename T>
Aligned<T> NewAligned(size_t n) {
  return Aligned<T>(static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 63) / 64 * 64)));
}

float RoundBf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// Blocks of one head in random order; what is not written is NaN.
class Cache {
 public:
  Cache(numbers::DType type, size_t head_size, size_t tokens, unsigned seed = 1)
      : layout_(KvLayoutOf(type, head_size)), type_(type), size_(head_size) {
    const size_t blocks = (tokens + kKvBlock - 1) / kKvBlock;
    ids_.resize(blocks + 3);
    std::iota(ids_.begin(), ids_.end(), 0);
    std::shuffle(ids_.begin(), ids_.end(), std::mt19937(seed));
    stride_ = layout_.bytes + 128;  // as of a pool with other heads between
    memory_ = NewAligned<uint8_t>(ids_.size() * stride_);
    std::memset(memory_.get(), 0xff, ids_.size() * stride_);
  }

  KvView view() const {
    return {type_, static_cast<int32_t>(size_), memory_.get(), stride_, ids_.data()};
  }

  // What the cache holds, by the layout that kv_layout.h states.
  double Key(size_t position, size_t d) const {
    const size_t j = position % kKvBlock;
    const size_t lane = d / layout_.lane_values * kKvBlock + j;
    return Value(position, 0, lane, d % layout_.lane_values, layout_.key_scales, j);
  }
  double Value(size_t position, size_t d) const {
    const size_t j = position % kKvBlock;
    const size_t lane = j / layout_.lane_values * layout_.row_values + d;
    return Value(position, layout_.values, lane, j % layout_.lane_values, layout_.value_scales, j);
  }

 private:
  template <typename T>
  T Read(size_t position, size_t offset) const {
    T value;
    std::memcpy(&value,
                memory_.get() + static_cast<size_t>(ids_[position / kKvBlock]) * stride_ + offset,
                sizeof(T));
    return value;
  }
  double Value(size_t position, size_t part, size_t lane, size_t in_lane, size_t scales,
               size_t j) const {
    const size_t at = part + lane * layout_.lane_bytes;
    if (type_ == numbers::DType::kF32) return Read<float>(position, at);
    if (type_ == numbers::DType::kF16) return numbers::HalfToFloat(Read<uint16_t>(position, at));
    if (type_ == numbers::DType::kI8) {
      return Read<int8_t>(position, at) *
             static_cast<double>(Read<float>(position, scales + j * sizeof(float)));
    }
    const uint32_t bits = Read<uint16_t>(position, at + 2 * in_lane);
    return std::bit_cast<float>(bits << 16);
  }

  KvLayout layout_;
  numbers::DType type_;
  size_t size_;
  size_t stride_;
  std::vector<int32_t> ids_;
  Aligned<uint8_t> memory_;
};

struct Case {
  numbers::DType type = numbers::DType::kF32;
  size_t head_size = 64;
  size_t heads = 2;
  size_t tokens = 100;
  float soft_cap = 0;
  int32_t window = 0;
};

std::string NameOf(const Case& c) {
  return std::string(numbers::DTypeName(c.type)) + " size " + std::to_string(c.head_size) +
         " heads " + std::to_string(c.heads) + " tokens " + std::to_string(c.tokens) + " cap " +
         std::to_string(c.soft_cap) + " window " + std::to_string(c.window);
}

// A sequence: q, k, v of all its tokens, and its cache.
class Sequence {
 public:
  Sequence(const Kernels* kernels, const Case& c)
      : kernels_(kernels),
        case_(c),
        cache_(c.type, c.head_size, c.tokens),
        q_(NormalFloats(c.tokens * QStride(), 2, 0, 1.5f)),
        k_(NormalFloats(c.tokens * KvStride(), 3, 0, 1)),
        v_(NormalFloats(c.tokens * KvStride(), 4, 0.25f, 1)) {
    scale_ = 1 / std::sqrt(static_cast<float>(c.head_size));
  }

  size_t QStride() const { return case_.heads * case_.head_size + 6; }
  size_t KvStride() const { return case_.head_size + 10; }
  size_t Width() const { return KvRowValues(case_.head_size); }
  std::vector<float>& v() { return v_; }

  void Append(size_t begin, size_t end) {
    AppendTask task;
    task.kv = cache_.view();
    task.k = k_.data() + begin * KvStride();
    task.v = v_.data() + begin * KvStride();
    task.stride = KvStride();
    task.first_position = static_cast<int32_t>(begin);
    task.rows = end - begin;
    kernels_->append_kv(task);
  }

  // Heads [head, head + heads) of positions [begin, end): [rows, heads, head_size].
  std::vector<float> Attend(size_t begin, size_t end, size_t head, size_t heads) {
    const size_t lines = (end - begin) * heads;
    AttendTask task;
    task.kv = cache_.view();
    task.q = q_.data() + begin * QStride() + head * case_.head_size;
    task.q_stride = QStride();
    task.rows = end - begin;
    task.heads = heads;
    task.first_position = static_cast<int32_t>(begin);
    task.scale = scale_;
    task.soft_cap = case_.soft_cap;
    task.window = case_.window;
    const auto scratch =
        NewAligned<float>(kernels_->attend_scratch_floats(case_.type, case_.head_size));
    std::vector<ScorePart> scores(lines);
    std::vector<ScorePart> chunk_scores(lines);
    std::vector<float> sums(lines * Width());
    std::vector<float> parts(lines * Width(), NAN);
    task.scratch = scratch.get();
    task.scores = chunk_scores.data();
    task.parts = parts.data();
    const JoinTask join = {lines,
                           static_cast<int32_t>(case_.head_size),
                           scores.data(),
                           sums.data(),
                           chunk_scores.data(),
                           parts.data()};
    // The chunk after the last one: nothing is seen there.
    for (size_t chunk = 0; chunk * kKvChunk < end + kKvChunk; ++chunk) {
      task.chunk = chunk;
      AttendTask next = task;
      ++next.chunk;
      task.next = chunk % 3 == 0 ? nullptr : &next;
      kernels_->attend_chunk(task);
      kernels_->join_parts(join);
    }
    std::vector<float> out(lines * case_.head_size);
    kernels_->finish_lines({end - begin, heads, static_cast<int32_t>(case_.head_size),
                            scores.data(), sums.data(), out.data(), heads * case_.head_size});
    return out;
  }

  // In double precision from what the cache holds.
  std::vector<double> Expected(size_t position, size_t head) const {
    const size_t size = case_.head_size;
    const float* query = q_.data() + position * QStride() + head * size;
    const size_t window = case_.window > 0 ? static_cast<size_t>(case_.window) : position + 1;
    const size_t first = position + 1 > window ? position + 1 - window : 0;
    std::vector<double> scores;
    for (size_t j = first; j <= position; ++j) {
      double dot = 0;
      for (size_t d = 0; d < size; ++d) {
        const float x = query[d] * scale_;
        dot += static_cast<double>(case_.type == numbers::DType::kBf16 ? RoundBf16(x) : x) *
               cache_.Key(j, d);
      }
      const double cap = static_cast<double>(case_.soft_cap);
      scores.push_back(cap > 0 ? cap * std::tanh(dot / cap) : dot);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    std::vector<double> out(size, 0.0);
    double sum = 0;
    for (size_t j = first; j <= position; ++j) {
      const double e = std::exp(scores[j - first] - most);
      sum += e;
      for (size_t d = 0; d < size; ++d) out[d] += e * cache_.Value(j, d);
    }
    for (double& value : out) value /= sum;
    return out;
  }

  // The largest difference of a stored value from what was appended, relative to the row's largest.
  double StoredError(size_t position) const {
    double error = 0;
    for (const bool key : {true, false}) {
      const float* row = (key ? k_ : v_).data() + position * KvStride();
      double most = 0;
      double difference = 0;
      for (size_t d = 0; d < case_.head_size; ++d) {
        const double want = static_cast<double>(row[d]);
        const double got = key ? cache_.Key(position, d) : cache_.Value(position, d);
        most = std::max(most, std::abs(want));
        difference = std::max(difference, std::abs(got - want));
      }
      error = std::max(error, difference / most);
    }
    return error;
  }

 private:
  const Kernels* kernels_;
  Case case_;
  Cache cache_;
  std::vector<float> q_, k_, v_;
  float scale_;
};

constexpr numbers::DType kTypes[] = {numbers::DType::kF32, numbers::DType::kBf16,
                                     numbers::DType::kF16, numbers::DType::kI8};

class PagedAttention : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto kernels = ChooseKernels(GetParam());
    ASSERT_TRUE(kernels.ok());
    kernels_ = *kernels;
  }

  // `stored`: of what the cache holds, relative to a row's largest value; `result`: of attention
  // over it, whose values are normal and reach 4. bf16 rounds the weights to 8 bits.
  struct Bounds {
    double stored, result;
  };
  static Bounds BoundsOf(numbers::DType type) {
    switch (type) {
      case numbers::DType::kF32:
        return {0, 4e-6};
      case numbers::DType::kF16:
        return {5e-4, 4e-6};
      case numbers::DType::kI8:
        return {4e-3, 4e-6};
      default:
        return {4e-3, 8e-3};
    }
  }

  void ExpectExact(const Case& c) {
    SCOPED_TRACE(NameOf(c));
    Sequence sequence(kernels_, c);
    sequence.Append(0, c.tokens);
    const Bounds bounds = BoundsOf(c.type);
    // All rows at once, checked at some.
    const std::vector<float> got = sequence.Attend(0, c.tokens, 0, c.heads);
    const size_t step = std::max<size_t>(1, c.tokens / 9);
    for (size_t position = 0; position < c.tokens; position += step) {
      ASSERT_LE(sequence.StoredError(position), bounds.stored) << position;
      for (size_t head = 0; head < c.heads; ++head) {
        const std::vector<double> want = sequence.Expected(position, head);
        for (size_t d = 0; d < c.head_size; ++d) {
          const size_t at = (position * c.heads + head) * c.head_size + d;
          ASSERT_NEAR(static_cast<double>(got[at]), want[d], bounds.result)
              << "position " << position << " head " << head << " dimension " << d;
        }
      }
    }
  }

  const Kernels* kernels_ = nullptr;
};

TEST_P(PagedAttention, AgreesWithDoublePrecision) {
  for (numbers::DType type : kTypes) {
    for (size_t head_size : {2, 8, 10, 16, 34, 64, 80, 96, 128, 256}) {
      ExpectExact({type, head_size, 2, 70});
    }
    for (size_t heads : {1, 3, 5, 8, 16}) ExpectExact({type, 16, heads, 45});
    for (size_t tokens : {size_t{1}, kKvBlock, kKvBlock + 1, kKvChunk, 2 * kKvChunk + 33}) {
      ExpectExact({type, 32, 3, tokens});
    }
  }
}

TEST_P(PagedAttention, WindowsAndSoftCaps) {
  for (numbers::DType type : kTypes) {
    for (int32_t window : {1, 5, 32, 33, 100, 256, 300}) {
      ExpectExact({type, 16, 2, 2 * kKvChunk + 40, 0, window});
    }
    ExpectExact({type, 64, 2, 300, 5.0f, 0});
    ExpectExact({type, 64, 4, 300, 2.0f, 40});
  }
}

// The bits of a row and head, computed with none, some or all of the others; before and after the
// tokens that follow it are in the cache.
TEST_P(PagedAttention, BitsDoNotDependOnTheSplit) {
  for (numbers::DType type : kTypes) {
    for (const Case& c : {Case{type, 8, 3, 90}, Case{type, 64, 4, kKvChunk + 70, 0, 0},
                          Case{type, 80, 1, 70, 3.0f, 20}, Case{type, 96, 16, 40, 0, 33},
                          Case{type, 128, 8, 66}, Case{type, 256, 2, 40}}) {
      SCOPED_TRACE(NameOf(c));
      Sequence sequence(kernels_, c);
      const size_t width = c.heads * c.head_size;
      // A token at a time.
      std::vector<float> want;
      for (size_t t = 0; t < c.tokens; ++t) {
        sequence.Append(t, t + 1);
        const std::vector<float> row = sequence.Attend(t, t + 1, 0, c.heads);
        want.insert(want.end(), row.begin(), row.end());
      }
      const auto same = [&](const std::vector<float>& got, size_t begin, const char* what) {
        EXPECT_EQ(std::memcmp(got.data(), want.data() + begin * width, got.size() * sizeof(float)),
                  0)
            << what << " from " << begin;
      };
      same(sequence.Attend(0, c.tokens, 0, c.heads), 0, "all at once");
      std::mt19937 random(7);
      for (size_t rows = 1; rows <= std::min<size_t>(64, c.tokens); rows += 1 + rows / 5) {
        const size_t begin = random() % (c.tokens - rows + 1);
        same(sequence.Attend(begin, begin + rows, 0, c.heads), begin, "rows");
      }
      for (size_t head = 0; head < c.heads; head += 3) {
        const size_t heads = std::min<size_t>(c.heads - head, 2);
        const size_t begin = c.tokens / 3;
        const std::vector<float> got = sequence.Attend(begin, c.tokens, head, heads);
        for (size_t t = begin; t < c.tokens; ++t) {
          EXPECT_EQ(std::memcmp(got.data() + (t - begin) * heads * c.head_size,
                                want.data() + t * width + head * c.head_size,
                                heads * c.head_size * sizeof(float)),
                    0)
              << "head " << head << " position " << t;
        }
      }
      // Appended in other pieces, into a cache of its own.
      Sequence other(kernels_, c);
      for (size_t t = 0; t < c.tokens;) {
        const size_t next = std::min<size_t>(c.tokens, t + 1 + random() % 40);
        other.Append(t, next);
        same(other.Attend(t, next, 0, c.heads), t, "chunked prefill");
        t = next;
      }
    }
  }
}

// A value that is not finite reaches every line that sees it and none of the earlier blocks'.
TEST_P(PagedAttention, NanGoesThrough) {
  for (numbers::DType type : kTypes) {
    SCOPED_TRACE(numbers::DTypeName(type));
    const Case c = {type, 16, 2, 100};
    Sequence sequence(kernels_, c);
    sequence.v()[40 * sequence.KvStride() + 3] = std::numeric_limits<float>::quiet_NaN();
    sequence.Append(0, c.tokens);
    for (size_t t : {0, 31}) {
      for (float value : sequence.Attend(t, t + 1, 0, 2)) EXPECT_FALSE(std::isnan(value)) << t;
    }
    for (size_t t : {40, 41, 99}) {
      EXPECT_TRUE(std::isnan(sequence.Attend(t, t + 1, 0, 2)[3])) << t;
    }
  }
}

TEST_P(PagedAttention, NormsAndRotations) {
  for (const bool interleaved : {false, true}) {
    for (size_t rope_size : {0, 6, 16, 40, 64}) {
      const size_t size = 64, heads = 3, rows = 5, stride = 3 * 64 + 4, first = 7;
      const std::vector<float> x = NormalFloats(rows * stride, 1, 0.5f, 2);
      const std::vector<float> gamma = NormalFloats(size, 2, 1, 0.2f);
      const std::vector<float> cos = NormalFloats((first + rows) * size / 2, 3, 0, 1);
      const std::vector<float> sin = NormalFloats((first + rows) * size / 2, 4, 0, 1);
      for (const bool norm : {false, true}) {
        std::vector<float> y = x;
        HeadTask task;
        task.x = y.data();
        task.stride = stride;
        task.rows = rows;
        task.heads = heads;
        task.head_size = size;
        task.gamma = norm ? gamma.data() : nullptr;
        task.epsilon = 1e-5f;
        task.rope_cos = rope_size > 0 ? cos.data() : nullptr;
        task.rope_sin = sin.data();
        task.rope_size = static_cast<int32_t>(rope_size);
        task.rope_interleaved = interleaved;
        task.first_position = first;
        kernels_->prepare_heads(task);
        for (size_t i = 0; i < rows * stride; ++i) {
          const size_t row = i / stride, d = i % stride % size, start = i - d;
          if (i % stride >= heads * size) {
            EXPECT_EQ(y[i], x[i]) << "between the rows";
            continue;
          }
          double squares = 0;
          for (size_t j = 0; j < size; ++j) squares += std::pow(x[start + j], 2.0);
          const double inverse = norm ? 1 / std::sqrt(squares / size + 1e-5) : 1;
          const auto normed = [&](size_t j) {
            return static_cast<double>(x[start + j]) * inverse *
                   (norm ? static_cast<double>(gamma[j]) : 1.0);
          };
          double want = normed(d);
          if (d < rope_size) {
            const size_t half = rope_size / 2;
            const size_t pair = interleaved ? d / 2 : d % half;
            const bool second = interleaved ? d % 2 == 1 : d >= half;
            const size_t partner = interleaved ? d ^ 1 : (second ? d - half : d + half);
            const double c = cos[(first + row) * half + pair];
            const double s = sin[(first + row) * half + pair];
            want = normed(d) * c + (second ? 1 : -1) * normed(partner) * s;
          }
          EXPECT_NEAR(static_cast<double>(y[i]), want, 2e-6 * std::max(1.0, std::abs(want) * 2));
        }
      }
    }
  }
}

TEST_P(PagedAttention, RmsNorms) {
  for (size_t width : {1, 2, 15, 64, 387, 2048}) {
    const size_t rows = 3;
    std::vector<float> x = NormalFloats(rows * width, 1, 0.5f, 3);
    const std::vector<float> gamma = NormalFloats(width, 2, 1, 0.2f);
    std::vector<float> y(x.size());
    kernels_->rms_norm(x.data(), rows, width, gamma.data(), 1e-6f, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      double squares = 0;
      for (size_t j = 0; j < width; ++j) squares += std::pow(x[i / width * width + j], 2.0);
      const double want = static_cast<double>(x[i]) / std::sqrt(squares / width + 1e-6) *
                          static_cast<double>(gamma[i % width]);
      EXPECT_NEAR(static_cast<double>(y[i]), want, 1e-6 * std::max(1.0, std::abs(want)));
    }
    // A row's bits are its own, and y may be x.
    std::vector<float> last(x.end() - static_cast<ptrdiff_t>(width), x.end());
    kernels_->rms_norm(last.data(), 1, width, gamma.data(), 1e-6f, last.data());
    EXPECT_EQ(std::memcmp(last.data(), y.data() + 2 * width, width * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, PagedAttention, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Kernels* kernels : SupportedKernels()) {
                             names.push_back(kernels->name);
                           }
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace penstock::cpu

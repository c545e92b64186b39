// Every instruction set against the scalar one. The input says which operation, its shape, how
// large its numbers are and the seed they are drawn from; where NaN or an infinity stands.
//
// f32 and bf16 differ by the rounding of sums alone, so the bound is that of the sizes of what is
// added. int8 rows are compared as packed, then multiplied from the same bytes. Rows, panels and
// queries cut in another way must give the same bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/status.h"
#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/packed_linear.h"
#include "fuzz_util.h"

namespace penstock::cpu {
namespace {

using Floats = std::vector<float>;

HugePageArena* Arena() {  // one: its chunks are large, and take their time to come
  static HugePageArena arena;
  return &arena;
}

class Numbers {
 public:
  explicit Numbers(fuzz::Input* input) : random_(static_cast<unsigned>(input->Number(0, 65535))) {
    exponent_ = static_cast<int>(input->Byte() % 24) - 12;
    spread_ = static_cast<int>(input->Byte() % 8);
  }
  // `wild`: also of sizes 2^-spread to 2^spread times as large.
  Floats Make(size_t n, bool wild = true) {
    std::normal_distribution<float> normal(0, 1);
    Floats out(n);
    for (float& v : out) {
      const int more = wild && spread_ > 0 ? static_cast<int>(random_() % (2 * spread_ + 1)) : 0;
      v = std::ldexp(normal(random_), wild ? exponent_ + more - spread_ : 0);
    }
    return out;
  }
  // Puts a NaN or an infinity somewhere, one time in eight.
  void Spoil(fuzz::Input* input, Floats* values) {
    const uint8_t kind = input->Byte();
    if (kind % 8 != 1) return;
    const float odd = kind & 8 ? std::numeric_limits<float>::infinity() : std::nanf("");
    (*values)[input->Number(0, 65535) % values->size()] = odd;
  }

 private:
  std::minstd_rand random_;
  int exponent_, spread_;
};

// Both no number, or within `bound` of each other. Where the sizes overflow, anything.
void CheckNear(float got, float want, double bound) {
  if (std::isnan(bound) || bound > 1e30) return;
  if (!std::isfinite(want) || !std::isfinite(got)) {
    PENSTOCK_CHECK(std::isnan(got) == std::isnan(want));
    return;
  }
  const double difference = std::abs(static_cast<double>(got) - static_cast<double>(want));
  if (difference > bound) std::fprintf(stderr, "%g, not %g (+-%g)\n", got, want, bound);
  PENSTOCK_CHECK(difference <= bound);
}

bool SameBits(const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) {  // a NaN may have any bits
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) {
      return false;
    }
  }
  return true;
}

// Error of a chain of `n` additions, relative to the sizes of the terms; twice, as both sides
// round.
double Rounding(size_t n) { return 2 * 6e-8 * (4 + std::sqrt(static_cast<double>(n))); }

// ---- Linear layers

struct Product {
  size_t rows, in, out;
  numbers::DType dtype;
  program::Activation activation;
  bool multiply;
  Floats x, weight, bias, factors, before;
};

class Multiplied {
 public:
  Multiplied(const Kernels& kernels, const Product& product)
      : kernels_(kernels),
        product_(product),
        linear_({program::ViewOf(product.weight, static_cast<int64_t>(product.in)),
                 program::ViewOf(product.bias, static_cast<int64_t>(product.out))},
                {product.dtype, product.factors}, static_cast<size_t>(kernels.panel), Arena()),
        memory_(product.rows * PackedRowBytes(product.dtype, product.in) / sizeof(float), Arena()),
        packed_(memory_.data(), product.rows, linear_) {
    kernels_.pack_rows(packed_.Pack(product.x.data(), product.in, product.rows, 0, product.in));
  }
  const PackedRows& packed() const { return packed_; }
  // Takes the rows that a set without signed rows has packed.
  void TakeRows(const PackedRows& from) {
    std::memcpy(memory_.data(), from.words, memory_.size() * sizeof(float));
    if (product_.dtype != numbers::DType::kI8 || !kernels_.signed_rows) return;
    const size_t stride = RowStride(product_.dtype, product_.in);
    for (size_t i = 0; i < product_.rows * stride; ++i) packed_.words[i] ^= 0x80808080;
    const size_t groups = ScaleGroups(product_.dtype, product_.in);
    for (size_t i = 0; i < product_.rows * groups; ++i) packed_.scales[i].zero -= 128;
  }

  // Rows and panels cut at `row` and at `panel`.
  Floats Run(size_t row, size_t panel) const {
    Floats y = product_.before;
    const size_t panels = linear_.panels();
    for (const auto& [row_begin, row_end] : {std::pair{size_t{0}, row}, {row, product_.rows}}) {
      for (const auto& [begin, end] : {std::pair{size_t{0}, panel}, {panel, panels}}) {
        if (row_begin == row_end || begin == end) continue;
        GemmTask task;
        linear_.FillTask(begin, end - begin, &task);
        const PackedRows part = packed_.From(row_begin);
        task.x = part.words;
        task.x_scales = part.scales;
        task.y = y.data() + row_begin * product_.out + begin * static_cast<size_t>(kernels_.panel);
        task.rows = row_end - row_begin;
        task.y_stride = product_.out;
        task.activation = product_.activation;
        task.multiply = product_.multiply;
        kernels_.gemm(task);
      }
    }
    return y;
  }
  size_t panels() const { return linear_.panels(); }

 private:
  const Kernels& kernels_;
  const Product& product_;
  PanelLinear linear_;
  AlignedBuffer memory_;
  PackedRows packed_;
};

// A value halfway between two steps may go to either. `want`: without signed rows.
void CheckPackedInt8(const Product& product, bool signed_rows, const PackedRows& got,
                     const PackedRows& want) {
  const uint8_t flip = signed_rows ? 0x80 : 0;
  const size_t groups = ScaleGroups(numbers::DType::kI8, product.in);
  for (size_t r = 0; r < product.rows; ++r) {
    const auto* a = reinterpret_cast<const uint8_t*>(got.From(r).words);
    const auto* b = reinterpret_cast<const uint8_t*>(want.From(r).words);
    for (size_t g = 0; g < groups; ++g) {
      const RowScale& scale = want.From(r).scales[g];
      CheckNear(got.From(r).scales[g].scale, scale.scale,
                1e-6 * std::abs(static_cast<double>(scale.scale)));
      if (!std::isfinite(scale.scale)) continue;
      PENSTOCK_CHECK(std::abs(got.From(r).scales[g].zero + flip - scale.zero) <= 1);
      const size_t end = std::min(product.in, (g + 1) * kScaleGroup);
      for (size_t k = g * kScaleGroup; k < end; ++k) {
        PENSTOCK_CHECK(std::abs((a[k] ^ flip) - b[k]) <= 1);
      }
    }
  }
}

// Bounds of the sums that make an element of a matrix product: a row's length times a column's
// (Cauchy and Schwarz); int8: a group's sum is exact, its parts at most the largest.
class Sizes {
 public:
  explicit Sizes(const Product& p) : p_(p) {
    for (size_t r = 0; r < p.rows; ++r) rows_.push_back(Of(p.x.data() + r * p.in, true));
    for (size_t c = 0; c < p.out; ++c) columns_.push_back(Of(p.weight.data() + c * p.in, false));
  }
  double At(size_t row, size_t column) const {
    return rows_[row] * columns_[column] + std::abs(static_cast<double>(p_.bias[column]));
  }

 private:
  double Of(const float* values, bool row) const {
    double square = 0, largest = 0;
    for (size_t k = 0; k < p_.in; ++k) {
      double v = static_cast<double>(values[k]);
      if (!p_.factors.empty()) {
        const double factor = static_cast<double>(p_.factors[k]);
        v = row ? v / factor : v * factor;
      }
      square += v * v;
      largest = std::max(largest, std::abs(v));
    }
    // bf16 rounds by 1/256 at most.
    return p_.dtype == numbers::DType::kI8 ? largest * std::sqrt(static_cast<double>(p_.in))
                                           : std::sqrt(square) * 1.01;
  }

  const Product& p_;
  std::vector<double> rows_, columns_;
};

void FuzzProduct(fuzz::Input* input) {
  constexpr numbers::DType kTypes[] = {numbers::DType::kF32, numbers::DType::kBf16,
                                       numbers::DType::kI8};
  Product p;
  p.dtype = kTypes[input->Byte() % 3];
  p.activation = static_cast<program::Activation>(input->Byte() % 6);
  p.multiply = input->Bit() && p.activation == program::Activation::kNone;
  p.rows = input->Number(1, 33);
  p.in = input->Bit() ? input->Number(1, 40) : input->Number(1, 400);
  p.out = input->Number(1, 100);
  const bool factors = input->Bit() && p.dtype == numbers::DType::kI8;
  Numbers numbers(input);
  p.x = numbers.Make(p.rows * p.in);
  p.weight = numbers.Make(p.out * p.in);
  p.bias = numbers.Make(p.out);
  p.before = numbers.Make(p.rows * p.out, false);
  if (factors) {
    p.factors = numbers.Make(p.in, false);
    for (float& v : p.factors) v = 0.1f + std::abs(v);
  }
  numbers.Spoil(input, &p.x);
  numbers.Spoil(input, &p.weight);
  const size_t row = input->Number(0, p.rows);
  const size_t panel_at = input->Number(0, 65535);

  const Sizes sizes(p);
  const Multiplied scalar(*ScalarKernels(), p);
  const Floats want = scalar.Run(0, 0);
  // All but f32 take GELU with a polynomial (its bound: kernels_test.cc).
  const bool coarse = p.dtype != numbers::DType::kF32 && p.activation == program::Activation::kGelu;
  for (const Kernels* kernels : AllKernels()) {
    Multiplied with(*kernels, p);
    if (p.dtype == numbers::DType::kI8) {
      CheckPackedInt8(p, kernels->signed_rows, with.packed(), scalar.packed());
    }
    with.TakeRows(scalar.packed());
    const Floats got = with.Run(0, 0);
    const Floats cut = with.Run(row, panel_at % (with.panels() + 1));
    PENSTOCK_CHECK(SameBits(cut.data(), got.data(), got.size()));
    for (size_t r = 0; r < p.rows; ++r) {
      for (size_t c = 0; c < p.out; ++c) {
        const size_t i = r * p.out + c;
        const double size = sizes.At(r, c);
        double bound = 1.2 * Rounding(p.in) * size + 1e-37;
        if (p.activation != program::Activation::kNone) bound += 1e-6 * std::max(1.0, size);
        if (coarse) bound += 2 * (8e-5 + 4e-6 * size);
        if (p.multiply) bound *= std::abs(static_cast<double>(p.before[i])) * 1.01;
        CheckNear(got[i], want[i], bound);
      }
    }
  }
}

// ---- Rows

void FuzzNorm(fuzz::Input* input) {
  const size_t rows = input->Number(1, 5), width = input->Number(1, 900);
  const bool has_residual = input->Bit(), has_beta = input->Bit();
  Numbers numbers(input);
  Floats x = numbers.Make(rows * width);
  const Floats residual = numbers.Make(rows * width), gamma = numbers.Make(width, false),
               beta = numbers.Make(width, false);
  numbers.Spoil(input, &x);
  const NormWeights norm = {gamma.data(), has_beta ? beta.data() : nullptr, 1e-5f};
  const auto run = [&](const Kernels& kernels, Floats* sum, Floats* y) {
    sum->assign(rows * width, 0);
    y->assign(rows * width, 0);
    kernels.add_norm(x.data(), has_residual ? residual.data() : nullptr, rows, width, norm,
                     sum->data(), y->data());
  };
  Floats want_sum, want, got_sum, got;
  run(*ScalarKernels(), &want_sum, &want);
  for (const Kernels* kernels : AllKernels()) {
    run(*kernels, &got_sum, &got);
    PENSTOCK_CHECK(SameBits(got_sum.data(), want_sum.data(), want_sum.size()));
    for (size_t r = 0; r < rows; ++r) {
      double mean_size = 0, square = 0;
      for (size_t i = 0; i < width; ++i) {
        const double v = static_cast<double>(want_sum[r * width + i]);
        mean_size += std::abs(v) / static_cast<double>(width);
      }
      double mean = 0;
      for (size_t i = 0; i < width; ++i) {
        mean += static_cast<double>(want_sum[r * width + i]) / static_cast<double>(width);
      }
      for (size_t i = 0; i < width; ++i) {
        const double d = static_cast<double>(want_sum[r * width + i]) - mean;
        square += d * d / static_cast<double>(width);
      }
      const double deviation = std::sqrt(square + 1e-5);
      for (size_t i = 0; i < width; ++i) {
        const double v = std::abs(static_cast<double>(want_sum[r * width + i]));
        const double g = std::abs(static_cast<double>(gamma[i]));
        const double b = std::abs(static_cast<double>(beta[i]));
        // The mean and the deviation carry errors of the sizes of the row's numbers.
        const double units = (v + mean_size) / deviation;
        const double bound =
            Rounding(width) * (4 * g * units * (1 + mean_size / deviation) + b + 1e-30);
        CheckNear(got[r * width + i], want[r * width + i], bound);
      }
    }
  }
}

void FuzzPool(fuzz::Input* input) {
  const size_t tokens = input->Number(1, 40), skip = input->Number(0, tokens - 1),
               width = input->Number(1, 300);
  const auto pooling = static_cast<program::Pooling>(input->Byte() % 6);
  Numbers numbers(input);
  Floats x = numbers.Make(tokens * width);
  numbers.Spoil(input, &x);
  Floats want(width), got(width);
  ScalarKernels()->pool(x.data(), skip, tokens, width, pooling, want.data());
  for (const Kernels* kernels : AllKernels()) {
    kernels->pool(x.data(), skip, tokens, width, pooling, got.data());
    for (size_t i = 0; i < width; ++i) {
      double size = 0;
      for (size_t t = skip; t < tokens; ++t) {
        size += std::abs(static_cast<double>(x[t * width + i]));
      }
      CheckNear(got[i], want[i], Rounding(tokens) * size + 1e-37);
    }
  }
}

void FuzzEmbed(fuzz::Input* input) {
  const size_t tokens = input->Number(1, 20), width = input->Number(1, 300);
  const bool positions = input->Bit(), types = input->Bit();
  Numbers numbers(input);
  const Floats words = numbers.Make(7 * width), place = numbers.Make(9 * width),
               type = numbers.Make(2 * width);
  std::vector<int32_t> ids, type_ids, position_ids;
  for (size_t t = 0; t < tokens; ++t) {
    ids.push_back(input->Byte() % 7);
    type_ids.push_back(input->Byte() % 2);
    position_ids.push_back(input->Byte() % 9);
  }
  EmbedTask task;
  task.ids = ids.data();
  task.words = words.data();
  if (types) {
    task.types = type.data();
    task.type_ids = type_ids.data();
  }
  if (positions) {
    task.positions = place.data();
    task.position_ids = position_ids.data();
  }
  task.width = static_cast<int32_t>(width);
  const size_t begin = input->Number(0, tokens - 1);
  Floats want(tokens * width), got(tokens * width);
  ScalarKernels()->embed(task, 0, tokens, want.data());
  for (const Kernels* kernels : AllKernels()) {
    got.assign(tokens * width, 0);
    kernels->embed(task, 0, begin, got.data());
    kernels->embed(task, begin, tokens, got.data());
    PENSTOCK_CHECK(SameBits(got.data(), want.data(), want.size()));
  }
}

// ---- Attention

struct Attend {
  numbers::DType dtype;
  size_t length, size;
  bool rotary, interleaved, relative;
  size_t rope_size;
  int32_t window, reach;
  Floats qkv, cosines, sines, bias;
};

Floats Run(const Kernels& kernels, const Attend& a, size_t begin, size_t end) {
  const AlignedBuffer scratch(kernels.attention_scratch_floats(a.dtype, a.length, a.size), Arena());
  Floats out((end - begin) * a.size);
  AttentionTask task;
  task.dtype = a.dtype;
  task.q = a.qkv.data();
  task.k = a.qkv.data() + a.size;
  task.v = a.qkv.data() + 2 * a.size;
  task.stride = 3 * a.size;
  task.out = out.data();
  task.out_stride = a.size;
  task.length = static_cast<int32_t>(a.length);
  task.query_begin = static_cast<int32_t>(begin);
  task.query_end = static_cast<int32_t>(end);
  task.head_size = static_cast<int32_t>(a.size);
  task.scale = 0.25f;
  task.window = a.window;
  if (a.rotary) {
    task.rope_cos = a.cosines.data();
    task.rope_sin = a.sines.data();
    task.rope_size = static_cast<int32_t>(a.rope_size);
    task.rope_interleaved = a.interleaved;
  }
  if (a.relative) {
    task.relative_bias = a.bias.data();
    task.bias_reach = a.reach;
  }
  task.scratch = scratch.data();
  kernels.attention(task);
  return out;
}

double LargestNorm(const Floats& qkv, size_t from, size_t stride, size_t size) {
  double largest = 0;
  for (size_t at = from; at + size <= qkv.size(); at += stride) {
    double square = 0;
    for (size_t i = 0; i < size; ++i) {
      square += static_cast<double>(qkv[at + i]) * static_cast<double>(qkv[at + i]);
    }
    largest = std::max(largest, std::sqrt(square));
  }
  return largest;
}

void FuzzAttention(fuzz::Input* input) {
  Attend a;
  a.dtype = input->Bit() ? numbers::DType::kBf16 : numbers::DType::kF32;
  a.length = input->Bit() ? input->Number(1, 40) : input->Number(1, 600);
  a.size = input->Number(1, 70);
  const uint8_t bits = input->Byte();
  a.rotary = bits & 1;
  a.interleaved = bits & 2;
  a.relative = bits & 4;
  a.rope_size = 2 * input->Number(0, a.size / 2);
  if (a.rope_size == 0) a.rotary = false;
  a.window = bits & 8 ? static_cast<int32_t>(input->Number(1, 70)) : 0;
  a.reach = static_cast<int32_t>(input->Number(0, 40));
  Numbers numbers(input);
  a.qkv = numbers.Make(a.length * 3 * a.size, (bits & 16) != 0);
  for (size_t i = 0; a.rotary && i < a.length * a.rope_size / 2; ++i) {
    const float angle = 0.37f * static_cast<float>(i % 1000);
    a.cosines.push_back(std::cos(angle));
    a.sines.push_back(std::sin(angle));
  }
  a.bias = numbers.Make(2 * static_cast<size_t>(a.reach) + 1, false);
  const size_t begin = input->Number(0, a.length - 1);
  const size_t end = std::min(a.length, begin + input->Number(1, 40));

  const Floats want = Run(*ScalarKernels(), a, begin, end);
  const double scores = 0.25 * LargestNorm(a.qkv, 0, 3 * a.size, a.size) *
                            LargestNorm(a.qkv, a.size, 3 * a.size, a.size) +
                        4;
  double value_max = 0;
  for (size_t t = 0; t < a.length; ++t) {
    for (size_t i = 0; i < a.size; ++i) {
      value_max =
          std::max(value_max, std::abs(static_cast<double>(a.qkv[(3 * t + 2) * a.size + i])));
    }
  }
  // An error of a score is a relative one of its weight. bf16 rounds what went in.
  const double step = a.dtype == numbers::DType::kF32 ? Rounding(a.length + 4 * a.size) : 8e-3;
  const double bound = std::min(2.1, 4 * step * scores) * value_max + 1e-37;
  for (const Kernels* kernels : AllKernels()) {
    const Floats got = Run(*kernels, a, begin, end);
    for (size_t i = 0; i < got.size(); ++i) CheckNear(got[i], want[i], bound);
    const Floats alone = Run(*kernels, a, end - 1, end);
    PENSTOCK_CHECK(SameBits(alone.data(), got.data() + got.size() - a.size, a.size));
  }
}

}  // namespace
}  // namespace penstock::cpu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  switch (input.Byte() % 6) {
    case 0:
      cpu::FuzzNorm(&input);
      break;
    case 1:
      cpu::FuzzPool(&input);
      break;
    case 2:
      cpu::FuzzEmbed(&input);
      break;
    case 3:
      cpu::FuzzAttention(&input);
      break;
    default:
      cpu::FuzzProduct(&input);
  }
  return 0;
}

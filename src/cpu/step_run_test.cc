// Steps of a small decoder with random weights: against a plain model in double precision, and
// against themselves, to the bit, however tokens are cut into steps and shared out to threads.
#include "cpu/step_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "common/memory.h"
#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "cpu/test_util.h"
#include "numbers/random_blocks.h"

namespace penstock::cpu {
namespace {

struct TinyShape {
  int32_t hidden = 256;
  int32_t heads = 8;
  int32_t kv_heads = 2;
  int32_t head_size = 32;
  int32_t inner = 512;
  int32_t layers = 2;
  int32_t vocabulary = 600;
  int32_t context = 700;
  int32_t window = 0;        // of the odd layers
  bool all_windows = false;  // of the others too
  float soft_cap = 0;
  bool interleaved = false;
  bool head_norms = false;
  bool post_norms = false;
  bool causal = true;
  bool states = false;  // the program ends in states, not in logits
  float residual_scale = 1;
  int32_t rope_size = 32;
};

std::vector<std::string> UsableIsas() {
  std::vector<std::string> names;
  for (const Kernels* kernels : SupportedKernels()) names.emplace_back(kernels->name);
  return names;
}

// A matrix as stored, and what it stands for.
struct Matrix {
  Matrix(DType stored, int32_t rows, int32_t columns, std::mt19937* random)
      : dtype(stored), out(rows), in(columns) {
    bytes = RandomWeights(stored, static_cast<size_t>(rows), static_cast<size_t>(columns),
                          static_cast<uint32_t>((*random)()));
    values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    ConvertToF32(stored, bytes.data(), values.size(), values.data());
  }
  LinearRows rows() const { return {{dtype, out, in, bytes.data()}, {}}; }

  DType dtype;
  int32_t out, in;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<float> RandomGamma(int32_t width, std::mt19937* random) {
  std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
  std::vector<float> gamma(static_cast<size_t>(width));
  for (float& x : gamma) x = uniform(*random);
  return gamma;
}

struct TinyLayer {
  Matrix q, k, v, out, gate, up, down;
  std::vector<float> norm, ff_norm, q_norm, k_norm, post_norm, post_ff_norm;
};

struct TinyWeights {
  TinyWeights(const TinyShape& shape, DType stored, uint32_t seed) : shape(shape) {
    std::mt19937 random(seed);
    const auto matrix = [&](int32_t out, int32_t in) { return Matrix(stored, out, in, &random); };
    const auto gamma = [&](int32_t width) { return RandomGamma(width, &random); };
    words = std::make_unique<Matrix>(matrix(shape.vocabulary, shape.hidden));
    for (int32_t i = 0; i < shape.layers; ++i) {
      const int32_t width = shape.heads * shape.head_size, kv = shape.kv_heads * shape.head_size;
      layers.push_back({matrix(width, shape.hidden), matrix(kv, shape.hidden),
                        matrix(kv, shape.hidden), matrix(shape.hidden, width),
                        matrix(shape.inner, shape.hidden), matrix(shape.inner, shape.hidden),
                        matrix(shape.hidden, shape.inner), gamma(shape.hidden), gamma(shape.hidden),
                        gamma(shape.head_size), gamma(shape.head_size), gamma(shape.hidden),
                        gamma(shape.hidden)});
    }
    norm = gamma(shape.hidden);
  }

  TinyShape shape;
  std::unique_ptr<Matrix> words;
  std::vector<TinyLayer> layers;
  std::vector<float> norm;
};

double Angle(const TinyShape& shape, int32_t position, int32_t pair) {
  return position * std::pow(10000.0, -2.0 * pair / shape.rope_size);
}

// The weights packed, and their program.
class TinyDecoder {
 public:
  TinyDecoder(const TinyWeights& weights, DType mode, const std::string& isa, int threads)
      : shape_(weights.shape), backend_(*NewCpuBackend({threads, false, isa})) {
    const TinyShape& s = shape_;
    program_.max_length = s.context;
    const ValueId x = program_.AddValue(Rows::kTokens, s.hidden);
    const ValueId attended = program_.AddValue(Rows::kTokens, s.heads * s.head_size);
    program_.result = program_.AddValue(Rows::kSequences, s.vocabulary);
    const auto pack = [&](const Matrix& matrix) { return Pack(matrix, mode); };
    const PackedLinear* words = pack(*weights.words);
    program_.ops.push_back(LookupOp{words, 1, x});
    const Table* cos = Rotary([](double a) { return std::cos(a); });
    const Table* sin = Rotary([](double a) { return std::sin(a); });
    for (int32_t i = 0; i < s.layers; ++i) {
      const TinyLayer& layer = weights.layers[static_cast<size_t>(i)];
      CachedAttentionShape shape;
      shape.layer = i;
      shape.heads = s.heads;
      shape.kv_heads = s.kv_heads;
      shape.head_size = s.head_size;
      shape.scale = 1 / std::sqrt(static_cast<float>(s.head_size));
      shape.soft_cap = s.soft_cap;
      shape.window = i % 2 == 1 || s.all_windows ? s.window : 0;
      shape.causal = s.causal;
      shape.rope_cos = cos;
      shape.rope_sin = sin;
      shape.rope_size = s.rope_size;
      shape.rope_interleaved = s.interleaved;
      if (s.head_norms) {
        shape.q_norm = NormOf(layer.q_norm);
        shape.k_norm = NormOf(layer.k_norm);
      }
      program_.ops.push_back(CachedAttentionOp{x, NormOf(layer.norm), pack(layer.q), pack(layer.k),
                                               pack(layer.v), shape, attended});
      program_.ops.push_back(ResidualLinearOp{attended, pack(layer.out),
                                              s.post_norms ? NormOf(layer.post_norm) : Norm(),
                                              s.residual_scale, x, x});
      program_.ops.push_back(GatedResidualOp{x, NormOf(layer.ff_norm), pack(layer.gate),
                                             pack(layer.up), Activation::kSilu, pack(layer.down),
                                             s.post_norms ? NormOf(layer.post_ff_norm) : Norm(),
                                             s.residual_scale, x, x});
    }
    if (s.states) {
      program_.values[program_.result].width = s.hidden;
      program_.ops.push_back(StatesOp{x, NormOf(weights.norm), program_.result});
    } else {
      program_.ops.push_back(LogitsOp{x, NormOf(weights.norm), words, 1, 0, program_.result});
    }
    EXPECT_TRUE(CheckProgram(program_).ok()) << CheckProgram(program_).message();
  }

  std::unique_ptr<StepRun> NewRun(DType cache, int32_t rows, int32_t blocks = 256,
                                  const StepTuning& tuning = {}) {
    auto run = backend_->PrepareSteps(program_, {cache, {blocks}, rows, rows, true, tuning});
    EXPECT_TRUE(run.ok()) << run.status().message();
    return *std::move(run);
  }

  std::unique_ptr<StepRun> NewRunOfGroups(DType cache, int32_t rows, int32_t windows) {
    return *backend_->PrepareSteps(program_, {cache, {256, windows}, rows, rows, true, {}});
  }

  Expected<std::unique_ptr<StepRun>> TryRun(DType cache, int32_t rows) {
    return backend_->PrepareSteps(program_, {cache, {256}, rows, rows, true, {}});
  }

 private:
  const PackedLinear* Pack(const Matrix& matrix, DType mode) {
    const LinearRows rows = matrix.rows();
    PackOptions options;
    options.dtype = mode;
    auto packed = backend_->PackBlocks({&rows, 1}, options);
    EXPECT_TRUE(packed.ok()) << packed.status().message();
    linears_.push_back(*std::move(packed));
    return linears_.back().get();
  }
  Norm NormOf(const std::vector<float>& gamma) {
    tables_.push_back(backend_->Keep(ViewOf(gamma, static_cast<int64_t>(gamma.size()))));
    return {tables_.back().get(), nullptr, 1e-5f, NormKind::kRms};
  }
  const Table* Rotary(double (*function)(double)) {
    std::vector<float> values;
    for (int32_t p = 0; p < shape_.context; ++p) {
      for (int32_t i = 0; i < shape_.rope_size / 2; ++i) {
        values.push_back(static_cast<float>(function(Angle(shape_, p, i))));
      }
    }
    tables_.push_back(backend_->Keep(ViewOf(values, shape_.rope_size / 2)));
    return tables_.back().get();
  }

  const TinyShape shape_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<PackedLinear>> linears_;
  Program program_;
};

// The same in double precision, one sequence from its beginning. Returns [ids, vocabulary].
using Rows64 = std::vector<std::vector<double>>;

Rows64 Times(const Rows64& x, const Matrix& w) {
  Rows64 y;
  for (const auto& row : x) {
    auto& to = y.emplace_back(static_cast<size_t>(w.out));
    for (size_t o = 0; o < to.size(); ++o) {
      const float* from = w.values.data() + o * static_cast<size_t>(w.in);
      to[o] = std::inner_product(row.begin(), row.end(), from, 0.0, std::plus<>(),
                                 [](double a, float b) { return a * double{b}; });
    }
  }
  return y;
}

void NormInPlace(double* x, size_t width, const std::vector<float>& gamma) {
  double squares = 0;
  for (size_t i = 0; i < width; ++i) squares += x[i] * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
  for (size_t i = 0; i < width; ++i) x[i] *= scale * double{gamma[i]};
}

Rows64 Normed(Rows64 x, const std::vector<float>& gamma) {
  for (auto& row : x) NormInPlace(row.data(), row.size(), gamma);
  return x;
}

void Rotate(const TinyShape& s, int32_t position, double* head) {
  for (int32_t i = 0; i < s.rope_size / 2; ++i) {
    double& a = head[s.interleaved ? 2 * i : i];
    double& b = head[s.interleaved ? 2 * i + 1 : i + s.rope_size / 2];
    const double cos = std::cos(Angle(s, position, i)), sin = std::sin(Angle(s, position, i));
    const double x = a, y = b;
    a = x * cos - y * sin;
    b = y * cos + x * sin;
  }
}

Rows64 PlainAttention(const TinyShape& s, const TinyLayer& layer, int32_t window, const Rows64& x) {
  Rows64 q = Times(x, layer.q), k = Times(x, layer.k);
  const Rows64 v = Times(x, layer.v);
  const auto size = static_cast<size_t>(s.head_size);
  for (size_t t = 0; t < x.size(); ++t) {
    for (Rows64* rows : {&q, &k}) {
      for (size_t at = 0; at < (*rows)[t].size(); at += size) {
        double* head = (*rows)[t].data() + at;
        if (s.head_norms) NormInPlace(head, size, rows == &q ? layer.q_norm : layer.k_norm);
        Rotate(s, static_cast<int32_t>(t), head);
      }
    }
  }
  Rows64 y(x.size(), std::vector<double>(q[0].size()));
  const auto group = static_cast<size_t>(s.heads / s.kv_heads);
  for (size_t t = 0; t < x.size(); ++t) {
    const auto reach = static_cast<size_t>(window);
    const size_t first = window > 0 && t + 1 > reach ? t + 1 - reach : 0;
    const size_t after = window > 0 ? std::min(x.size(), t + reach) : x.size();
    const size_t end = s.causal ? t + 1 : after;
    for (size_t h = 0; h < static_cast<size_t>(s.heads); ++h) {
      const size_t from = h / group * size;
      std::vector<double> weights;
      double max = -1e300, sum = 0;
      for (size_t key = first; key < end; ++key) {
        double dot = 0;
        for (size_t i = 0; i < size; ++i) dot += q[t][h * size + i] * k[key][from + i];
        dot /= std::sqrt(static_cast<double>(s.head_size));
        if (s.soft_cap > 0) dot = double{s.soft_cap} * std::tanh(dot / double{s.soft_cap});
        weights.push_back(dot);
        max = std::max(max, dot);
      }
      for (double& w : weights) sum += w = std::exp(w - max);
      for (size_t key = first; key < end; ++key) {
        for (size_t i = 0; i < size; ++i) {
          y[t][h * size + i] += weights[key - first] / sum * v[key][from + i];
        }
      }
    }
  }
  return y;
}

void AddScaled(const TinyShape& s, const Rows64& add, Rows64* x) {
  for (size_t t = 0; t < x->size(); ++t) {
    for (size_t i = 0; i < (*x)[t].size(); ++i) {
      (*x)[t][i] += double{s.residual_scale} * add[t][i];
    }
  }
}

Rows64 PlainLogits(const TinyWeights& weights, const std::vector<int32_t>& ids) {
  const TinyShape& s = weights.shape;
  Rows64 x;
  for (const int32_t id : ids) {
    const float* row = weights.words->values.data() + static_cast<size_t>(id * s.hidden);
    x.emplace_back(row, row + s.hidden);
  }
  for (int32_t i = 0; i < s.layers; ++i) {
    const TinyLayer& layer = weights.layers[static_cast<size_t>(i)];
    const int32_t window = i % 2 == 1 ? s.window : 0;
    Rows64 add = Times(PlainAttention(s, layer, window, Normed(x, layer.norm)), layer.out);
    AddScaled(s, s.post_norms ? Normed(add, layer.post_norm) : add, &x);
    const Rows64 normed = Normed(x, layer.ff_norm);
    Rows64 inner = Times(normed, layer.gate);
    const Rows64 up = Times(normed, layer.up);
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t j = 0; j < inner[t].size(); ++j) {
        inner[t][j] *= up[t][j] / (1 + std::exp(-inner[t][j]));
      }
    }
    add = Times(inner, layer.down);
    AddScaled(s, s.post_norms ? Normed(add, layer.post_ff_norm) : add, &x);
  }
  x = Normed(x, weights.norm);
  return s.states ? x : Times(x, *weights.words);
}

std::vector<int32_t> RandomIds(const TinyShape& shape, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random() % static_cast<uint32_t>(shape.vocabulary));
  return ids;
}

// Of the window group, eight blocks in turns; -1 for those that no row after `past` tokens sees.
std::vector<int32_t> WindowBlocks(size_t count, int32_t past, int32_t window, int32_t first_block) {
  std::vector<int32_t> blocks(count, -1);
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
    const bool seen = past - (i * kKvBlockTokens + kKvBlockTokens - 1) < window;
    if (seen) blocks[static_cast<size_t>(i)] = first_block + i * 3 % 8;
  }
  return blocks;
}

// One text in a run: its ids go through in steps of the given sizes, the last size again and again;
// returns the logits of every id, end to end.
std::vector<float> RunInSteps(StepRun* run, const TinyShape& shape, const std::vector<int32_t>& ids,
                              const std::vector<size_t>& sizes, int32_t first_block = 0) {
  std::vector<int32_t> blocks(static_cast<size_t>(shape.context) / kKvBlockTokens + 1);
  // Out of order, as a pool that was used for a while gives them.
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = first_block + static_cast<int32_t>((i * 7) % blocks.size());
  }
  std::vector<BlockTable> tables = {blocks};
  if (run->groups().size() > 1) tables.resize(2);
  std::vector<float> all;
  size_t done = 0;
  for (size_t step = 0; done < ids.size(); ++step) {
    const size_t rows = std::min(sizes[std::min(step, sizes.size() - 1)], ids.size() - done);
    std::vector<int32_t> picked(rows);
    std::iota(picked.begin(), picked.end(), 0);
    const auto past = static_cast<int32_t>(done);
    if (tables.size() > 1) {
      tables[1] = WindowBlocks(blocks.size(), past, run->groups()[1].window, first_block);
    }
    const StepSequence sequence = {static_cast<int32_t>(rows), past, tables};
    const Status status =
        run->Run({std::span(ids).subspan(done, rows), {&sequence, 1}, picked}, nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) break;
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const float> logits = run->logits(row);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    done += rows;
  }
  return all;
}

::testing::AssertionResult Near(const std::vector<float>& got, const Rows64& want, double bound) {
  double scale = 0, worst = 0;
  for (const auto& row : want) {
    for (const double x : row) scale = std::max(scale, std::abs(x));
  }
  size_t i = 0;
  for (const auto& row : want) {
    for (const double x : row) worst = std::max(worst, std::abs(x - double{got[i++]}) / scale);
  }
  if (i == got.size() && worst <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "off by " << worst << " of the largest logit";
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<TinyShape> Shapes() {
  std::vector<TinyShape> shapes(5);
  shapes[1].interleaved = true;
  shapes[1].kv_heads = 8;
  shapes[1].rope_size = 16;
  shapes[2].window = 37;
  shapes[2].soft_cap = 5;
  shapes[2].post_norms = true;
  shapes[2].head_norms = true;
  shapes[3].head_size = 24;  // not whole panels
  shapes[3].heads = 6;
  shapes[3].kv_heads = 3;
  shapes[3].rope_size = 24;
  shapes[3].residual_scale = 0.25f;
  shapes[4].head_size = 64;
  shapes[4].heads = 4;
  shapes[4].kv_heads = 1;
  return shapes;
}

TEST(StepRun, LogitsAreThoseOfAPlainModelInDoublePrecision) {
  for (const TinyShape& shape : Shapes()) {
    if (shape.heads * shape.head_size % 2 != 0) continue;
    const TinyWeights weights(shape, DType::kF32, 1);
    const std::vector<int32_t> ids = RandomIds(shape, 80, 2);
    const Rows64 want = PlainLogits(weights, ids);
    for (const std::string& isa : UsableIsas()) {
      TinyDecoder decoder(weights, DType::kF32, isa, 2);
      EXPECT_TRUE(
          Near(RunInSteps(decoder.NewRun(DType::kF32, 64).get(), shape, ids, {50, 1}), want, 2e-5))
          << isa;
      EXPECT_TRUE(
          Near(RunInSteps(decoder.NewRun(DType::kBf16, 64).get(), shape, ids, {50, 1}), want, 2e-2))
          << isa;
    }
  }
}

// Hidden states of models that embed: all of one sequence, and the last ones of several.
TEST(StepRun, StatesOfAttentionInBothDirections) {
  for (const int32_t window : {0, 37}) {
    TinyShape shape;
    shape.causal = false;
    shape.states = true;
    shape.window = window;
    const TinyWeights weights(shape, DType::kF32, 1);
    for (const std::string& isa : UsableIsas()) {
      TinyDecoder decoder(weights, DType::kF32, isa, 2);
      auto run = decoder.NewRun(DType::kF32, 600);
      for (const size_t length : {1u, 2u, 80u, 600u}) {
        const std::vector<int32_t> ids = RandomIds(shape, length, 2);
        EXPECT_TRUE(
            Near(RunInSteps(run.get(), shape, ids, {length}), PlainLogits(weights, ids), 2e-5))
            << isa << " length " << length << " window " << window;
      }
    }
  }
}

TEST(StepRun, StatesOfPickedRows) {
  for (const bool causal : {true, false}) {
    TinyShape shape;
    shape.causal = causal;
    shape.states = true;
    const TinyWeights weights(shape, DType::kF32, 1);
    TinyDecoder decoder(weights, DType::kF32, "", 2);
    auto run = decoder.NewRun(DType::kF32, 256);
    std::vector<std::vector<int32_t>> blocks;
    std::vector<StepSequence> sequences;
    std::vector<int32_t> all, picked;
    for (int32_t s = 0; s < 5; ++s) {
      const auto length = static_cast<size_t>(1 + 17 * s);
      const std::vector<int32_t> ids = RandomIds(shape, length, static_cast<uint32_t>(s));
      all.insert(all.end(), ids.begin(), ids.end());
      picked.push_back(static_cast<int32_t>(all.size()) - 1);
      blocks.push_back({3 * s, 3 * s + 1, 3 * s + 2});
    }
    for (int32_t s = 0; s < 5; ++s) {
      sequences.push_back({1 + 17 * s, 0, blocks[static_cast<size_t>(s)]});
    }
    ASSERT_TRUE(run->Run({all, sequences, picked}, nullptr).ok());
    for (int32_t s = 0; s < 5; ++s) {
      const auto length = static_cast<size_t>(1 + 17 * s);
      const Rows64 want = PlainLogits(weights, RandomIds(shape, length, static_cast<uint32_t>(s)));
      const std::span<const float> got = run->logits(static_cast<size_t>(s));
      EXPECT_TRUE(Near({got.begin(), got.end()}, {want.back()}, 2e-5)) << s;
    }
  }
}

TEST(StepRun, BothDirectionsNeedWholeSequences) {
  TinyShape shape;
  shape.causal = false;
  const TinyWeights weights(shape, DType::kF32, 1);
  TinyDecoder decoder(weights, DType::kF32, "", 1);
  const std::vector<int32_t> blocks = {0};
  const StepSequence sequence = {1, 3, blocks};
  const std::vector<int32_t> ids = {5};
  const Status status = decoder.NewRun(DType::kF32, 8)->Run({ids, {&sequence, 1}, {}}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "sequences");
}

TEST(StepRun, BitsDoNotDependOnStepsOrThreads) {
  const std::vector<std::vector<size_t>> cuts = {{1}, {7, 2, 9}, {33, 1, 64}, {64}};
  for (const DType stored : {DType::kF32, DType::kBf16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                             DType::kQ5_0, DType::kQ5_1, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    const DType mode = IsBlockType(stored) ? DType::kI8 : stored;
    TinyShape shape;
    shape.window = 50;
    const TinyWeights weights(shape, stored, 3);
    const std::vector<int32_t> ids = RandomIds(shape, 100, 4);
    TinyDecoder first(weights, mode, "", 1);
    const std::vector<float> want =
        RunInSteps(first.NewRun(DType::kBf16, 64).get(), shape, ids, {64});
    // More threads than processors wait for each other: that is slow, so not for every type.
    const int most = stored == DType::kF32 || stored == DType::kQ6K ? 3 : 2;
    for (int threads = 1; threads <= most; ++threads) {
      TinyDecoder decoder(weights, mode, "", threads);
      auto run = decoder.NewRun(DType::kBf16, 64);
      for (const auto& cut : cuts) {
        EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, cut), want))
            << DTypeName(stored) << ", " << threads << " threads, steps of " << cut[0];
      }
    }
  }
}

TEST(StepRun, BitsDoNotDependOnTheShapesOfAttention) {
  for (const TinyShape& shape : Shapes()) {
    const TinyWeights weights(shape, DType::kF32, 5);
    const std::vector<int32_t> ids = RandomIds(shape, 600, 6);  // three chunks of keys
    for (const DType cache : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}) {
      TinyDecoder decoder(weights, DType::kF32, "", 2);
      auto run = decoder.NewRun(cache, 64);
      const std::vector<float> want = RunInSteps(run.get(), shape, ids, {64});
      EXPECT_TRUE(
          SameBits(RunInSteps(run.get(), shape, ids, {64, 64, 64, 64, 64, 64, 64, 1}), want))
          << DTypeName(cache) << " " << shape.head_size;
      EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {29}), want)) << DTypeName(cache);
    }
  }
}

TEST(StepRun, BitsDoNotDependOnTuning) {
  TinyShape shape;
  const TinyWeights weights(shape, DType::kQ4K, 5);
  const std::vector<int32_t> ids = RandomIds(shape, 530, 6);
  TinyDecoder decoder(weights, DType::kI8, "", 2);
  const std::vector<float> want = RunInSteps(decoder.NewRun(DType::kBf16, 64).get(), shape, ids,
                                             {64, 64, 64, 64, 64, 64, 64, 64, 1});
  for (bool StepTuning::*off :
       {&StepTuning::own_rows, &StepTuning::split_keys, &StepTuning::fuse_heads}) {
    StepTuning tuning;
    tuning.*off = false;
    auto run = decoder.NewRun(DType::kBf16, 64, 256, tuning);
    EXPECT_TRUE(
        SameBits(RunInSteps(run.get(), shape, ids, {64, 64, 64, 64, 64, 64, 64, 64, 1}), want));
    EXPECT_GT(run->TakeProfile().attend_s, 0);
    EXPECT_EQ(run->TakeProfile().steps, 0);
  }
}

TEST(StepRun, BitsDoNotDependOnCompany) {
  TinyShape shape;
  const TinyWeights weights(shape, DType::kQ8_0, 7);
  TinyDecoder decoder(weights, DType::kI8, "", 2);
  auto run = decoder.NewRun(DType::kBf16, 64, 64);
  // Three texts that go through the same steps, each at another place.
  const size_t lengths[] = {5, 40, 21};
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < 3; ++i) {
    texts.push_back(RandomIds(shape, lengths[i] + 3, 8 + static_cast<uint32_t>(i)));
    alone.push_back(RunInSteps(run.get(), shape, texts[i], {64}));
  }
  std::vector<std::vector<int32_t>> blocks = {{40, 3}, {9, 8}, {0, 63}};
  std::vector<int32_t> past(3, 0);
  for (int step = 0; step < 4; ++step) {
    std::vector<int32_t> ids, picked;
    std::vector<StepSequence> sequences;
    for (size_t i = 0; i < 3; ++i) {
      const auto rows = step == 0 ? static_cast<int32_t>(lengths[i]) : 1;
      const auto begin = texts[i].begin() + past[i];
      ids.insert(ids.end(), begin, begin + rows);
      picked.push_back(static_cast<int32_t>(ids.size()) - 1);
      sequences.push_back({rows, past[i], blocks[i]});
    }
    if (step == 0) {  // as many as fit
      ids.resize(64);
      sequences[2].rows = 64 - 45;
      picked[2] = 63;
    }
    const Status status = run->Run({ids, sequences, picked}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < 3; ++i) {
      past[i] += sequences[i].rows;
      const size_t width = static_cast<size_t>(shape.vocabulary);
      const float* want = alone[i].data() + static_cast<size_t>(past[i] - 1) * width;
      EXPECT_EQ(std::memcmp(run->logits(i).data(), want, width * sizeof(float)), 0)
          << "text " << i << ", step " << step;
    }
  }
}

// Every id of every row once, by any worker.
class CountingSink final : public LogitSink {
 public:
  CountingSink(size_t rows, size_t vocabulary) : seen_(rows, std::vector<float>(vocabulary)) {}
  void Add(size_t worker, size_t row, std::span<const float> logits, size_t first_id) override {
    EXPECT_LT(worker, 2u);
    EXPECT_EQ(first_id % kLogitPieceIds, 0u);
    const size_t end = first_id + logits.size();
    EXPECT_TRUE(end % kLogitPieceIds == 0 || end == seen_[row].size());
    std::copy(logits.begin(), logits.end(), seen_[row].begin() + static_cast<ptrdiff_t>(first_id));
    ids_ += logits.size();
  }
  const std::vector<float>& row(size_t index) const { return seen_[index]; }
  size_t ids() const { return ids_; }

 private:
  std::vector<std::vector<float>> seen_;
  std::atomic<size_t> ids_{0};
};

TEST(StepRun, TheSinkGetsEveryLogitOnce) {
  TinyShape shape;
  shape.vocabulary = 5003;
  const TinyWeights weights(shape, DType::kQ4_0, 11);
  TinyDecoder decoder(weights, DType::kI8, "", 2);
  auto run = decoder.NewRun(DType::kBf16, 16);
  const std::vector<int32_t> ids = RandomIds(shape, 16, 12);
  const std::vector<int32_t> picked = {0, 7, 15};
  std::vector<int32_t> blocks = {0};
  const StepSequence sequence = {16, 0, blocks};
  CountingSink sink(3, 5003);
  ASSERT_TRUE(run->Run({ids, {&sequence, 1}, picked}, &sink).ok());
  EXPECT_EQ(sink.ids(), 3 * 5003u);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(std::memcmp(sink.row(row).data(), run->logits(row).data(), 5003 * sizeof(float)), 0);
  }
}

// Pages of blocks that are idle go back to the system; texts in other blocks go on, and the blocks
// are as good as new afterwards.
TEST(StepRun, PagesOfBlocksGoBackAndComeAgain) {
  TinyShape shape;
  shape.heads = shape.kv_heads = 8;
  shape.head_size = 64;
  const TinyWeights weights(shape, DType::kF32, 13);
  TinyDecoder decoder(weights, DType::kF32, "", 2);
  auto run = decoder.NewRun(DType::kF32, 64);
  ASSERT_EQ(run->page_blocks(), 8);
  EXPECT_EQ(run->CommittedBytes(), 0u);
  const std::vector<int32_t> ids = RandomIds(shape, 690, 14);
  const std::vector<float> want = RunInSteps(run.get(), shape, ids, {64});
  const uint64_t of_one = run->CommittedBytes();
  EXPECT_EQ(of_one, 24 * run->block_bytes(0));  // 22 blocks, whole groups
  EXPECT_GE(of_one, 6u << 20);
  RunInSteps(run.get(), shape, ids, {64}, /*first_block=*/64);
  EXPECT_EQ(run->CommittedBytes(), 2 * of_one);

  std::vector<int32_t> second(24);
  std::iota(second.begin(), second.end(), 64);
  const uint64_t before = ResidentBytes();
  EXPECT_EQ(run->ReleaseBlocks(0, second), of_one);
  EXPECT_EQ(run->CommittedBytes(), of_one);
#ifndef __SANITIZE_THREAD__
  EXPECT_LE(ResidentBytes() + of_one * 9 / 10, before);
#endif

  // The last token of the first text again, over its 689 cached ones.
  std::vector<int32_t> blocks(22);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i * 7 % 22);
  const StepSequence sequence = {1, 689, blocks};
  const int32_t row = 0;
  ASSERT_TRUE(run->Run({std::span(ids).last(1), {&sequence, 1}, {&row, 1}}, nullptr).ok());
  EXPECT_EQ(std::memcmp(run->logits(0).data(), &want[want.size() - run->logits(0).size()],
                        run->logits(0).size_bytes()),
            0);
  EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {64}, 64), want));
  EXPECT_EQ(run->CommittedBytes(), 2 * of_one);
}

// With blocks of their own for the layers with a window, which come again once it has passed.
TEST(StepRun, BitsDoNotDependOnGroups) {
  for (const bool all_windows : {false, true}) {
    for (const int32_t window : {1, 17, 32, 33, 100}) {
      for (const DType cache : {DType::kF32, DType::kBf16, DType::kI8}) {
        TinyShape shape;
        shape.layers = 3;
        shape.window = window;
        shape.all_windows = all_windows;
        const TinyWeights weights(shape, DType::kF32, 15);
        TinyDecoder decoder(weights, DType::kF32, "", 2);
        auto plain = decoder.NewRun(cache, 64);
        EXPECT_EQ(plain->groups().size(), 1u);
        EXPECT_EQ(plain->block_bytes(1), 0u);
        const std::vector<int32_t> ids = RandomIds(shape, 690, 16);
        const std::vector<float> want = RunInSteps(plain.get(), shape, ids, {64});
        for (const std::vector<size_t>& sizes : {std::vector<size_t>{64}, {33, 1, 7, 64}}) {
          auto run = decoder.NewRunOfGroups(cache, 64, 16);
          ASSERT_EQ(run->groups().size(), 2u);
          EXPECT_EQ(run->groups()[1], (CacheGroup{CacheKind::kWindow, window}));
          EXPECT_EQ(run->block_bytes(0) + run->block_bytes(1), plain->block_bytes(0));
          EXPECT_EQ(run->block_bytes(0), all_windows ? 0 : plain->block_bytes(0) / 3 * 2);
          EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, sizes, 8), want))
              << window << all_windows;
          EXPECT_EQ(run->CommittedBytes(), 24 * run->block_bytes(0) + 8 * run->block_bytes(1));
        }
      }
    }
  }
}

TEST(StepRun, PagesOfAGroupGoBack) {
  TinyShape shape;
  shape.window = 40;
  const TinyWeights weights(shape, DType::kF32, 15);
  TinyDecoder decoder(weights, DType::kF32, "", 2);
  auto run = decoder.NewRunOfGroups(DType::kF32, 64, 16);
  RunInSteps(run.get(), shape, RandomIds(shape, 200, 16), {64});
  std::vector<int32_t> first(8);
  std::iota(first.begin(), first.end(), 0);
  const uint64_t before = run->CommittedBytes();
  const uint64_t of_eight = 8 * run->block_bytes(1);
  EXPECT_EQ(run->ReleaseBlocks(1, first), of_eight);
  EXPECT_EQ(run->CommittedBytes(), before - of_eight);
  EXPECT_EQ(run->ReleaseBlocks(1, first), 0u);
}

TEST(StepRun, RefusesKindsOfCacheThatItDoesNotKeep) {
  const CacheGroup groups[] = {kFullGroup, {CacheKind::kWindow, 40}, {CacheKind::kState}};
  EXPECT_TRUE(CheckCacheKinds(std::span(groups).first(2)).ok());
  const Status status = CheckCacheKinds(groups);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("\"state\""));
}

TEST(StepRun, RefusesBlocksThatAreMissingInTheWindow) {
  TinyShape shape;
  shape.window = 40;
  const TinyWeights weights(shape, DType::kF32, 15);
  TinyDecoder decoder(weights, DType::kF32, "", 1);
  auto run = decoder.NewRunOfGroups(DType::kF32, 8, 4);
  const std::vector<int32_t> ids = {1}, blocks = {0, 1, 2, 3, 4};
  // A row after 103 tokens sees keys from 64 on.
  const auto message = [&](const std::vector<int32_t>& windows) {
    const std::vector<BlockTable> tables = {blocks, windows};
    const StepSequence sequence = {1, 103, tables};
    return run->Run({ids, {&sequence, 1}, {}}, nullptr).message();
  };
  EXPECT_EQ(message({-1, -1, 0, 3}), "");
  EXPECT_EQ(message({-1, 9, 0, 3}), "");
  EXPECT_EQ(message({-1, -1, -1, 3}), "sequence 0 has a block beyond the cache");
  EXPECT_EQ(message({-1, -1, 0, 4}), "sequence 0 has a block beyond the cache");
  EXPECT_EQ(message({-1, -1, 0}), "sequence 0 has too few blocks");
  EXPECT_EQ(message({}), "sequence 0 has too few blocks");
  const StepSequence one_table = {1, 103, blocks};
  EXPECT_EQ(run->Run({ids, {&one_table, 1}, {}}, nullptr).message(),
            "sequence 0 has too few blocks");
}

TEST(StepRun, RefusesHeadsThatAreTooLong) {
  TinyShape shape;
  shape.head_size = 514;
  shape.heads = shape.kv_heads = 1;
  const TinyWeights weights(shape, DType::kF32, 13);
  TinyDecoder decoder(weights, DType::kF32, "", 1);
  EXPECT_THAT(decoder.TryRun(DType::kBf16, 8).status().message(),
              testing::HasSubstr("heads of 514 values"));
}

TEST(StepRun, RefusesWhatDoesNotFit) {
  TinyShape shape;
  const TinyWeights weights(shape, DType::kF32, 13);
  TinyDecoder decoder(weights, DType::kF32, "", 1);
  auto run = decoder.NewRun(DType::kBf16, 8, 4);
  const std::vector<int32_t> ids = {1, 2, 3};
  const std::vector<int32_t> blocks = {0, 1, 2, 3};
  const auto field = [&](const std::vector<int32_t>& tokens, StepSequence sequence,
                         std::vector<int32_t> picked) {
    const Status status = run->Run({tokens, {&sequence, 1}, picked}, nullptr);
    EXPECT_EQ(status.ok() ? "" : status.field(), status.field());
    return status.ok() ? std::string("ok") : status.field();
  };
  EXPECT_EQ(field(ids, {3, 0, blocks}, {2}), "ok");
  EXPECT_EQ(field(ids, {3, 0, blocks}, {}), "ok");
  EXPECT_EQ(field({}, {0, 0, blocks}, {}), "inputs");
  EXPECT_EQ(field({1, 2, shape.vocabulary}, {3, 0, blocks}, {2}), "inputs");
  EXPECT_EQ(field({1, -1, 2}, {3, 0, blocks}, {2}), "inputs");
  EXPECT_EQ(field(std::vector<int32_t>(9, 1), {9, 0, blocks}, {2}), "inputs");
  EXPECT_EQ(field(ids, {2, 0, blocks}, {2}), "sequences");
  EXPECT_EQ(field(ids, {3, -1, blocks}, {2}), "sequences");
  EXPECT_EQ(field(ids, {3, shape.context - 2, blocks}, {2}), "sequences");
  const std::vector<int32_t> few = {0};
  EXPECT_EQ(field(ids, {3, 30, few}, {2}), "sequences");
  const std::vector<int32_t> beyond = {0, 4};
  EXPECT_EQ(field(ids, {3, 30, beyond}, {2}), "sequences");
  EXPECT_EQ(field(ids, {3, 0, blocks}, {3}), "logit_rows");
  EXPECT_EQ(field(ids, {3, 0, blocks}, {1, 1}), "logit_rows");
}

}  // namespace
}  // namespace penstock::cpu

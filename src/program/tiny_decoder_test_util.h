// A tiny decoder with made-up weights, run by a backend and by a plain model in double precision.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "numbers/random_blocks.h"
#include "program/backend.h"

namespace penstock::program {

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
  float soft_cap = 0;        // of scores
  float logit_cap = 0;
  bool interleaved = false;
  bool head_norms = false;
  bool post_norms = false;
  bool causal = true;
  bool states = false;  // the program ends in states, not in logits
  float residual_scale = 1;
  int32_t rope_size = 32;
};

// A matrix as stored, and what it stands for.
struct Matrix {
  Matrix(numbers::DType stored, int32_t rows, int32_t columns, std::mt19937* random)
      : dtype(stored), out(rows), in(columns) {
    bytes = numbers::RandomWeights(stored, static_cast<size_t>(rows), static_cast<size_t>(columns),
                                   static_cast<uint32_t>((*random)()));
    values.resize(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    numbers::ConvertToF32(stored, bytes.data(), values.size(), values.data());
  }
  program::LinearRows rows() const { return {{dtype, out, in, bytes.data()}, {}}; }

  numbers::DType dtype;
  int32_t out, in;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

inline std::vector<float> RandomGamma(int32_t width, std::mt19937* random) {
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
  TinyWeights(const TinyShape& shape_in, numbers::DType stored, uint32_t seed) : shape(shape_in) {
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

inline double Angle(const TinyShape& shape, int32_t position, int32_t pair) {
  return position * std::pow(10000.0, -2.0 * pair / shape.rope_size);
}

// The weights packed, and their program.
class TinyDecoder {
 public:
  TinyDecoder(const TinyWeights& weights, numbers::DType mode,
              std::unique_ptr<program::Backend> backend)
      : shape_(weights.shape), backend_(std::move(backend)) {
    const TinyShape& s = shape_;
    program_.max_length = s.context;
    const program::ValueId x = program_.AddValue(program::Rows::kTokens, s.hidden);
    const program::ValueId attended =
        program_.AddValue(program::Rows::kTokens, s.heads * s.head_size);
    program_.result = program_.AddValue(program::Rows::kSequences, s.vocabulary);
    const auto pack = [&](const Matrix& matrix) { return Pack(matrix, mode); };
    const program::PackedLinear* words = pack(*weights.words);
    program_.ops.push_back(program::EmbedOp{.matrix = words, .y = x});
    const program::Table* cos = Rotary([](double a) { return std::cos(a); });
    const program::Table* sin = Rotary([](double a) { return std::sin(a); });
    for (int32_t i = 0; i < s.layers; ++i) {
      const TinyLayer& layer = weights.layers[static_cast<size_t>(i)];
      program::AttentionShape shape;
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
      const auto residual = [&](const std::vector<float>& gamma) {
        return program::Residual{.value = x,
                                 .norm = s.post_norms ? NormOf(gamma) : program::Norm(),
                                 .scale = s.residual_scale};
      };
      program_.ops.push_back(program::AttentionOp{.x = x,
                                                  .norm = NormOf(layer.norm),
                                                  .q = pack(layer.q),
                                                  .k = pack(layer.k),
                                                  .v = pack(layer.v),
                                                  .shape = shape,
                                                  .y = attended});
      program_.ops.push_back(program::LinearOp{
          .x = attended, .weight = pack(layer.out), .residual = residual(layer.post_norm), .y = x});
      program_.ops.push_back(program::FeedForwardOp{.x = x,
                                                    .norm = NormOf(layer.ff_norm),
                                                    .in = pack(layer.gate),
                                                    .activation = program::Activation::kSilu,
                                                    .up = pack(layer.up),
                                                    .out = pack(layer.down),
                                                    .residual = residual(layer.post_ff_norm),
                                                    .y = x});
    }
    program::PicksOp picks{
        .x = x, .norm = NormOf(weights.norm), .weight = words, .y = program_.result};
    picks.soft_cap = s.logit_cap;
    if (s.states) {
      program_.values[program_.result].width = s.hidden;
      picks.weight = nullptr;
    }
    program_.ops.push_back(picks);
    EXPECT_TRUE(program::CheckProgram(program_).ok()) << program::CheckProgram(program_).message();
  }

  std::unique_ptr<program::ProgramRun> NewRun(numbers::DType cache, int32_t rows,
                                              int32_t blocks = 256,
                                              const std::vector<std::string>& without = {}) {
    auto run = backend_->Prepare(program_, {cache, {blocks}, rows, rows, true, without});
    EXPECT_TRUE(run.ok()) << run.status().message();
    return *std::move(run);
  }

  // With two steps under way, where the backend draws.
  std::unique_ptr<program::ProgramRun> NewRunAhead(numbers::DType cache, int32_t rows) {
    return *backend_->Prepare(program_, {cache, {256}, rows, rows, true, {}, true});
  }
  std::unique_ptr<program::ProgramRun> NewRunOfGroups(numbers::DType cache, int32_t rows,
                                                      int32_t windows) {
    return *backend_->Prepare(program_, {cache, {256, windows}, rows, rows, true, {}});
  }

  Expected<std::unique_ptr<program::ProgramRun>> TryRun(
      numbers::DType cache, int32_t rows, const std::vector<std::string>& without = {}) {
    return backend_->Prepare(program_, {cache, {256}, rows, rows, true, without});
  }
  std::span<const char* const> optimisations() const { return backend_->optimisations(); }

 private:
  const program::PackedLinear* Pack(const Matrix& matrix, numbers::DType mode) {
    const program::LinearRows rows = matrix.rows();
    program::PackOptions options;
    options.dtype = mode;
    options.as_stored = true;
    auto packed = backend_->Pack({&rows, 1}, options);
    EXPECT_TRUE(packed.ok()) << packed.status().message();
    linears_.push_back(*std::move(packed));
    return linears_.back().get();
  }
  program::Norm NormOf(const std::vector<float>& gamma) {
    tables_.push_back(backend_->Keep(program::ViewOf(gamma, static_cast<int64_t>(gamma.size()))));
    return {tables_.back().get(), nullptr, 1e-5f, program::NormKind::kRms};
  }
  const program::Table* Rotary(double (*function)(double)) {
    std::vector<float> values;
    for (int32_t p = 0; p < shape_.context; ++p) {
      for (int32_t i = 0; i < shape_.rope_size / 2; ++i) {
        values.push_back(static_cast<float>(function(Angle(shape_, p, i))));
      }
    }
    tables_.push_back(backend_->Keep(program::ViewOf(values, shape_.rope_size / 2)));
    return tables_.back().get();
  }

  const TinyShape shape_;
  std::unique_ptr<program::Backend> backend_;
  std::vector<std::unique_ptr<program::Table>> tables_;
  std::vector<std::unique_ptr<program::PackedLinear>> linears_;
  program::Program program_;
};

// The same in double precision, one sequence from its beginning. Returns [ids, vocabulary].
using Rows64 = std::vector<std::vector<double>>;

inline Rows64 Times(const Rows64& x, const Matrix& w) {
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

inline void NormInPlace(double* x, size_t width, const std::vector<float>& gamma) {
  double squares = 0;
  for (size_t i = 0; i < width; ++i) squares += x[i] * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
  for (size_t i = 0; i < width; ++i) x[i] *= scale * double{gamma[i]};
}

inline Rows64 Normed(Rows64 x, const std::vector<float>& gamma) {
  for (auto& row : x) NormInPlace(row.data(), row.size(), gamma);
  return x;
}

inline void Rotate(const TinyShape& s, int32_t position, double* head) {
  for (int32_t i = 0; i < s.rope_size / 2; ++i) {
    double& a = head[s.interleaved ? 2 * i : i];
    double& b = head[s.interleaved ? 2 * i + 1 : i + s.rope_size / 2];
    const double cos = std::cos(Angle(s, position, i)), sin = std::sin(Angle(s, position, i));
    const double x = a, y = b;
    a = x * cos - y * sin;
    b = y * cos + x * sin;
  }
}

inline Rows64 PlainAttention(const TinyShape& s, const TinyLayer& layer, int32_t window,
                             const Rows64& x) {
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

inline void AddScaled(const TinyShape& s, const Rows64& add, Rows64* x) {
  for (size_t t = 0; t < x->size(); ++t) {
    for (size_t i = 0; i < (*x)[t].size(); ++i) {
      (*x)[t][i] += double{s.residual_scale} * add[t][i];
    }
  }
}

inline Rows64 PlainLogits(const TinyWeights& weights, const std::vector<int32_t>& ids) {
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

inline std::vector<int32_t> RandomIds(const TinyShape& shape, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random() % static_cast<uint32_t>(shape.vocabulary));
  return ids;
}

// Blocks of the window group, eight in turns; -1 for those that no row after `past` tokens sees.
inline std::vector<int32_t> WindowBlocks(size_t count, int32_t past, int32_t window,
                                         int32_t first_block) {
  std::vector<int32_t> blocks(count, -1);
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
    const bool seen = past - (i * kKvBlockTokens + kKvBlockTokens - 1) < window;
    if (seen) blocks[static_cast<size_t>(i)] = first_block + i * 3 % 8;
  }
  return blocks;
}

// One text in a run: its ids go through in steps of the given sizes, the last size again and again;
// returns the logits of every id, end to end.
inline std::vector<float> RunInSteps(program::ProgramRun* run, const TinyShape& shape,
                                     const std::vector<int32_t>& ids,
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
    const program::SingleSequence sequence(rows, past, tables);
    const Status status = run->Run(sequence.Batch(std::span(ids).subspan(done, rows), picked));
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) break;
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const float> logits = *run->Row(row);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    done += rows;
  }
  return all;
}

inline ::testing::AssertionResult Near(const std::vector<float>& got, const Rows64& want,
                                       double bound) {
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

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<TinyShape> Shapes() {
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

}  // namespace penstock::program

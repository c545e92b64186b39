// A layer of an encoder of MiniLM's shape, as launches of kernels on the emulator, with random
// weights; and what it computes, in doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "cuda/attention-inl.h"
#include "cuda/gemm_narrow-inl.h"
#include "cuda/rows-inl.h"

namespace penstock::cuda {

// A matrix in pieces (gemm_mma-inl.h), and as doubles see it.
struct LayerMatrix {
  int features = 0, k = 0;
  std::vector<uint16_t> pieces;
  std::vector<float> bias;
  std::vector<double> exact;  // [features, k]

  LayerMatrix(int features_in, int k_in, std::mt19937* random)
      : features(features_in), k(k_in), pieces(static_cast<size_t>(features_in * k_in)) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(k)));
    for (int feature = 0; feature < features; ++feature) {
      bias.push_back(normal(*random));
      for (int at = 0; at < k; ++at) {
        const auto bits = static_cast<uint16_t>(simt::PackHalf(normal(*random), 0));
        const int piece = feature / 16 * (k / 64) + at / 64, r = feature % 16, c = at % 64 / 8;
        pieces[static_cast<size_t>(piece * 1024 + r * 64 + (c ^ r % 8) * 8 + at % 8)] = bits;
        exact.push_back(static_cast<double>(OperandValue(bits, Operand::kF16)));
      }
    }
  }
};

struct EncoderLayer {
  static constexpr int kWidth = 384, kHeads = 12, kInner = 1536, kDepth = kWidth / kHeads;

  explicit EncoderLayer(uint32_t seed) : random(seed) {
    std::normal_distribution<float> normal(1, 0.1F);
    for (auto* const values : {&gamma1, &gamma2}) {
      for (int i = 0; i < kWidth; ++i) values->push_back(normal(random));
    }
    beta.assign(kWidth, 0.05F);
  }

  // x: [rows, kWidth], sequences end to end; the layer's output in its place.
  Status Run(std::vector<float>* x, std::span<const int> lengths,
             const emulator::LaunchOptions& options, emulator::Counters* counters = nullptr) const {
    const int rows = static_cast<int>(x->size()) / kWidth;
    std::vector<uint16_t> x16(x->size()), context(x->size());
    std::vector<uint16_t> qkv(x->size() * 3), inner(static_cast<size_t>(rows * kInner));
    std::vector<float> sum(x->size());
    const std::vector<AttentionTile> tiles = TilesOf(lengths);
    const int count = static_cast<int>(tiles.size());
    // To y with a residual, else to y16.
    const auto product = [&](const LayerMatrix& w, const std::vector<uint16_t>& in,
                             const float* residual, float* y, std::vector<uint16_t>* y16,
                             program::Activation activation) {
      using Kernel = GemmNarrow<true>;
      GemmArgs args = {
          .x = in.data(), .w = w.pieces.data(), .rows = &rows, .stride = w.k, .k = w.k};
      args.to = {.bias = w.bias.data(),
                 .residual = residual,
                 .y = y,
                 .y16 = y16 == nullptr ? nullptr : y16->data(),
                 .features = w.features,
                 .stride16 = w.features,
                 .activation = activation,
                 .half = true};
      return Launch(
          {w.features / Kernel::kTileFeatures, (rows + 31) / 32, Kernel::kThreads,
           Kernel::kSharedBytes},
          options,
          [&] {
            Kernel::Run({args, {}, {}, true});
          },
          counters);
    };
    const auto norm = [&](std::vector<float>* at, const std::vector<float>& gamma) {
      const NormArgs args = {.x = at->data(),
                             .gamma = gamma.data(),
                             .beta = beta.data(),
                             .y = x->data(),
                             .y16 = x16.data(),
                             .rows = &rows,
                             .width = kWidth,
                             .stride16 = kWidth,
                             .epsilon = 1e-12F,
                             .half = true};
      return Launch(
          {(rows + RowsNorm::kTileRows - 1) / RowsNorm::kTileRows, 1, RowsNorm::kThreads}, options,
          [&] { RowsNorm::Run(args); }, counters);
    };
    constexpr auto kNone = program::Activation::kNone;
    Round(*x, &x16);
    PENSTOCK_RETURN_IF_ERROR(product(in_qkv, x16, nullptr, nullptr, &qkv, kNone));
    using Heads = Attention<kDepth, true, false>;
    const AttentionArgs attention = {.qkv = qkv.data(),
                                     .y = context.data(),
                                     .tiles = tiles.data(),
                                     .tile_count = &count,
                                     .stride = 3 * kWidth,
                                     .y_stride = kWidth,
                                     .heads = kHeads,
                                     .head_size = kDepth,
                                     .scale = 1 / std::sqrt(float{kDepth})};
    PENSTOCK_RETURN_IF_ERROR(Launch(
        {kHeads, count, Heads::kThreads, Heads::kSharedBytes}, options,
        [&] { Heads::Run(attention); }, counters));
    PENSTOCK_RETURN_IF_ERROR(product(out, context, x->data(), sum.data(), nullptr, kNone));
    PENSTOCK_RETURN_IF_ERROR(norm(&sum, gamma1));
    PENSTOCK_RETURN_IF_ERROR(
        product(up, x16, nullptr, nullptr, &inner, program::Activation::kGelu));
    PENSTOCK_RETURN_IF_ERROR(product(down, inner, x->data(), sum.data(), nullptr, kNone));
    return norm(&sum, gamma2);
  }

  // The same of one sequence in doubles, with the weights as they are stored.
  std::vector<double> Exact(const std::vector<float>& x) const {
    const size_t rows = x.size() / kWidth;
    const std::vector<double> in(x.begin(), x.end());
    const std::vector<double> qkv = Times(in, in_qkv);
    std::vector<double> context(x.size());
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t query = 0; query < rows; ++query) {
        std::vector<double> weights(rows);
        double sum = 0;
        for (size_t key = 0; key < rows; ++key) {
          double score = 0;
          for (size_t i = 0; i < kDepth; ++i) {
            score += qkv[query * 3 * kWidth + head * kDepth + i] *
                     qkv[key * 3 * kWidth + kWidth + head * kDepth + i];
          }
          sum += weights[key] = std::exp(score / std::sqrt(double{kDepth}));
        }
        for (size_t i = 0; i < kDepth; ++i) {
          for (size_t key = 0; key < rows; ++key) {
            context[query * kWidth + head * kDepth + i] +=
                weights[key] / sum * qkv[key * 3 * kWidth + 2 * kWidth + head * kDepth + i];
          }
        }
      }
    }
    const std::vector<double> middle = Norm(Plus(Times(context, out), in), gamma1);
    std::vector<double> inner = Times(middle, up);
    for (double& value : inner) value = 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
    return Norm(Plus(Times(inner, down), middle), gamma2);
  }

  std::mt19937 random;
  LayerMatrix in_qkv{3 * kWidth, kWidth, &random}, out{kWidth, kWidth, &random},
      up{kInner, kWidth, &random}, down{kWidth, kInner, &random};
  std::vector<float> gamma1, gamma2, beta;

 private:
  static std::vector<AttentionTile> TilesOf(std::span<const int> lengths) {
    std::vector<AttentionTile> tiles;
    int first = 0;
    for (const int length : lengths) {
      for (int query = 0; query < length; query += 64) {
        tiles.push_back({first, length, query, std::min(64, length - query), first + query});
      }
      first += length;
    }
    return tiles;
  }
  static void Round(std::span<const float> from, std::vector<uint16_t>* to) {
    for (size_t i = 0; i < from.size(); ++i) (*to)[i] = Operand16(from[i], true);
  }
  static std::vector<double> Times(const std::vector<double>& x, const LayerMatrix& w) {
    const auto k = static_cast<size_t>(w.k), features = static_cast<size_t>(w.features);
    std::vector<double> y;
    for (size_t row = 0; row < x.size() / k; ++row) {
      for (size_t feature = 0; feature < features; ++feature) {
        double sum = static_cast<double>(w.bias[feature]);
        for (size_t i = 0; i < k; ++i) sum += x[row * k + i] * w.exact[feature * k + i];
        y.push_back(sum);
      }
    }
    return y;
  }
  static std::vector<double> Plus(std::vector<double> a, const std::vector<double>& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }
  std::vector<double> Norm(std::vector<double> x, const std::vector<float>& gamma) const {
    for (size_t row = 0; row < x.size(); row += kWidth) {
      double mean = 0, square = 0;
      for (size_t i = 0; i < kWidth; ++i) mean += x[row + i] / kWidth;
      for (size_t i = 0; i < kWidth; ++i)
        square += (x[row + i] - mean) * (x[row + i] - mean) / kWidth;
      for (size_t i = 0; i < kWidth; ++i) {
        x[row + i] = (x[row + i] - mean) / std::sqrt(square + 1e-12) * gamma[i] + beta[i];
      }
    }
    return x;
  }
};

}  // namespace penstock::cuda

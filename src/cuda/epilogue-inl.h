// Epilogue of products: bias, activation, gate, residual, and both forms of the result.
#pragma once

#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

SIMT_FN uint32_t PackOperands(float low, float high, bool half) {
  return half ? simt::PackHalf(low, high) : simt::PackBf16(low, high);
}

SIMT_FN float Activate(float value, program::Activation activation) {
  using program::Activation;
  if (activation == Activation::kGelu) {
    return 0.5F * value * (1.0F + simt::Erf(value * 0.707106781F));
  }
  if (activation == Activation::kGeluTanh) {
    const float cube = value * value * value;
    return 0.5F * value * (1.0F + simt::Tanh(0.797884561F * simt::Fma(cube, 0.044715F, value)));
  }
  if (activation == Activation::kTanh) return simt::Tanh(value);
  if (activation == Activation::kRelu) return value > 0 ? value : 0.0F;
  if (activation == Activation::kSilu) return value * simt::Sigmoid(value);
  return value;
}

// One result; `up`: the sum of the gate's other matrix, where there is one.
SIMT_FN float Finish(const Epilogue& to, int64_t row, int feature, float value, bool gated,
                     float up) {
  if (feature >= to.features) return 0;
  if (to.bias != nullptr) value += to.bias[feature];
  value = Activate(value, to.activation);
  if (gated) value *= to.bias_up != nullptr ? up + to.bias_up[feature] : up;
  if (to.residual != nullptr) value += to.residual[row * to.features + feature];
  return value;
}

// Two neighbours from an even feature on, which may lie beyond the last one.
SIMT_FN void StorePair(const Epilogue& to, int64_t row, int feature, float first, float second) {
  if (to.y != nullptr) {
    float* const y = to.y + row * to.features + feature;
    if (feature < to.features) y[0] = first;
    if (feature + 1 < to.features) y[1] = second;
  }
  if (to.y16 != nullptr && feature < to.stride16) {
    *reinterpret_cast<uint32_t*>(to.y16 + row * to.stride16 + feature) =
        PackOperands(first, second, to.half);
  }
}

}  // namespace penstock::cuda

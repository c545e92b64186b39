// Rows of a decoder: RMS norms, and norm and rotation of heads. Included inside namespace
// penstock::cpu::<isa>, after rows-inl.h.

// y = x / sqrt(mean of x^2 + epsilon) * gamma.
inline void RmsNormRow(const float* x, size_t width, const float* gamma, float epsilon, float* y) {
  const float squares = SumOver(width, [&](size_t i, size_t n) {
    const Vec v = LoadN(x + i, n);
    return Simd::Mul(v, v);
  });
  const Vec inverse =
      Simd::Set(1.0f / __builtin_sqrtf(squares / static_cast<float>(width) + epsilon));
  ForVectors(width, [&](size_t i, size_t n) {
    StoreN(y + i, Simd::Mul(Simd::Mul(LoadN(x + i, n), inverse), LoadN(gamma + i, n)), n);
  });
}

void RmsNorm(const float* x, size_t rows, size_t width, const float* gamma, float epsilon,
             float* y) {
  for (size_t r = 0; r < rows; ++r) {
    RmsNormRow(x + r * width, width, gamma, epsilon, y + r * width);
  }
}

// Pairs (i, i + half).
inline void RotateHalves(float* x, const float* cos, const float* sin, size_t half) {
  ForVectors(half, [&](size_t i, size_t n) {
    const Vec a = LoadN(x + i, n);
    const Vec b = LoadN(x + half + i, n);
    const Vec c = LoadN(cos + i, n);
    const Vec s = LoadN(sin + i, n);
    StoreN(x + i, Simd::Sub(Simd::Mul(a, c), Simd::Mul(b, s)), n);
    StoreN(x + half + i, Simd::Add(Simd::Mul(b, c), Simd::Mul(a, s)), n);
  });
}

// Pairs (2i, 2i + 1).
inline void RotatePairs(float* x, const float* cos, const float* sin, size_t half) {
  for (size_t i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cos[i] - b * sin[i];
    x[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

void PrepareHeads(const HeadTask& task) {
  const size_t size = static_cast<size_t>(task.head_size);
  const size_t half = static_cast<size_t>(task.rope_size) / 2;
  for (size_t r = 0; r < task.rows; ++r) {
    const size_t angles = (static_cast<size_t>(task.first_position) + r) * half;
    for (size_t h = 0; h < task.heads; ++h) {
      float* x = task.x + r * task.stride + h * size;
      if (task.gamma != nullptr) RmsNormRow(x, size, task.gamma, task.epsilon, x);
      if (task.rope_cos == nullptr) continue;
      if (task.rope_interleaved) {
        RotatePairs(x, task.rope_cos + angles, task.rope_sin + angles, half);
      } else {
        RotateHalves(x, task.rope_cos + angles, task.rope_sin + angles, half);
      }
    }
  }
}

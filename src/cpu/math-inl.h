// Vector mathematics, once for every instruction set. Included inside namespace
// penstock::cpu::<isa>, after that set's Simd.
//
// NaN in, NaN out: Min and Max return their second operand when either is NaN, so the variable
// stands second.

using Vec = Simd::Vec;
constexpr size_t kLanes = Simd::kLanes;

// e^x. Cody-Waite reduction to |r| <= ln2/2, then the Taylor polynomial of degree 7, whose
// remainder there is below 2^-27. Relative error <= 2 ulp; x below -87.3 gives 0 to within the
// smallest normal number, x above 88 is clamped.
inline Vec Exp(Vec x) {
  x = Simd::Max(Simd::Set(-87.3f), Simd::Min(Simd::Set(88.0f), x));
  const Vec n = Simd::Round(Simd::Mul(x, Simd::Set(1.44269504088896341f)));
  Vec r = Simd::Fma(n, Simd::Set(-0.693145751953125f), x);
  r = Simd::Fma(n, Simd::Set(-1.42860682030941723e-6f), r);
  Vec p = Simd::Set(1.0f / 5040);
  p = Simd::Fma(p, r, Simd::Set(1.0f / 720));
  p = Simd::Fma(p, r, Simd::Set(1.0f / 120));
  p = Simd::Fma(p, r, Simd::Set(1.0f / 24));
  p = Simd::Fma(p, r, Simd::Set(1.0f / 6));
  p = Simd::Fma(p, r, Simd::Set(0.5f));
  p = Simd::Fma(p, r, Simd::Set(1.0f));
  p = Simd::Fma(p, r, Simd::Set(1.0f));
  return Simd::Scale2(p, n);
}

// 2^x for x <= 0, relative error 3e-6 (polynomial of degree 4, Lawson's weighted least squares on
// [-1/2, 1/2]); x below -126 gives 2^-126. For weights that are rounded to bf16 next.
inline Vec CoarseExp2(Vec x) {
  x = Simd::Max(Simd::Set(-126), x);
  const Vec n = Simd::Round(x);
  const Vec r = Simd::Sub(x, n);
  Vec p = Simd::Set(0.00957009895f);
  p = Simd::Fma(p, r, Simd::Set(0.0559178601f));
  p = Simd::Fma(p, r, Simd::Set(0.240247449f));
  p = Simd::Fma(p, r, Simd::Set(0.693121815f));
  p = Simd::Fma(p, r, Simd::Set(0.999999261f));
  return Simd::Scale2(p, n);
}

// 2^x for x <= 0 as CoarseExp2, relative error 1e-4 (degree 3, 1 at 0): a twentieth of what
// rounding to bf16 does next.
inline Vec RoughExp2(Vec x) {
  x = Simd::Max(Simd::Set(-126), x);
  const Vec n = Simd::Round(x);
  const Vec r = Simd::Sub(x, n);
  Vec p = Simd::Set(0.0550089329f);
  p = Simd::Fma(p, r, Simd::Set(0.242210954f));
  p = Simd::Fma(p, r, Simd::Set(0.693282902f));
  p = Simd::Fma(p, r, Simd::Set(1));
  return Simd::Scale2(p, n);
}

// erf(x) = x P(x^2) / Q(x^2) on |x| <= 4, beyond which it is +-1 in f32. P, Q of degree 5, fitted
// to relative error 2.5e-8 (weighted least squares, Chebyshev nodes); 4e-7 as evaluated.
inline Vec Erf(Vec x) {
  x = Simd::Max(Simd::Set(-4.0f), Simd::Min(Simd::Set(4.0f), x));
  const Vec t = Simd::Mul(x, x);
  Vec p = Simd::Set(1.9867866e-6f);
  p = Simd::Fma(p, t, Simd::Set(2.84564409e-4f));
  p = Simd::Fma(p, t, Simd::Set(3.88329427e-3f));
  p = Simd::Fma(p, t, Simd::Set(5.31015954e-2f));
  p = Simd::Fma(p, t, Simd::Set(1.93543956e-1f));
  p = Simd::Fma(p, t, Simd::Set(1.12837914f));
  Vec q = Simd::Set(3.74201404e-5f);
  q = Simd::Fma(q, t, Simd::Set(1.1855583e-3f));
  q = Simd::Fma(q, t, Simd::Set(1.52071533e-2f));
  q = Simd::Fma(q, t, Simd::Set(1.15349538e-1f));
  q = Simd::Fma(q, t, Simd::Set(5.04856421e-1f));
  q = Simd::Fma(q, t, Simd::Set(1.0f));
  return Simd::Div(Simd::Mul(x, p), q);
}

// tanh(x) = 1 - 2 / (e^2x + 1); below |x| < 0.1 its Taylor series, where that would cancel.
inline Vec Tanh(Vec x) {
  const Vec e = Exp(Simd::Add(x, x));
  const Vec far = Simd::Sub(Simd::Set(1), Simd::Div(Simd::Set(2), Simd::Add(e, Simd::Set(1))));
  const Vec t = Simd::Mul(x, x);
  Vec p = Simd::Set(-17.0f / 315);
  p = Simd::Fma(p, t, Simd::Set(2.0f / 15));
  p = Simd::Fma(p, t, Simd::Set(-1.0f / 3));
  const Vec near = Simd::Fma(Simd::Mul(x, t), p, x);
  return Simd::SelectLess(t, Simd::Set(0.01f), near, far);
}

inline Vec Activate(Vec x, program::Activation activation) {
  switch (activation) {
    case program::Activation::kNone:
      return x;
    case program::Activation::kGelu: {
      const Vec half = Simd::Mul(x, Simd::Set(0.5f));
      return Simd::Fma(half, Erf(Simd::Mul(x, Simd::Set(0.70710678118654752f))), half);
    }
    case program::Activation::kGeluTanh: {
      const Vec cubic = Simd::Mul(Simd::Mul(x, x), Simd::Mul(x, Simd::Set(0.044715f)));
      const Vec inner = Simd::Mul(Simd::Add(x, cubic), Simd::Set(0.7978845608028654f));
      const Vec half = Simd::Mul(x, Simd::Set(0.5f));
      return Simd::Fma(half, Tanh(inner), half);
    }
    case program::Activation::kRelu:
      return Simd::Max(Simd::Zero(), x);
    case program::Activation::kSilu:
      return Simd::Div(x, Simd::Add(Simd::Set(1), Exp(Simd::Sub(Simd::Zero(), x))));
    case program::Activation::kTanh:
      return Tanh(x);
  }
  return x;
}

// GELU (erf) within 8e-5 + 4e-6 |x| of the true value, which bf16 and int8 GEMMs resolve no finer.
// x Phi(x) with Phi(x) = 1/2 + x P(x^2) on |x| <= 4.2, P of degree 7 through Phi(+-4.2) = 1 and 0
// (Lawson's weighted least squares). No division; a third of the time of the exact form.
inline Vec CoarseGelu(Vec x) {
  const Vec c = Simd::Max(Simd::Set(-4.2f), Simd::Min(Simd::Set(4.2f), x));
  const Vec t = Simd::Mul(c, c);
  Vec p = Simd::Set(-9.08528675e-10f);
  p = Simd::Fma(p, t, Simd::Set(7.99020661e-08f));
  p = Simd::Fma(p, t, Simd::Set(-3.05228478e-06f));
  p = Simd::Fma(p, t, Simd::Set(6.71108558e-05f));
  p = Simd::Fma(p, t, Simd::Set(-0.000952534089f));
  p = Simd::Fma(p, t, Simd::Set(0.00930693143f));
  p = Simd::Fma(p, t, Simd::Set(-0.0655478862f));
  p = Simd::Fma(p, t, Simd::Set(0.398481762f));
  return Simd::Mul(x, Simd::Fma(c, p, Simd::Set(0.5f)));
}

// Runs body(offset, n) over [0, width): n = kLanes for whole vectors, less for the last.
template <typename Body>
inline void ForVectors(size_t width, Body&& body) {
  size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) body(i, kLanes);
  if (i < width) body(i, width - i);
}
inline Vec LoadN(const float* p, size_t n) {
  return n == kLanes ? Simd::Load(p) : Simd::LoadPart(p, n);
}
inline void StoreN(float* p, Vec v, size_t n) {
  if (n == kLanes) {
    Simd::Store(p, v);
  } else {
    Simd::StorePart(p, v, n);
  }
}

// Functions of simt.h that are the same text on a GPU and in the emulator: sums and products rounded
// once, in a fixed order.
#pragma once

namespace penstock::cuda::simt {

// Two roundings: within 1.5 ulp.
SIMT_FN float Rsqrt(float a) { return Divide(1.0F, Sqrt(a)); }

// e^a = 2^k e^r with |r| <= ln(2) / 2; Taylor's series up to r^7 for e^r. Within 2 ulp.
SIMT_FN float Exp(float a) {
  if (a != a) return a;
  if (a > 88.72284F) return FloatOf(0x7F800000);
  if (a < -103.9F) return 0.0F;
  // To nearest by adding 1.5 * 2^23.
  const float shifted = Fma(a, 1.44269504F, 12582912.0F);
  const float k = shifted - 12582912.0F;
  float r = Fma(k, -0.693145752F, a);
  r = Fma(k, -1.42860677e-6F, r);
  float p = 1.984127e-4F;
  p = Fma(p, r, 1.3888889e-3F);
  p = Fma(p, r, 8.3333333e-3F);
  p = Fma(p, r, 4.1666667e-2F);
  p = Fma(p, r, 1.6666667e-1F);
  p = Fma(p, r, 0.5F);
  p = Fma(p, r, 1.0F);
  p = Fma(p, r, 1.0F);
  // 2^k in two factors, so that results below the normal range come out.
  const int whole = static_cast<int>(k);
  const int half = whole / 2;
  const float first = FloatOf(static_cast<uint32_t>(half + 127) << 23);
  const float second = FloatOf(static_cast<uint32_t>(whole - half + 127) << 23);
  return p * first * second;
}

// Within 5e-7. (Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.)
SIMT_FN float Erf(float a) {
  const float size = a < 0 ? -a : a;
  const float t = Divide(1.0F, Fma(0.3275911F, size, 1.0F));
  float p = 1.061405429F;
  p = Fma(p, t, -1.453152027F);
  p = Fma(p, t, 1.421413741F);
  p = Fma(p, t, -0.284496736F);
  p = Fma(p, t, 0.254829592F);
  const float e = Fma(-(p * t), Exp(-size * size), 1.0F);
  return a < 0 ? -e : e;
}

SIMT_FN float Sigmoid(float a) { return Divide(1.0F, 1.0F + Exp(-a)); }

// tanh a = 1 - 2 / (e^(2a) + 1), and a polynomial where that would cancel.
SIMT_FN float Tanh(float a) {
  const float size = a < 0 ? -a : a;
  if (size < 0.35F) {
    const float s = a * a;
    float p = -8.8632355e-3F;
    p = Fma(p, s, 2.1869488e-2F);
    p = Fma(p, s, -5.3968254e-2F);
    p = Fma(p, s, 1.3333333e-1F);
    p = Fma(p, s, -3.3333333e-1F);
    return Fma(a * s, p, a);
  }
  const float t = 1.0F - Divide(2.0F, Exp(2.0F * size) + 1.0F);
  return a < 0 ? -t : t;
}

}  // namespace penstock::cuda::simt

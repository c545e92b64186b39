// Functions of simt.h that are the same text on a GPU and in the emulator: sums and products rounded
// once, in a fixed order.
#pragma once

namespace penstock::cuda::simt {

// Two roundings: within 1.5 ulp.
SIMT_FN float Rsqrt(float a) { return Divide(1.0F, Sqrt(a)); }

// first + x (second + x (...)).
SIMT_FN float Polynomial(float, float last) { return last; }
template <typename... Others>
SIMT_FN float Polynomial(float x, float first, Others... others) {
  return Fma(Polynomial(x, others...), x, first);
}

// 2^k, where `shifted` is k + 1.5 * 2^23. For a product, not to be added to the bits of a factor: the
// NaN of a GPU has all bits set, and would become a number.
SIMT_FN float PowerOfTwo(float shifted) { return FloatOf((BitsOf(shifted) << 23) + 0x3F800000); }

// 2^a for a from -126 to 127, within 3 ulp: to the nearest whole number by adding 1.5 * 2^23, and a
// polynomial for the rest.
SIMT_FN float Exp2(float a) {
  const float shifted = a + 12582912.0F;
  const float r = a - (shifted - 12582912.0F);
  const float p = Polynomial(r, 1.00000007F, 0.693146967F, 0.240221197F, 5.55071328e-2F,
                             9.67554404e-3F, 1.32764797e-3F);
  return p * PowerOfTwo(shifted);
}

// e^a for a from -87 to 88, within 2 ulp: 2^k e^r with |r| <= ln(2) / 2; Taylor's series up to r^7
// for e^r.
SIMT_FN float Exp(float a) {
  const float shifted = Fma(a, 1.44269504F, 12582912.0F);
  const float k = shifted - 12582912.0F;
  float r = Fma(k, -0.693145752F, a);
  r = Fma(k, -1.42860677e-6F, r);
  const float p = Polynomial(r, 1.0F, 1.0F, 0.5F, 1.6666667e-1F, 4.1666667e-2F, 8.3333333e-3F,
                             1.3888889e-3F, 1.984127e-4F);
  return p * PowerOfTwo(shifted);
}

// 1 / a for a from 1 to 2^125, within 2 ulp: Newton's steps from a guess of the exponent, without the
// branches of a division.
SIMT_FN float Reciprocal(float a) {
  float y = FloatOf(0x7EF311C3 - BitsOf(a));
  y = Fma(y, Fma(-a, y, 1.0F), y);
  y = Fma(y, Fma(-a, y, 1.0F), y);
  y = Fma(y, Fma(-a, y, 1.0F), y);
  return y;
}

// a Phi(a), with Phi the normal distribution. Within 1e-7 and 2 ulp of a.
//
// With b = |a|: max(a, 0) - b Phi(-b), and Phi(-b) = 2^q(b) for a polynomial q, fitted for b up to 9,
// weighted by b Phi(-b). No division, no branches, and what is small is not a difference.
SIMT_FN float Gelu(float a) {
  float b = a < 0 ? -a : a;
  b = b > 9.0F ? 9.0F : b;
  const float q = Polynomial(b, -0.999996994F, -1.151154879F, -4.589541261e-1F, -5.308474437e-2F,
                             7.779518739e-3F, -6.225210513e-4F, -2.626051686e-6F, 3.403382289e-6F);
  return Fma(-b, Exp2(q), a < 0 ? 0.0F : a);
}

// 1 / (1 + e^-a), within 4 ulp for a from -86 on; below, what it is at -86: Reciprocal's range ends
// there.
SIMT_FN float Sigmoid(float a) {
  a = a < -86.0F ? -86.0F : a;
  a = a > 86.0F ? 86.0F : a;
  return Reciprocal(1.0F + Exp(-a));
}

// The hyperbolic tangent, within 4 ulp: near 0 by the polynomial of Cephes' tanhf (Moshier), else by
// an exponential.
SIMT_FN float Tanh(float a) {
  const float b = a < 0 ? -a : a, square = a * a;
  const float small = Polynomial(square, -3.33332819422e-1F, 1.33314422036e-1F, -5.37397155531e-2F,
                                 2.06390887954e-2F, -5.70498872745e-3F);
  const float most = b > 10.0F ? 10.0F : b;  // NaN stays
  const float large = Fma(-2.0F, Reciprocal(Exp(2 * most) + 1.0F), 1.0F);
  return b < 0.625F ? Fma(small * square, a, a) : (a < 0 ? -large : large);
}

}  // namespace penstock::cuda::simt

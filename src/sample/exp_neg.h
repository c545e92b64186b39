// exp(-d) in plain arithmetic that compilers turn into vector code, with the same bits in each
// form.
#pragma once

#include <bit>
#include <cstdint>

namespace penstock {

// d >= 0, infinity included; relative error below 3e-7 up to d = 87, 0 beyond. Cody and Waite's
// reduction to |r| <= ln 2 / 2, then Taylor's series to the seventh power, whose next term is
// below 6e-9.
inline float ExpNeg(float d) {
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  // Of what is beyond the limit all bits are masked out, before and after: a choice by a comparison
  // of floats keeps g++ from making vector code. Floats that are not negative are ordered as their
  // bits are.
  const auto bits = std::bit_cast<uint32_t>(d);
  const uint32_t within = bits < std::bit_cast<uint32_t>(87.0f) ? ~uint32_t{0} : 0;
  const auto bounded = std::bit_cast<float>(bits & within);
  const auto n = static_cast<int32_t>(bounded * 1.44269504f + 0.5f);
  const auto whole = static_cast<float>(n);
  const float r = (whole * kLn2High - bounded) + whole * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float value = p * std::bit_cast<float>((127 - n) << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & within);
}

}  // namespace penstock

// Integer arithmetic on sizes.
#pragma once

#include <cstddef>

namespace penstock {

constexpr size_t CeilDiv(size_t n, size_t by) { return (n + by - 1) / by; }
constexpr size_t RoundUp(size_t n, size_t to) { return CeilDiv(n, to) * to; }

}  // namespace penstock

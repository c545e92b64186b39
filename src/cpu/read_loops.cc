#include "cpu/read_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::cpu {
namespace {

constexpr size_t kLine = 64;

// With `kAhead` bytes of software prefetch, 0 for none.
template <size_t kAhead>
uint64_t ReadPlain(const uint8_t* from, size_t bytes) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i < bytes; i += kLine) {
    if constexpr (kAhead > 0) __builtin_prefetch(from + i + kAhead);
    for (size_t j = 0; j < 8; ++j) {
      uint64_t word;
      __builtin_memcpy(&word, from + i + 8 * j, 8);
      sums[j] += word;
    }
  }
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

#if defined(__x86_64__)
template <size_t kAhead>
__attribute__((target("avx512f"))) uint64_t ReadAvx512(const uint8_t* from, size_t bytes) {
  __m512i sums[4] = {};
  for (size_t i = 0; i < bytes; i += 4 * kLine) {
    for (size_t j = 0; j < 4; ++j) {
      if constexpr (kAhead > 0) __builtin_prefetch(from + i + j * kLine + kAhead);
      sums[j] = _mm512_add_epi64(sums[j], _mm512_loadu_si512(from + i + j * kLine));
    }
  }
  const __m512i sum =
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  uint64_t out[8];
  _mm512_storeu_si512(out, sum);
  return out[0] + out[1] + out[2] + out[3] + out[4] + out[5] + out[6] + out[7];
}

// Streams in parallel, each its own part.
template <size_t kStreams, size_t kAhead>
__attribute__((target("avx512f"))) uint64_t ReadStreams(const uint8_t* from, size_t bytes) {
  const size_t part = bytes / kStreams / kLine * kLine;
  __m512i sums[kStreams] = {};
  for (size_t i = 0; i < part; i += kLine) {
    for (size_t j = 0; j < kStreams; ++j) {
      if constexpr (kAhead > 0) __builtin_prefetch(from + j * part + i + kAhead);
      sums[j] = _mm512_add_epi64(sums[j], _mm512_loadu_si512(from + j * part + i));
    }
  }
  for (size_t j = 1; j < kStreams; ++j) sums[0] = _mm512_add_epi64(sums[0], sums[j]);
  uint64_t out[8];
  _mm512_storeu_si512(out, sums[0]);
  return out[0] + out[1] + out[2] + out[3] + out[4] + out[5] + out[6] + out[7];
}
#endif

}  // namespace

std::vector<ReadLoop> ReadLoops() {
  std::vector<ReadLoop> out = {{"plain", ReadPlain<0>}, {"plain, 4 KB ahead", ReadPlain<4096>}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    out.push_back({"512 bits", ReadAvx512<0>});
    out.push_back({"512 bits, 2 KB ahead", ReadAvx512<2048>});
    out.push_back({"512 bits, 4 KB ahead", ReadAvx512<4096>});
    out.push_back({"512 bits, 8 KB ahead", ReadAvx512<8192>});
    out.push_back({"512 bits, 2 streams", ReadStreams<2, 0>});
    out.push_back({"512 bits, 4 streams, 2 KB ahead", ReadStreams<4, 2048>});
  }
#endif
  return out;
}

}  // namespace penstock::cpu

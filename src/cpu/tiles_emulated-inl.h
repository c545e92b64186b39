// The tile unit of AMX (see tiles_amx-inl.h) in plain C++, with its order and rounding, so that the
// kernels for it are tested on every processor. Included inside namespace
// penstock::cpu::amx_emulated.
//
// tdpbf16ps sums even and odd values of k in a chain each, adds the two, then adds that to the
// result. It rounds to nearest even, and takes and gives denormals as 0.

struct Tiles {
  static constexpr bool kOffered = true;

  static const Kernels& Vectors() { return *Avx512Bf16Kernels(); }

  static void Configure(size_t low, size_t high, size_t words) {
    const size_t rows[8] = {low, low, high, high, low, high, words, words};
    for (int tile = 0; tile < 8; ++tile) {
      state.rows[tile] = rows[tile];
      state.row_words[tile] = tile == 4 || tile == 5 ? words : 16;
    }
    __builtin_memset(state.words, 0, sizeof(state.words));
  }
  static void Release() { __builtin_memset(&state, 0, sizeof(state)); }

  template <int kTile>
  static void Load(const void* from, size_t stride) {
    for (size_t r = 0; r < RowsOf(kTile); ++r) {
      __builtin_memcpy(state.words[kTile][r], static_cast<const char*>(from) + r * stride,
                       sizeof(Word) * state.row_words[kTile]);
    }
  }
  template <int kTile>
  static void Store(void* to, size_t stride) {
    for (size_t r = 0; r < RowsOf(kTile); ++r) {
      __builtin_memcpy(static_cast<char*>(to) + r * stride, state.words[kTile][r],
                       sizeof(Word) * state.row_words[kTile]);
    }
  }
  template <int kTile>
  static void Zero() {
    __builtin_memset(state.words[kTile], 0, RowsOf(kTile) * 64);
  }
  template <int kSums, int kRows, int kWeights>
  static void DotInt8() {
    CheckShapes(kSums, kRows, kWeights);
    for (size_t m = 0; m < state.rows[kSums]; ++m) {
      for (size_t k = 0; k < state.row_words[kRows]; ++k) {
        const Word x = state.words[kRows][m][k];
        for (size_t n = 0; n < 16; ++n) {
          const Word w = state.words[kWeights][k][n];
          int32_t sum = 0;
          for (int byte = 0; byte < 32; byte += 8) {
            sum += static_cast<uint8_t>(x >> byte) * static_cast<int8_t>(w >> byte);
          }
          state.words[kSums][m][n] += static_cast<Word>(sum);
        }
      }
    }
  }
  template <int kSums, int kRows, int kWeights>
  static void DotBf16() {
    CheckShapes(kSums, kRows, kWeights);
    for (size_t m = 0; m < state.rows[kSums]; ++m) {
      float even[16] = {}, odd[16] = {};
      for (size_t k = 0; k < state.row_words[kRows]; ++k) {
        const Word x = state.words[kRows][m][k];
        for (size_t n = 0; n < 16; ++n) {
          const Word w = state.words[kWeights][k][n];
          even[n] = Normal(__builtin_fmaf(FromHigh(x << 16), FromHigh(w << 16), even[n]));
          odd[n] = Normal(__builtin_fmaf(FromHigh(x), FromHigh(w), odd[n]));
        }
      }
      for (size_t n = 0; n < 16; ++n) {
        const float before = Normal(__builtin_bit_cast(float, state.words[kSums][m][n]));
        const float sum = Normal(Normal(even[n] + odd[n]) + before);
        state.words[kSums][m][n] = __builtin_bit_cast(Word, sum);
      }
    }
  }

 private:
  struct State {
    size_t rows[8];
    size_t row_words[8];
    Word words[8][16][16];
  };

  // What the unit would trap at.
  static size_t RowsOf(int tile) {
    if (state.rows[tile] == 0 || state.rows[tile] > 16) __builtin_trap();
    return state.rows[tile];
  }
  static void CheckShapes(int sums, int rows, int weights) {
    if (RowsOf(sums) != RowsOf(rows) || RowsOf(weights) != state.row_words[rows]) __builtin_trap();
  }
  static float Normal(float v) {
    const Word bits = __builtin_bit_cast(Word, v);
    return __builtin_bit_cast(float, (bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
  }
  // The bf16 in the upper half.
  static float FromHigh(Word word) { return Normal(__builtin_bit_cast(float, word & 0xffff0000)); }

  static inline thread_local State state;
};

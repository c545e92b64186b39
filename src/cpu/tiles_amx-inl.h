// The tile unit of AMX. Included inside namespace penstock::cpu::amx.
//
// Eight registers of up to 16 rows of 16 words. A thread that has not configured its unit, or whose
// process has no permission (see amx.h), traps. Source: Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 1, chapter 18, and the instructions' pages.

struct Tiles {
  static constexpr bool kOffered = true;

  // The kernels for what the unit is not used for.
  static const Kernels& Vectors() { return *Avx512Bf16Kernels(); }

  // Results of `low` rows (tiles 0 and 1) and of `high` more (2 and 3), rows to multiply (4 and 5)
  // and weights (6 and 7), both of `words` words of k. Until Release the thread's switches of
  // context save the registers.
  static void Configure(size_t low, size_t high, size_t words) {
    struct {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(config) == 64);
    const size_t rows[8] = {low, low, high, high, low, high, words, words};
    for (int tile = 0; tile < 8; ++tile) {
      const size_t row_words = tile == 4 || tile == 5 ? words : 16;
      config.rows[tile] = static_cast<uint8_t>(rows[tile]);
      config.row_bytes[tile] = static_cast<uint16_t>(rows[tile] == 0 ? 0 : 4 * row_words);
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static void Release() { asm volatile("tilerelease"); }

  // Rows `stride` bytes apart; a stride of 0 repeats one row.
  template <int kTile>
  [[gnu::always_inline]] static void Load(const void* from, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void Store(void* to, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // Sums += rows u8 by weights s8.
  template <int kSums, int kRows, int kWeights>
  [[gnu::always_inline]] static void DotInt8() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
  }
  template <int kSums, int kRows, int kWeights>
  [[gnu::always_inline]] static void DotBf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSums), "i"(kRows), "i"(kWeights));
  }
};

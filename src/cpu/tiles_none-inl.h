// An instruction set without a tile unit: names for tile_gemm-inl.h, which calls none of them.
// Included inside namespace penstock::cpu::<isa>.

struct Tiles {
  static constexpr bool kOffered = false;
  static const Kernels& Vectors();
  static void Configure(size_t low, size_t high, size_t words);
  static void Release();
  template <int kTile>
  static void Load(const void* from, size_t stride);
  template <int kTile>
  static void Store(void* to, size_t stride);
  template <int kTile>
  static void Zero();
  template <int kSums, int kRows, int kWeights>
  static void DotInt8();
  template <int kSums, int kRows, int kWeights>
  static void DotBf16();
};

// The set of kernels that this one adds instructions to. Included inside namespace
// penstock::cpu::<isa>.

// It compiles what they change: products of kOwn. Tasks of other types go to the kernels of kTable,
// whose layouts and bits are the same.
template <const Kernels* (*kTable)(), numbers::DType... kOwn>
struct BaseOf {
  static constexpr bool Multiplies(numbers::DType dtype) { return ((dtype != kOwn) && ...); }
  static const Kernels& Table() { return *kTable(); }
};
// A set whose kernels are all its own.
using NoBase = BaseOf<nullptr, numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8>;

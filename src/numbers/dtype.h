// The types of numbers, in files and in memory: a row each (kNumberTypes). Another type is a row
// and a reader in block_fields.cc; where its blocks are laid out in a new way, kernels in cpu/ too.
//
// The types from kQ8_0 on are block types, as GGUF files have them: a run of elements is stored
// together, as codes of a few bits and the scales that they share (numbers/block_fields.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace penstock::numbers {

enum class DType {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI64,
  kI32,
  kI8,
  kU8,
  kBool,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4K,
  kQ5K,
  kQ6K,
};

// What a type stores together: a block, or one element if it is not a block type.
struct DTypeBlock {
  size_t elements = 0;
  size_t bytes = 0;
};

// An element is scale (code - offset) + min.
struct BlockFormat : DTypeBlock {
  int offset = 0;     // of a code
  int low_bits = 0;   // bits of a code in one plane, 8 or 4 ...
  int high_bits = 0;  // ... and in another; both 0: not a block type
  bool has_min = false;
  bool has_scales = false;    // of 6 or 8 bits, beside the block's own
  size_t scale_elements = 0;  // that share one of them
};

struct NumberType {
  DType dtype;
  const char* name;  // in files: as safetensors spells it, of block types as GGUF does
  const char* flag;  // in flags, records and messages; null: it is not a type to compute in
  const char* word;  // the same in answers, as NumPy and PyTorch spell it
  int gguf;          // number in GGUF files; -1: not read from them
  bool safetensors;  // stands in safetensors files
  BlockFormat block;
};

// By DType.
inline constexpr NumberType kNumberTypes[] = {
    {DType::kF32, "F32", "f32", "float32", 0, true, {{1, 4}}},
    {DType::kF16, "F16", "f16", "float16", 1, true, {{1, 2}}},
    {DType::kBf16, "BF16", "bf16", "bfloat16", 30, true, {{1, 2}}},
    {DType::kF64, "F64", nullptr, nullptr, -1, true, {{1, 8}}},
    {DType::kI64, "I64", nullptr, nullptr, -1, true, {{1, 8}}},
    {DType::kI32, "I32", nullptr, nullptr, -1, true, {{1, 4}}},
    {DType::kI8, "I8", "int8", "int8", -1, true, {{1, 1}}},
    {DType::kU8, "U8", nullptr, nullptr, -1, true, {{1, 1}}},
    {DType::kBool, "BOOL", nullptr, nullptr, -1, true, {{1, 1}}},
    {DType::kQ8_0, "Q8_0", nullptr, nullptr, 8, false, {{32, 34}, 0, 8, 0, false, false, 32}},
    {DType::kQ4_0, "Q4_0", nullptr, nullptr, 2, false, {{32, 18}, 8, 4, 0, false, false, 32}},
    {DType::kQ4_1, "Q4_1", nullptr, nullptr, 3, false, {{32, 20}, 0, 4, 0, true, false, 32}},
    {DType::kQ5_0, "Q5_0", nullptr, nullptr, 6, false, {{32, 22}, 16, 4, 1, false, false, 32}},
    {DType::kQ5_1, "Q5_1", nullptr, nullptr, 7, false, {{32, 24}, 0, 4, 1, true, false, 32}},
    // The K types have eight or sixteen runs with scales of their own.
    {DType::kQ4K, "Q4_K", nullptr, nullptr, 12, false, {{256, 144}, 0, 4, 0, true, true, 32}},
    {DType::kQ5K, "Q5_K", nullptr, nullptr, 13, false, {{256, 176}, 0, 4, 1, true, true, 32}},
    {DType::kQ6K, "Q6_K", nullptr, nullptr, 14, false, {{256, 210}, 32, 4, 2, false, true, 16}},
};

// Static, as all functions of headers that kernels of several instruction sets include: the linker
// could keep one set's copy for the whole program.
static constexpr const NumberType& RowOf(DType dtype) {
  return kNumberTypes[static_cast<size_t>(dtype)];
}
static constexpr BlockFormat FormatOf(DType dtype) { return RowOf(dtype).block; }
static constexpr DTypeBlock BlockOf(DType dtype) { return RowOf(dtype).block; }
static constexpr bool IsBlockType(DType dtype) { return BlockOf(dtype).elements > 1; }

static constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < std::size(kNumberTypes); ++i) {
    if (kNumberTypes[i].dtype != static_cast<DType>(i)) return false;
  }
  return kNumberTypes[std::size(kNumberTypes) - 1].dtype == DType::kQ6K;
}
static_assert(RowsAreInOrder(), "RowOf takes them by their place");

// Types that a matrix may be stored in: those of GGUF files.
static constexpr size_t CountStoredTypes() {
  size_t count = 0;
  for (const NumberType& type : kNumberTypes) count += type.gguf >= 0;
  return count;
}
inline constexpr auto kStoredTypes = [] {
  std::array<DType, CountStoredTypes()> types{};
  size_t count = 0;
  for (const NumberType& type : kNumberTypes) {
    if (type.gguf >= 0) types[count++] = type.dtype;
  }
  return types;
}();

// Types that a linear layer may compute in.
inline constexpr DType kComputedTypes[] = {DType::kF32, DType::kBf16, DType::kF16, DType::kI8};

// Bytes of one element; not of a block type.
size_t DTypeBytes(DType dtype);
// Bytes of `elements` elements, which are whole blocks.
size_t StoredBytes(DType dtype, size_t elements);
// "F32", "BF16", ... as safetensors spells them; "Q4_K", ... as GGUF does.
const char* DTypeName(DType dtype);
// "f32", "bf16", "f16", "int8": a type to compute in or to cache in.
const char* DTypeFlag(DType dtype);
std::optional<DType> DTypeOfFlag(std::string_view flag);
// "float32", "bfloat16", "float16", "int8": the same.
const char* DTypeWord(DType dtype);
// nullopt: not a type of safetensors files that is known.
std::optional<DType> DTypeOfSafetensors(std::string_view name);
// nullopt: GGUF files with tensors of this number are not read.
std::optional<DType> DTypeOfGguf(uint32_t number);

// IEEE half to float; exact.
float HalfToFloat(uint16_t half);

// Whether ConvertToF32 reads it: F32, F16, BF16, F64 and the block types.
bool ConvertsToF32(DType dtype);
// `count` elements at `from`, which need not be aligned, as floats. A block type has whole blocks.
void ConvertToF32(DType dtype, const std::byte* from, size_t count, float* to);

}  // namespace penstock::numbers

// Element types of tensors, in files and in memory.
//
// The types from kQ8_0 on are block types, as GGUF files have them: a run of elements is stored
// together, as codes of a few bits and the scales that they share (common/block_types.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

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

// What a type stores together. Of types that are no block types: one element.
struct DTypeBlock {
  size_t elements = 0;
  size_t bytes = 0;
};
// Static, since kernels of several instruction sets use it: the linker could keep one set's copy
// for the whole program.
static constexpr DTypeBlock BlockOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return {1, 8};
    case DType::kF32:
    case DType::kI32:
      return {1, 4};
    case DType::kF16:
    case DType::kBf16:
      return {1, 2};
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return {1, 1};
    case DType::kQ8_0:
      return {32, 34};
    case DType::kQ4_0:
      return {32, 18};
    case DType::kQ4_1:
      return {32, 20};
    case DType::kQ5_0:
      return {32, 22};
    case DType::kQ5_1:
      return {32, 24};
    case DType::kQ4K:  // the K types: eight or sixteen runs with scales of their own
      return {256, 144};
    case DType::kQ5K:
      return {256, 176};
    case DType::kQ6K:
      return {256, 210};
  }
  return {1, 0};
}
static constexpr bool IsBlockType(DType dtype) { return BlockOf(dtype).elements > 1; }

// Bytes of one element; not of a block type.
size_t DTypeBytes(DType dtype);
// Bytes of `elements` elements, which are whole blocks.
size_t StoredBytes(DType dtype, size_t elements);
// "F32", "BF16", ... as safetensors spells them; "Q4_K", ... as GGUF does.
const char* DTypeName(DType dtype);

// IEEE half to float; exact.
float HalfToFloat(uint16_t half);

// Whether ConvertToF32 reads it: F32, F16, BF16, F64 and the block types.
bool ConvertsToF32(DType dtype);
// `count` elements at `from`, which need not be aligned, as floats. Of a block type: whole blocks.
void ConvertToF32(DType dtype, const std::byte* from, size_t count, float* to);

}  // namespace penstock

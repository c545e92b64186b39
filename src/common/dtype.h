// Element types of tensors, in files and in memory.
#pragma once

#include <cstddef>

namespace penstock {

enum class DType { kF32, kF16, kBf16, kF64, kI64, kI32, kI8, kU8, kBool };

// Bytes of one element.
size_t DTypeBytes(DType dtype);
// "F32", "BF16", ... as safetensors spells them.
const char* DTypeName(DType dtype);

// Whether ConvertToF32 reads it: F32, F16, BF16 and F64.
bool ConvertsToF32(DType dtype);
// `count` elements at `from`, which need not be aligned, as floats.
void ConvertToF32(DType dtype, const std::byte* from, size_t count, float* to);

}  // namespace penstock

// Types of the elements of tensors that users send and get. Names and sizes are those of the Open
// Inference Protocol ("Tensor Data Types", github.com/kserve/open-inference-protocol); BF16 is as
// Triton adds it. (numbers/dtype.h has the types of weights in files.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock::signature {

enum class ElementType : uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
  kBytes,  // elements of any length: strings
};

// Bytes of one element; 0 for kBytes.
size_t ElementBytes(ElementType type);
// "BOOL", "UINT8", ..., "FP32", "BYTES".
const char* ElementTypeName(ElementType type);
// nullopt: there is no such type. Names are upper case.
std::optional<ElementType> ElementTypeOf(std::string_view name);

}  // namespace penstock::signature

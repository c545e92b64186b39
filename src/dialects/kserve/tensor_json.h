// Elements of tensors as JSON: the "data" of the Open Inference Protocol
// (github.com/kserve/open-inference-protocol, "Tensor Data").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "json/json.h"
#include "signature/element_type.h"
#include "threads/byte_budget.h"

namespace penstock::dialects {

// Elements as tensors have them: row by row, little-endian; BYTES with their lengths before them.
struct TensorBytes {
  std::unique_ptr<std::byte[]> data;
  size_t size = 0;

  std::span<const std::byte> span() const { return {data.get(), size}; }
};

// Reads an array of all elements, or arrays in arrays as `shape` has them; `json_bytes` of text
// held them. The bytes are counted in `memory`, which may be null.
// kInvalidArgument: another shape; an element of the wrong type or out of the type's range; FP16
// and BF16, which JSON has no form for here, as in Triton.
// kPayloadTooLarge, kResourceExhausted: of `memory`.
Expected<TensorBytes> ReadTensorJson(JsonElement data, signature::ElementType type,
                                     std::span<const int64_t> shape, size_t json_bytes,
                                     RequestMemory* memory);

// kUnsupported: FP16 and BF16. kUnprocessable: BYTES that are not UTF-8.
Status CheckPrintable(signature::ElementType type, std::span<const std::byte> bytes);
// Appends "[...]", flat, of elements that are printable. Floats have the fewest digits that read
// back as the same number; as in Triton and in Python's json, NaN, Infinity and -Infinity stand for
// what JSON has no number for.
void AppendTensorJson(signature::ElementType type, std::span<const std::byte> bytes,
                      std::string* out);
// What AppendTensorJson appends at most.
uint64_t TensorJsonBytesMax(signature::ElementType type, std::span<const std::byte> bytes);

// Calls visit(ElementOf<type>()) with a value of the C++ type of its elements; BYTES, FP16 and BF16
// have none.
template <typename Visit>
auto VisitElementType(signature::ElementType type, Visit&& visit) {
  switch (type) {
    case signature::ElementType::kBool:
      return visit(bool{});
    case signature::ElementType::kUint8:
      return visit(uint8_t{});
    case signature::ElementType::kUint16:
      return visit(uint16_t{});
    case signature::ElementType::kUint32:
      return visit(uint32_t{});
    case signature::ElementType::kUint64:
      return visit(uint64_t{});
    case signature::ElementType::kInt8:
      return visit(int8_t{});
    case signature::ElementType::kInt16:
      return visit(int16_t{});
    case signature::ElementType::kInt32:
      return visit(int32_t{});
    case signature::ElementType::kInt64:
      return visit(int64_t{});
    case signature::ElementType::kFp32:
      return visit(float{});
    default:
      return visit(double{});
  }
}

}  // namespace penstock::dialects

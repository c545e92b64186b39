#include "openvino/handles.h"

#include <array>

namespace penstock::openvino {
namespace {

struct Pair {
  ApiElementType api;
  signature::ElementType type;
};
constexpr std::array kPairs = {
    Pair{kApiBoolean, signature::ElementType::kBool},
    Pair{kApiU8, signature::ElementType::kUint8},
    Pair{kApiU16, signature::ElementType::kUint16},
    Pair{kApiU32, signature::ElementType::kUint32},
    Pair{kApiU64, signature::ElementType::kUint64},
    Pair{kApiI8, signature::ElementType::kInt8},
    Pair{kApiI16, signature::ElementType::kInt16},
    Pair{kApiI32, signature::ElementType::kInt32},
    Pair{kApiI64, signature::ElementType::kInt64},
    Pair{kApiF16, signature::ElementType::kFp16},
    Pair{kApiBf16, signature::ElementType::kBf16},
    Pair{kApiF32, signature::ElementType::kFp32},
    Pair{kApiF64, signature::ElementType::kFp64},
    Pair{kApiString, signature::ElementType::kBytes},
};

}  // namespace

std::optional<signature::ElementType> FromApi(unsigned type) {
  for (const Pair& pair : kPairs) {
    if (pair.api == type) return pair.type;
  }
  return std::nullopt;
}

ApiElementType ToApi(signature::ElementType type) {
  for (const Pair& pair : kPairs) {
    if (pair.type == type) return pair.api;
  }
  CheckFailed(__FILE_NAME__, __LINE__, "every element type has a pair");
}

}  // namespace penstock::openvino

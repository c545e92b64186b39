#include "signature/element_type.h"

#include <array>

#include "base/status.h"

namespace penstock::signature {
namespace {

struct Row {
  ElementType type;
  const char* name;
  size_t bytes;
};

constexpr std::array kRows = {
    Row{ElementType::kBool, "BOOL", 1},     Row{ElementType::kUint8, "UINT8", 1},
    Row{ElementType::kUint16, "UINT16", 2}, Row{ElementType::kUint32, "UINT32", 4},
    Row{ElementType::kUint64, "UINT64", 8}, Row{ElementType::kInt8, "INT8", 1},
    Row{ElementType::kInt16, "INT16", 2},   Row{ElementType::kInt32, "INT32", 4},
    Row{ElementType::kInt64, "INT64", 8},   Row{ElementType::kFp16, "FP16", 2},
    Row{ElementType::kBf16, "BF16", 2},     Row{ElementType::kFp32, "FP32", 4},
    Row{ElementType::kFp64, "FP64", 8},     Row{ElementType::kBytes, "BYTES", 0},
};

const Row& RowOf(ElementType type) {
  const auto index = static_cast<size_t>(type);
  PENSTOCK_CHECK(index < kRows.size() && kRows[index].type == type);
  return kRows[index];
}

}  // namespace

size_t ElementBytes(ElementType type) { return RowOf(type).bytes; }

const char* ElementTypeName(ElementType type) { return RowOf(type).name; }

std::optional<ElementType> ElementTypeOf(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

}  // namespace penstock::signature

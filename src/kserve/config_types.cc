#include "kserve/config_types.h"

#include <kserve/model_config.pb.h>

#include <algorithm>
#include <array>
#include <utility>

namespace penstock {
namespace {

constexpr std::array<std::pair<ElementType, inference::DataType>, 14> kTypes = {{
    {ElementType::kBool, inference::TYPE_BOOL},
    {ElementType::kUint8, inference::TYPE_UINT8},
    {ElementType::kUint16, inference::TYPE_UINT16},
    {ElementType::kUint32, inference::TYPE_UINT32},
    {ElementType::kUint64, inference::TYPE_UINT64},
    {ElementType::kInt8, inference::TYPE_INT8},
    {ElementType::kInt16, inference::TYPE_INT16},
    {ElementType::kInt32, inference::TYPE_INT32},
    {ElementType::kInt64, inference::TYPE_INT64},
    {ElementType::kFp16, inference::TYPE_FP16},
    {ElementType::kBf16, inference::TYPE_BF16},
    {ElementType::kFp32, inference::TYPE_FP32},
    {ElementType::kFp64, inference::TYPE_FP64},
    {ElementType::kBytes, inference::TYPE_STRING},
}};

}  // namespace

std::optional<ElementType> ElementTypeOf(inference::DataType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& pair) { return pair.second == type; });
  if (found == kTypes.end()) return std::nullopt;
  return found->first;
}

inference::DataType DataTypeOf(ElementType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& pair) { return pair.first == type; });
  return found == kTypes.end() ? inference::TYPE_INVALID : found->second;
}

}  // namespace penstock

#include "kserve/config_types.h"

#include <kserve/model_config.pb.h>

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::kserve {
namespace {

constexpr std::array<std::pair<signature::ElementType, inference::DataType>, 14> kTypes = {{
    {signature::ElementType::kBool, inference::TYPE_BOOL},
    {signature::ElementType::kUint8, inference::TYPE_UINT8},
    {signature::ElementType::kUint16, inference::TYPE_UINT16},
    {signature::ElementType::kUint32, inference::TYPE_UINT32},
    {signature::ElementType::kUint64, inference::TYPE_UINT64},
    {signature::ElementType::kInt8, inference::TYPE_INT8},
    {signature::ElementType::kInt16, inference::TYPE_INT16},
    {signature::ElementType::kInt32, inference::TYPE_INT32},
    {signature::ElementType::kInt64, inference::TYPE_INT64},
    {signature::ElementType::kFp16, inference::TYPE_FP16},
    {signature::ElementType::kBf16, inference::TYPE_BF16},
    {signature::ElementType::kFp32, inference::TYPE_FP32},
    {signature::ElementType::kFp64, inference::TYPE_FP64},
    {signature::ElementType::kBytes, inference::TYPE_STRING},
}};

}  // namespace

std::optional<signature::ElementType> ElementTypeOf(inference::DataType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& pair) { return pair.second == type; });
  if (found == kTypes.end()) return std::nullopt;
  return found->first;
}

inference::DataType DataTypeOf(signature::ElementType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& pair) { return pair.first == type; });
  return found == kTypes.end() ? inference::TYPE_INVALID : found->second;
}

}  // namespace penstock::kserve

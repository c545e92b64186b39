// The types that the linear layers of a model compute in: one for all, and overrides.
//
// Errors of int8 are not spread evenly: in most models a few linear layers (often the
// feed-forward's output, or the first and last layers) make most of them. Those can be kept in a
// higher type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "numbers/dtype.h"

namespace penstock::models {

enum class LinearKind { kQkv, kAttentionOut, kFfIn, kFfOut };
inline constexpr LinearKind kLinearKinds[] = {LinearKind::kQkv, LinearKind::kAttentionOut,
                                              LinearKind::kFfIn, LinearKind::kFfOut};
// "qkv", "attention-out", "ff-in", "ff-out".
const char* LinearName(LinearKind linear);

// A layer, a kind of linear layer in every layer, or one linear layer of one layer.
struct TypeOverride {
  std::optional<int32_t> layer;  // from 0; negative from the end; none: every layer
  std::optional<LinearKind> linear;

  // "2", "-1", "ff-out", "-1.ff-out".
  std::string Text() const;
};

inline constexpr size_t kTypeOverridesMax = 1024;

// Overrides as TypeOverride::Text writes them, with commas between. kInvalidArgument names the
// wrong one; kPayloadTooLarge: more than kTypeOverridesMax.
Expected<std::vector<TypeOverride>> ParseTypeOverrides(std::string_view text);
std::string TypeOverridesText(const std::vector<TypeOverride>& parts);

struct LinearTypes {
  // NOLINTNEXTLINE(google-explicit-constructor): one type for all is what most callers mean.
  LinearTypes(numbers::DType type = numbers::DType::kF32) : dtype(type), override_dtype(type) {}

  // kInvalidArgument: an override names a layer that a model of `layers` layers does not have.
  Status Check(int32_t layers) const;
  // The type of a linear layer in layer `layer` of `layers`.
  numbers::DType Of(int32_t layer, int32_t layers, LinearKind linear) const;

  numbers::DType dtype;
  numbers::DType override_dtype;  // of the linear layers in `kept`
  std::vector<TypeOverride> kept;
};

}  // namespace penstock::models

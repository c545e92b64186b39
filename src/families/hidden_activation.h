// The activation functions of feed-forward blocks and heads that model files may name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock::families {

enum class HiddenActivation { kGelu, kGeluTanh, kRelu, kSilu, kTanh, kIdentity };

// "gelu_new" -> kGeluTanh; names as in transformers' table of activations.
std::optional<HiddenActivation> HiddenActivationNamed(std::string_view name);

}  // namespace penstock::families

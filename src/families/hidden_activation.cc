#include "families/hidden_activation.h"

#include <utility>

namespace penstock::families {

std::optional<HiddenActivation> HiddenActivationNamed(std::string_view name) {
  constexpr std::pair<std::string_view, HiddenActivation> kNames[] = {
      {"gelu", HiddenActivation::kGelu},
      {"gelu_python", HiddenActivation::kGelu},
      {"gelu_new", HiddenActivation::kGeluTanh},
      {"gelu_fast", HiddenActivation::kGeluTanh},
      {"gelu_accurate", HiddenActivation::kGeluTanh},
      {"gelu_pytorch_tanh", HiddenActivation::kGeluTanh},
      {"gelu_python_tanh", HiddenActivation::kGeluTanh},
      {"relu", HiddenActivation::kRelu},
      {"silu", HiddenActivation::kSilu},
      {"swish", HiddenActivation::kSilu},
      {"tanh", HiddenActivation::kTanh},
      {"linear", HiddenActivation::kIdentity},
  };
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

}  // namespace penstock::families

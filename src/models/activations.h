// The activation of an op by that of a configuration.
#pragma once

#include "families/model_folder.h"
#include "program/op_kinds.h"

namespace penstock {

inline Activation ToActivation(HiddenActivation activation) {
  switch (activation) {
    case HiddenActivation::kGelu:
      return Activation::kGelu;
    case HiddenActivation::kGeluTanh:
      return Activation::kGeluTanh;
    case HiddenActivation::kRelu:
      return Activation::kRelu;
    case HiddenActivation::kSilu:
      return Activation::kSilu;
    case HiddenActivation::kTanh:
      return Activation::kTanh;
    case HiddenActivation::kIdentity:
      return Activation::kNone;
  }
  return Activation::kNone;
}

}  // namespace penstock

// The activation of an op by that of a configuration.
#pragma once

#include "families/model_folder.h"
#include "program/op_kinds.h"

namespace penstock::models {

inline program::Activation ToActivation(families::HiddenActivation activation) {
  switch (activation) {
    case families::HiddenActivation::kGelu:
      return program::Activation::kGelu;
    case families::HiddenActivation::kGeluTanh:
      return program::Activation::kGeluTanh;
    case families::HiddenActivation::kRelu:
      return program::Activation::kRelu;
    case families::HiddenActivation::kSilu:
      return program::Activation::kSilu;
    case families::HiddenActivation::kTanh:
      return program::Activation::kTanh;
    case families::HiddenActivation::kIdentity:
      return program::Activation::kNone;
  }
  return program::Activation::kNone;
}

}  // namespace penstock::models

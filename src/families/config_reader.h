// config.json -> EncoderConfig, by the family's own reader (families/NAME.cc) and what all have:
// heads, and what is refused. Part of ModelFolder::Read; others use families/model_folder.h.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "families/model_folder.h"
#include "json/json.h"

namespace penstock::families {

// Of the architectures in config.json that classify.
inline constexpr std::string_view kClassifierSuffix = "ForSequenceClassification";

// kUnsupported names a setting that is not implemented; kInvalidArgument one that is malformed.
Expected<EncoderConfig> ReadEncoderConfig(const JsonObject& config);

// id2label and the like, of a ...ForSequenceClassification; else nothing.
Status ReadClassifier(const JsonObject& config, EncoderConfig* out);

// Tokens the position scheme can tell apart: the rows of the table a token may use, or the rotary
// limit.
int32_t PositionsUsable(const EncoderConfig& encoder);

// "torch.nn.modules.activation.Sigmoid" -> "sigmoid", "...linear.Identity" -> "identity".
// kUnsupported for others.
Expected<std::string> CrossEncoderActivationNamed(const std::string& name);

}  // namespace penstock::families

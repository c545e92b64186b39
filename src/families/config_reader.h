// config.json -> EncoderConfig, one function per architecture. Part of ModelFolder::Read; others
// use families/model_folder.h.
//
// Field names and defaults: the configuration classes of huggingface/transformers (4.x and 5.x),
// and for nomic_bert also the older names of nomic-ai/nomic-bert-2048.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/json.h"
#include "common/status.h"
#include "families/model_folder.h"

namespace penstock {

// Limits: far above any known encoder, low enough that products of two fit 64 bits with ease.
inline constexpr int64_t kEncoderVocabularyMax = 1 << 24;
inline constexpr int64_t kEncoderHiddenMax = 1 << 16;
inline constexpr int64_t kEncoderLayersMax = 1024;
inline constexpr int64_t kEncoderHeadsMax = 1024;
inline constexpr int64_t kEncoderIntermediateMax = 1 << 20;
inline constexpr int64_t kEncoderPositionsMax = 1 << 24;
inline constexpr int64_t kEncoderLabelsMax = 1 << 20;

// Of the architectures in config.json that classify.
inline constexpr std::string_view kClassifierSuffix = "ForSequenceClassification";

// kUnsupported names a setting that is not implemented; kInvalidArgument one that is malformed.
Expected<EncoderConfig> ReadEncoderConfig(const JsonObject& config);

// id2label and the like, of a ...ForSequenceClassification; else nothing.
Status ReadClassifier(const JsonObject& config, EncoderConfig* out);

// Tokens the position scheme can tell apart: the rows of the table a token may use, or the rotary
// limit.
int32_t PositionsUsable(const EncoderConfig& encoder);

// The model_type values that ReadEncoderConfig knows: "bert, camembert, ...".
std::string EncoderModelTypes();
bool IsEncoderModelType(std::string_view model_type);

// "torch.nn.modules.activation.Sigmoid" -> "sigmoid", "...linear.Identity" -> "identity".
// kUnsupported for others.
Expected<std::string> CrossEncoderActivationNamed(const std::string& name);

}  // namespace penstock

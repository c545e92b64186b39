// The part of penstock doctor that compares a decoder's types, and those of its cache, with f32:
// how far the distributions of the next token move.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "checks/check.h"
#include "doctor_accuracy.h"
#include "generate/text_model.h"
#include "numbers/dtype.h"

namespace penstock::cli {

// Loads the model in a type; nullopt: the default.
using LoadInType =
    std::function<Expected<std::unique_ptr<generate::TextModel>>(std::optional<numbers::DType>)>;

// What the model's linear layers compute in: "int8", "bf16, int8".
std::string ComputedTypes(const models::DecoderModel& model);

// A line for each type, and for each cache with the default type. Two models and the logits of a
// few rows are in memory at once. An error is that of the texts, of loading, of running or of the
// records' file.
Status CompareDecoderTypes(const LoadInType& load, const AccuracyFlags& flags,
                           const checks::Say& say);

}  // namespace penstock::cli

// Settings of a config.json: read within limits, or refused by name. For the readers of encoders
// and decoders.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/status.h"
#include "families/hidden_activation.h"
#include "json/json.h"

namespace penstock::families {

// All names of one setting; the first one present counts.
using FieldNames = std::initializer_list<std::string_view>;
std::string_view PresentField(const JsonObject& config, FieldNames names);

// kInvalidArgument: of another type, or outside [min, max].
Status ReadInt(const JsonObject& config, FieldNames names, int32_t absent, int64_t min, int64_t max,
               int32_t* out);
Status ReadFloat(const JsonObject& config, FieldNames names, double absent, double min, double max,
                 float* out);
// kUnsupported: not in HiddenActivationNamed.
Status ReadActivation(const JsonObject& config, std::string_view key, std::string_view absent,
                      HiddenActivation* out);

// kUnsupported if a setting is switched on; absent, false, 0, null and {} are fine.
Status RefuseIfSet(const JsonObject& config, FieldNames names);
Status RefuseIfFalse(const JsonObject& config, std::string_view name);

}  // namespace penstock::families

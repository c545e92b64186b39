// Which fields of a ModelConfig are refused, and which change nothing.
#pragma once

#include <string_view>

namespace penstock::kserve {

enum class FieldUse {
  kRead,      // or has fields of its own
  kRefused,   // where it is set to anything but its default
  kNoEffect,  // the same
};

struct FieldRule {
  FieldUse use = FieldUse::kRead;
  const char* why = "";  // "": its name says it
};

// `name`: the field's, with its message's: "ModelConfig.sequence_batching".
FieldRule RuleOf(std::string_view name);

}  // namespace penstock::kserve

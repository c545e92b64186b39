// How large a pattern becomes when its repetitions are written out: a bound that is known before
// anything is compiled. Works for regular expressions and for rules in EBNF, which repeat alike.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"

namespace penstock::grammar {

inline constexpr size_t kPatternSizeMax = 50'000;
inline constexpr size_t kPatternDepthMax = 64;

// kInvalidArgument, without a field: a repetition above kRepeatsMax, groups nested deeper than
// kPatternDepthMax, or more than kPatternSizeMax characters when all repetitions are written out. A
// pattern that is broken in another way is OK here.
enum class PatternKind { kRegex, kRules };  // rules have texts in double quotes
Status CheckPatternSize(std::string_view pattern, PatternKind kind);

}  // namespace penstock::grammar

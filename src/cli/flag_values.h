// Values of flags as text: sizes and times with a suffix, booleans, lists, misspelt names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::cli {

enum class Unit { kNone, kBytes, kMicroseconds, kMilliseconds, kSeconds };

// By the type that the help shows: BYTES, US, MS or S.
Unit UnitOf(const std::string& type_name);
// "a number of bytes, or one with B, kB, ..."; "" for kNone.
std::string SuffixesOf(Unit unit);
// "32MB" as the number of those units, "32000000"; a number without suffix stays as it is. A time
// may come out with a fraction: "500ms" is "0.5" s. kInvalidArgument: the suffix is unknown.
Expected<std::string> InUnit(const std::string& text, Unit unit);

// true, yes, on, 1; false, no, off, 0; in any case.
std::optional<bool> ParseBoolean(const std::string& text);

bool IsBlank(const std::string& text);

// The one of `known` that `given` most likely means, '_' and '-' being the same; "" = none is near.
std::string Nearest(const std::string& given, const std::vector<std::string>& known);
// "; did you mean PREFIXnearest?", or "".
std::string DidYouMean(const std::string& given, const std::vector<std::string>& known,
                       const std::string& prefix = "");

}  // namespace penstock::cli

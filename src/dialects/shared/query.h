// The query of a request's target. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::dialects {

// The value of "KEY=VALUE", percent-decoded; "" where it is absent or not well-formed.
std::string QueryValue(std::string_view target, std::string_view key);
// The same as a number from `min` to `max`; absent: `absent`. kInvalidArgument names the key.
Expected<int64_t> QueryInt(std::string_view target, std::string_view key, int64_t absent,
                           int64_t min, int64_t max);

}  // namespace penstock::dialects

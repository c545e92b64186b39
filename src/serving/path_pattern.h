// Paths of routes with parts that vary: "/v2/models/{model}/versions/{version}". A part stands for
// at least one character; the first of a pattern may hold slashes, as names of models do.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::serving {

// What the parts of a pattern stand for, in their order; "" for those it does not have.
using PathParts = std::array<std::string_view, 2>;

// nullopt: the path does not match. The views point into `path`.
std::optional<PathParts> MatchPath(std::string_view pattern, std::string_view path);

// "model", "version"; empty: the pattern is one path.
std::vector<std::string_view> PathPartNames(std::string_view pattern);
// Characters outside the parts: of two patterns that match a path the one with more is meant.
size_t LiteralLength(std::string_view pattern);

}  // namespace penstock::serving

#include "serving/route_table.h"

#include <algorithm>

#include "serving/path_pattern.h"

namespace penstock::serving {
namespace {

// Larger where a pattern is to be tried earlier: paths without parts, then those with more letters.
size_t Specificity(std::string_view pattern) {
  return PathPartNames(pattern).empty() ? SIZE_MAX : LiteralLength(pattern);
}

}  // namespace

RouteTable::RouteTable(std::span<const DialectRoutes> dialects, ErrorBody errors)
    : errors_(errors) {
  for (const DialectRoutes& dialect : dialects) {
    routes_.insert(routes_.end(), dialect.routes.begin(), dialect.routes.end());
    if (dialect.below) below_.push_back(*dialect.below);
  }
  std::stable_sort(routes_.begin(), routes_.end(), [](const Route& a, const Route& b) {
    return Specificity(a.path) > Specificity(b.path);
  });
  infos_.assign(routes_.begin(), routes_.end());
}

const Route* RouteTable::FindPost(std::string_view path, int32_t* index) const {
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (path != routes_[i].path || std::string_view(routes_[i].method) != "POST") continue;
    *index = static_cast<int32_t>(i);
    return &routes_[i];
  }
  return nullptr;
}

ErrorBody RouteTable::ErrorsOf(std::string_view unknown_path) const {
  for (const ErrorsBelow& below : below_) {
    if (unknown_path.starts_with(below.path)) return below.errors;
  }
  return errors_;
}

}  // namespace penstock::serving

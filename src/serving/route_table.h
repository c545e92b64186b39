// RouteTable: the rows of all dialects, most specific first. Not changed once made; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/route_info.h"
#include "serving/error_body.h"
#include "serving/route.h"

namespace penstock::serving {

// Unknown paths that begin with `path` get these errors.
struct ErrorsBelow {
  std::string_view path;
  ErrorBody errors;
};

// The rows of a dialect.
struct DialectRoutes {
  std::span<const Route> routes;
  std::optional<ErrorsBelow> below;
};

class RouteTable {
 public:
  // `errors`: of paths that neither a row nor a dialect has.
  RouteTable(std::span<const DialectRoutes> dialects, ErrorBody errors);
  RouteTable(const RouteTable&) = delete;  // requests keep addresses of rows
  RouteTable& operator=(const RouteTable&) = delete;

  std::span<const Route> routes() const { return routes_; }
  // The rows without their handlers, in the same order.
  const std::vector<frontend::RouteInfo>& infos() const { return infos_; }
  // The row that answers POST to exactly this path; null: none. *index: its place in the table.
  const Route* FindPost(std::string_view path, int32_t* index) const;
  // Errors of a path that no row matches.
  ErrorBody ErrorsOf(std::string_view unknown_path) const;

 private:
  std::vector<Route> routes_;
  std::vector<frontend::RouteInfo> infos_;
  std::vector<ErrorsBelow> below_;
  ErrorBody errors_;
};

}  // namespace penstock::serving

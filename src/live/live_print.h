// Prints the points of a LiveFeed. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "api/load_sample.h"

namespace penstock::live {

// What the front end adds to a point.
struct LivePoint {
  int64_t unix_ms = 0;
  api::LoadPoint load;
  int64_t connections = 0;
  int64_t streams = 0;  // without those that watch
  int64_t watchers = 0;
  double client_errors_per_s = 0;
  double server_errors_per_s = 0;
};

// Names of the numbers of a point, in their order.
std::span<const std::string_view> LiveFields();
// [1764000000000,12.5,...]: as many as LiveFields; null for what is not known.
std::string PrintLivePoint(const LivePoint& point);

}  // namespace penstock::live

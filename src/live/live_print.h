// Prints the points of a LiveFeed. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "telemetry/snapshot.h"

namespace penstock::live {

// The difference of two snapshots, and what the front end adds.
struct LivePoint {
  int64_t unix_ms = 0;
  telemetry::Snapshot window;
  int64_t connections = 0;
  int64_t streams = 0;  // without those that watch
  int64_t watchers = 0;
  uint64_t client_errors = 0;  // in the window
  uint64_t server_errors = 0;
};

// Names of the numbers of a point, in their order.
std::span<const std::string_view> LiveFields();
// [1764000000000,12.5,...]: as many as LiveFields; null for a ratio or
// a percentile of nothing.
std::string PrintLivePoint(const LivePoint& point);

}  // namespace penstock::live

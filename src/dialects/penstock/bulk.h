// Parses and prints POST /v1/bulk. Pure functions.
//
// Request: {action: "begin"} or {action: "end", id}.
// Response: {object: "bulk_run", id, state: "open", idle_s_max} or
// {object, id, state: "ended", requests, released, reason, released_bytes}.
#pragma once

#include <string>
#include <string_view>

#include "api/types.h"
#include "base/status.h"

namespace penstock::dialects {

struct BulkCall {
  bool begin = false;
  std::string id;  // of the run to end
};

Expected<BulkCall> ParseBulkCall(std::string_view body);
std::string PrintBulkRunBegun(const api::BulkRunBegun& begun);
std::string PrintBulkRunEnded(const api::BulkRunEnded& ended);

}  // namespace penstock::dialects

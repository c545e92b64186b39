// The address of a server as a flag has it, for load generators.
#pragma once

#include <string>

#include "common/status.h"
#include "load/http_load.h"

namespace penstock::cli {

// Sets host, port and tls. As typed: "host:port" means http, and "/v1" at the end is no matter.
// kInvalidArgument names the flag.
Status ParseTarget(const std::string& flag, const std::string& url, load::HttpTarget* target);

}  // namespace penstock::cli

// The address of a server as a flag has it, for load generators.
#pragma once

#include <string>

#include "base/status.h"
#include "load/http_load.h"

namespace penstock::cli {

// Sets host, port and tls. "host:port" without a scheme means http; "/v1" at the end is ignored.
// kInvalidArgument names the flag.
Status ParseTarget(const std::string& flag, const std::string& url, load::HttpTarget* target);

}  // namespace penstock::cli

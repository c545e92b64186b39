// Writes a result to a file. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::load {

// Replaces the file. Does nothing if `path` is empty. kUnavailable names the file.
Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace penstock::load

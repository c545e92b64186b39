// Whether a file is what it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock {

struct FileDigest {
  int64_t bytes = 0;
  std::string sha256;  // of them, in hexadecimal digits
};

// Reads the whole file: 0.6 s a GB where the processor has instructions for SHA. `take`, unless it
// is null, gets the bytes block by block; its error ends the reading. Errors of OpenRegularFile;
// kUnavailable: reading failed.
using TakeBytes = std::function<Status(std::string_view bytes)>;
Expected<FileDigest> DigestOfFile(const std::string& path, const TakeBytes& take = nullptr);

}  // namespace penstock

// Whether a file is what it was.
#pragma once

#include <cstdint>
#include <string>

#include "base/regular_file.h"
#include "base/status.h"

namespace penstock {

struct FileDigest {
  int64_t bytes = 0;
  std::string sha256;  // of them, in hexadecimal digits
};

// Reads the whole file: 0.6 s a GB where the processor has instructions for SHA. `take`, unless it
// is null, gets the blocks besides. Errors of ReadInBlocks.
Expected<FileDigest> DigestOfFile(const std::string& path, const TakeBlock& take = nullptr);

}  // namespace penstock

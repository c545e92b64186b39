// Downloads a large file over several connections at once, each a range of it and a thread of its
// own. `progress` and HttpFetchOptions::cancelled are called on the caller's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "hub/http_fetch.h"
#include "hub/partial_file.h"

namespace penstock::hub {

struct RangeOptions {
  int connections = 4;                           // 1 = none of this
  uint64_t file_bytes_min = uint64_t{64} << 20;  // smaller files come over one connection
  uint64_t segment_bytes = 0;                    // of one range; 0 = by the file, 16 to 64 MiB
};

// Bytes of a range of such a file.
uint64_t SegmentBytes(const RangeOptions& options, uint64_t file_bytes);

// Fills what `file` lacks. kUnsupported: the server does not send ranges, nothing of this reply was
// written. Failures that may pass are tried again as HttpFetch::Download does, and at 429 over
// fewer connections. On failure the received bytes stay in the file. `progress` gets the bytes in
// the file; false gives up (kCancelled).
Status DownloadRanges(const HttpFetchOptions& http, const RangeOptions& options,
                      const std::string& url, PartialFile* file,
                      const HttpFetch::Progress& progress);

}  // namespace penstock::hub

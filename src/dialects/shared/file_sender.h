// Sends a file as the body of an answer, piece by piece as the client takes it, so that a file of
// any size takes little memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serving/route.h"

namespace penstock::dialects {

// Bytes [begin, end) of a file.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The header Range of a request for a file of `size` bytes (RFC 9110, 14.1.2). nullopt: the whole
// file is asked for, or several ranges or another unit, which a server may answer so.
// kInvalidArgument: no byte of the range is in the file.
Expected<std::optional<ByteRange>> ParseByteRange(std::string_view header, uint64_t size);

// Answers with the file at `path`, of `size` bytes, or with the range that the request asks for. On
// a thread that may wait for the disk. An error of the disk later closes the connection.
void SendFile(const serving::RouteCall& call, const std::string& path, uint64_t size,
              const char* content_type);

}  // namespace penstock::dialects

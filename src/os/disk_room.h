// Whether an output fits on its disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

// Size that a file at `path` can reach, counting the bytes of `path`.part. Nothing where unknown:
// stdout, a pipe, a file system that compresses.
std::optional<int64_t> RoomFor(const std::string& path);

// "512 bytes", "3.1 GB"
std::string SizeText(int64_t bytes);

}  // namespace penstock

// Digests of files in hexadecimal digits, as the hub names contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace penstock::hub {

// Called from time to time with the bytes read so far; false gives up (kCancelled).
using DigestProgress = std::function<bool(uint64_t bytes)>;

// SHA-256 of the contents: the etag of a file kept in LFS.
Expected<std::string> Sha256OfFile(const std::string& path, const DigestProgress& progress);
// As git names contents: SHA-1 of "blob SIZE", NUL and the contents. The etag of a small file.
Expected<std::string> GitSha1OfFile(const std::string& path);
// SHA-1 of the contents alone, as some mirrors give.
Expected<std::string> Sha1OfFile(const std::string& path);

// 64 or 40 digits in lower case.
bool IsSha256(const std::string& text);
bool IsSha1(const std::string& text);

}  // namespace penstock::hub

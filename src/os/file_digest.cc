#include "os/file_digest.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/regular_file.h"
#include "base/sha256.h"

namespace penstock {

Expected<FileDigest> DigestOfFile(const std::string& path, const TakeBytes& take) {
  constexpr size_t kBlockBytes = 1 << 20;
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  const auto block = std::make_unique_for_overwrite<char[]>(kBlockBytes);
  Sha256 digest;
  FileDigest made;
  while (true) {
    const ssize_t got = ::read(file.get(), block.get(), kBlockBytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Status(StatusCode::kUnavailable, "cannot read " + path + ": " + std::strerror(errno));
    }
    if (got == 0) break;
    const std::string_view bytes(block.get(), static_cast<size_t>(got));
    digest.Add(bytes);
    made.bytes += got;
    if (take) PENSTOCK_RETURN_IF_ERROR(take(bytes));
  }
  made.sha256 = digest.Hex();
  return made;
}

}  // namespace penstock

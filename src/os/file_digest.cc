#include "os/file_digest.h"

#include "base/sha256.h"

namespace penstock {

Expected<FileDigest> DigestOfFile(const std::string& path, const TakeBlock& take) {
  Sha256 digest;
  FileDigest made;
  PENSTOCK_RETURN_IF_ERROR(ReadInBlocks(path, [&](std::string_view bytes) {
    digest.Add(bytes);
    made.bytes += static_cast<int64_t>(bytes.size());
    return take ? take(bytes) : Status::Ok();
  }));
  made.sha256 = digest.Hex();
  return made;
}

}  // namespace penstock

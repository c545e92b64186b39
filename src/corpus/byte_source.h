// The bytes of an input file, unpacked. For one thread.
//
// gzip (RFC 1952, any number of members, by zlib) and Zstandard (RFC 8878, any number of frames, by
// libzstd) are recognised by their first bytes, not by the file's name. Memory is bounded by blocks
// of 64 KiB and by the window of the packer: 32 KiB of gzip, at most 128 MiB of Zstandard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::corpus {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes at most `size` > 0 bytes to `data`; fewer may come. 0: the end. After a failure the
  // source must not be read again.
  virtual Expected<size_t> Read(char* data, size_t size) = 0;
  // Bytes of the file, as it lies on the disk, that were read so far.
  virtual int64_t disk_bytes() const = 0;
};

// "-": standard input. kNotFound with the reason where it cannot be opened. `stop_fd`, unless -1:
// a read ends with kCancelled once this descriptor is readable.
Expected<std::unique_ptr<ByteSource>> OpenFile(const std::string& name, int stop_fd = -1);
// A regular file from byte `begin` until `end`, nullopt = its end.
Expected<std::unique_ptr<ByteSource>> OpenSlice(const std::string& name, int64_t begin,
                                                std::optional<int64_t> end, int stop_fd = -1);

// Whether a file that begins so is packed.
inline constexpr size_t kPackedHeadBytes = 4;
bool IsPacked(std::string_view head);
// Unpacks `packed`; returns it as it is where it is not packed. Reads its first bytes.
//
// Reading fails with kInvalidArgument where packed data are damaged or cut off, or followed by
// other data.
Expected<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> packed);

}  // namespace penstock::corpus

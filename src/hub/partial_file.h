// PartialFile: a file that several connections fill at once, each a segment of it from the
// segment's begin, and the note of how far each is. The note is kept beside the data and written
// after them with every block, so that a process that is killed loses nothing it received.
//
//   PATH         the data, with holes
//   PATH.state   "penstck1", bytes, bytes of a segment, then of each segment the bytes it has;
//                64 bits each, as the machine has them
//
// Other programs resume a download by the length of "<etag>.incomplete", so a file with holes must
// never have that name: PATH is another one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/regular_file.h"
#include "base/status.h"

namespace penstock::hub {

class PartialFile {
 public:
  static constexpr size_t kSegmentsMax = 1 << 16;

  // Goes on with a file that is there and fits, else begins one. `segment_bytes` is that of a new
  // one, at least bytes / kSegmentsMax. Internal: it cannot be written.
  static Expected<PartialFile> Open(const std::string& path, uint64_t bytes,
                                    uint64_t segment_bytes);

  PartialFile(PartialFile&&) = default;
  PartialFile& operator=(PartialFile&&) = default;

  uint64_t bytes() const { return bytes_; }
  uint64_t bytes_done() const { return bytes_done_; }
  size_t segments() const { return done_.size(); }
  // The place the rest of a segment begins at, and that where the segment ends.
  std::pair<uint64_t, uint64_t> Rest(size_t segment) const;

  // Appends to a segment. `size` must fit.
  Status Write(size_t segment, const char* data, size_t size);

  // Bytes from the begin of the file without a hole.
  uint64_t Prefix() const;
  // Takes over a file that holds the first bytes and nothing else, if it holds more than this.
  Status AdoptPrefix(const std::string& path);
  // Makes of this a file that holds Prefix() bytes and nothing else; ends the object's use.
  Status MoveAsPrefix(const std::string& path);
  // The data are whole and on the disk; removes the note.
  Status Finish();
  // Removes data and note.
  static void Remove(const std::string& path);

 private:
  PartialFile(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
  bool ReadState();
  Status Begin(uint64_t segment_bytes, uint64_t prefix);
  uint64_t LengthOf(size_t segment) const;

  std::string path_;
  uint64_t bytes_;
  uint64_t segment_bytes_ = 0;
  std::vector<uint64_t> done_;
  uint64_t bytes_done_ = 0;
  FileDescriptor data_;
  FileDescriptor state_;
};

}  // namespace penstock::hub

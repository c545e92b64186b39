// A file mapped read-only. Views into it live as long as the MappedFile.
//
// A file that is truncated while mapped has pages without contents; the kernel answers a touch of
// one with SIGBUS, which would end the process. MendTruncated installs a handler of SIGBUS: a touch
// inside a mapping of this module finds zeros instead, and the file is marked as damaged. Every
// other SIGBUS goes to the previous handler. Readers call Check() before they use what they have
// read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/regular_file.h"
#include "base/status.h"

namespace penstock::files {

class MappedFile {
 public:
  static constexpr size_t kMappedMax = 4096;  // files at once, in the process

  // Installs the handler, once. Programs call it at their start; a library leaves the signals of its
  // process alone, and a file truncated there ends it.
  static void MendTruncated();

  // As OpenRegularFile; an empty file maps to an empty span. kPayloadTooLarge: kMappedMax.
  static Expected<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

  // kUnavailable: the file was truncated after it was mapped; bytes read from it may be zeros. One
  // system call.
  Status Check() const;

 private:
  struct Mapping;
  struct Handler;

  MappedFile() = default;
  FileDescriptor file_;
  Mapping* mapping_ = nullptr;  // null: nothing is mapped
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace penstock::files

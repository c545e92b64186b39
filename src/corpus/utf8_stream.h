// The text of one input file, unpacked and as UTF-8, as a window that moves over it. For one
// thread. Memory: the bytes filled and not consumed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "corpus/byte_source.h"
#include "corpus/text_encoding.h"

namespace penstock::corpus {

class Utf8Stream {
 public:
  // `source` is unpacked already. `head`: it begins at the file's head, where a byte order mark may
  // stand.
  Utf8Stream(std::unique_ptr<ByteSource> source, TextEncoding encoding, bool head = true);

  // The text read and not consumed. Valid until Fill or Consume.
  std::string_view view() const { return std::string_view(text_).substr(begin_); }
  // Makes view() longer; false at the end. A byte order mark in front is left out.
  Expected<bool> Fill();
  void Consume(size_t size) {
    begin_ += size;
    offset_ += size;
  }

  // The place of view()'s first byte in the text.
  uint64_t offset() const { return offset_; }
  // Bytes of the file, as it lies on the disk, that were read: some blocks more than was consumed.
  int64_t disk_bytes() const { return source_->disk_bytes(); }

 private:
  Expected<bool> Read();

  std::unique_ptr<ByteSource> source_;
  TextEncoding encoding_;
  Transcoder transcoder_;
  std::unique_ptr<char[]> block_;
  std::string text_;
  size_t begin_ = 0;
  uint64_t offset_ = 0;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace penstock::corpus

#include "corpus/text_stream.h"

namespace penstock {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

TextStream::TextStream(std::unique_ptr<ByteSource> source, TextEncoding encoding)
    : source_(std::move(source)), encoding_(encoding), transcoder_(encoding) {}

Expected<bool> TextStream::Fill() {
  if (started_) return Read();
  started_ = true;
  const size_t wanted = encoding_ == TextEncoding::kUtf8 ? kByteOrderMark.size() : 1;
  while (view().size() < wanted) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, Read());
    if (!more) break;
  }
  if (encoding_ == TextEncoding::kUtf8 && view().starts_with(kByteOrderMark)) {
    Consume(kByteOrderMark.size());
    if (view().empty()) return Read();
  }
  return !view().empty();
}

Expected<bool> TextStream::Read() {
  text_.erase(0, begin_);
  begin_ = 0;
  const size_t before = text_.size();
  std::string block;
  // Of other encodings a block may be half a character.
  while (!ended_ && text_.size() == before) {
    if (encoding_ == TextEncoding::kUtf8) {
      text_.resize(before + kBlockBytes);
      auto read = source_->Read(text_.data() + before, kBlockBytes);
      text_.resize(before + (read.ok() ? *read : 0));
      if (!read.ok()) return read.status();
      ended_ = *read == 0;
      continue;
    }
    block.resize(kBlockBytes);
    PENSTOCK_ASSIGN_OR_RETURN(const size_t read, source_->Read(block.data(), block.size()));
    ended_ = read == 0;
    transcoder_.Append(std::string_view(block).substr(0, read), &text_);
    if (ended_) transcoder_.Finish(&text_);
  }
  return text_.size() > before;
}

}  // namespace penstock

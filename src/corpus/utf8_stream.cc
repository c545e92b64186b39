#include "corpus/utf8_stream.h"

namespace penstock::corpus {
namespace {

constexpr size_t kRawBlockBytes = 64 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Utf8Stream::Utf8Stream(std::unique_ptr<ByteSource> source, TextEncoding encoding, bool head)
    : source_(std::move(source)),
      encoding_(encoding),
      transcoder_(encoding),
      block_(std::make_unique_for_overwrite<char[]>(kRawBlockBytes)),
      started_(!head) {}

Expected<bool> Utf8Stream::Fill() {
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

Expected<bool> Utf8Stream::Read() {
  text_.erase(0, begin_);
  begin_ = 0;
  const size_t before = text_.size();
  // In other encodings a block may end within a character.
  while (!ended_ && text_.size() == before) {
    PENSTOCK_ASSIGN_OR_RETURN(const size_t read, source_->Read(block_.get(), kRawBlockBytes));
    ended_ = read == 0;
    transcoder_.Append({block_.get(), read}, &text_);
    if (ended_) transcoder_.Finish(&text_);
  }
  return text_.size() > before;
}

}  // namespace penstock::corpus

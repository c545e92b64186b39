#include "text/normalized_text.h"

#include "unicode/utf8.h"

namespace penstock::text {

namespace {
constexpr size_t kStageCost = 64;  // of a stage, for any text
}

void NormalizedText::Assign(std::string_view original, uint32_t begin, uint32_t end, bool track,
                            size_t max_bytes, Work* work) {
  text.assign(original.substr(begin, end - begin));
  track_ = track;
  max_bytes_ = max_bytes;
  work_ = work;
  align.clear();
  if (!track) return;
  align.reserve(text.size());
  for (uint32_t at = begin; at < end;) {
    const uint32_t length = unicode::Utf8Length(static_cast<unsigned char>(original[at]));
    align.insert(align.end(), length, Align{at, at + length});
    at += length;
  }
}

Status NormalizedText::Bound(size_t bytes) {
  if (bytes > max_bytes_) {
    return {StatusCode::kUnprocessable,
            "text grows too long: a tokenizer may make 64 bytes of each byte, and 1 MiB"};
  }
  return work_->Spend(bytes + kStageCost) ? Status::Ok() : work_->status();
}

void NormalizedText::Transform(const std::vector<unicode::CharChange>& changes, size_t removed) {
  if (!track_) {
    text.clear();
    for (const unicode::CharChange& change : changes) unicode::AppendUtf8(change.c, &text);
    return;
  }
  old_text_.swap(text);
  old_align_.swap(align);
  text.clear();
  align.clear();
  size_t offset = 0;  // byte of the old text that comes next
  const auto skip_one = [&] {
    if (offset < old_text_.size()) {
      offset += unicode::Utf8Length(static_cast<unsigned char>(old_text_[offset]));
    }
  };
  for (size_t i = 0; i < removed; ++i) skip_one();
  for (const unicode::CharChange& change : changes) {
    Align from;
    if (change.change > 0) {
      if (offset > 0) from = old_align_[offset - 1];
    } else {
      if (offset < old_align_.size()) from = old_align_[offset];
      for (int32_t i = change.change; i <= 0; ++i) skip_one();
    }
    unicode::AppendUtf8(change.c, &text);
    align.resize(text.size(), from);
  }
}

void NormalizedText::Prepend(std::string_view prefix) {
  if (text.empty()) return;
  text.insert(0, prefix);
  // All new bytes share the alignment of the character they come before.
  if (track_) align.insert(align.begin(), prefix.size(), align.front());
}

}  // namespace penstock::text

// A text under normalisation, and for each byte of it the bytes of the original it came from.
//
// The rules of alignment are those of Hugging Face `tokenizers` (NormalizedString), since token
// offsets must be the same. Without offsets, no alignment is kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "threads/work.h"
#include "unicode/normal_form.h"

namespace penstock::text {

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// Half-open range of bytes of the original text.
struct Align {
  uint32_t begin = 0;
  uint32_t end = 0;
};

class NormalizedText {
 public:
  // Copies original[begin, end) of valid UTF-8. Stages may make it `max_bytes` long, counting in
  // `work`, which outlives them.
  void Assign(std::string_view original, uint32_t begin, uint32_t end, bool track, size_t max_bytes,
              Work* work);

  // A stage calls this before it makes the text `bytes` long, or soon after if it could not tell.
  // kUnprocessable: too long; or the Status by which the work was stopped.
  Status Bound(size_t bytes);
  size_t max_bytes() const { return max_bytes_; }
  Work* work() const { return work_; }

  // Replaces the whole text. The first `removed` old characters have no successor.
  void Transform(const std::vector<unicode::CharChange>& changes, size_t removed);
  // Puts `prefix` before a text that is not empty.
  void Prepend(std::string_view prefix);
  // Range of the original that text[begin, end) stands for. begin < end; tracking must be on.
  Align OriginalRange(uint32_t begin, uint32_t end) const {
    return {align[begin].begin, align[end - 1].end};
  }
  bool track() const { return track_; }

  std::string text;
  std::vector<Align> align;  // one a byte of text; empty unless tracking

 private:
  bool track_ = false;
  size_t max_bytes_ = 0;
  Work* work_ = nullptr;
  std::string old_text_;  // scratch of Transform
  std::vector<Align> old_align_;
};

// How a step of the pipeline treats a cut point (cut_points.h), where a text is cut in two before
// the space between two words.
enum class CutRule {
  kUnsafe,  // may treat the parts differently from the whole, or unknown
  kPrefix,  // the left part comes out as in the whole, the right one may not
  kSafe,    // both parts come out as in the whole
  kSplits,  // pre-tokenizers: and no piece reaches across the cut
};

// A part of a NormalizedText on its way to the model.
struct Piece {
  uint32_t begin, end;  // bytes of text
  int32_t token = -1;   // id, if an added token was found here
};

}  // namespace penstock::text

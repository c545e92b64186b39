// Pre-tokenizers cut a normalised text into the pieces that the model sees one by one.
//
// Each takes the pieces of the one before it and cuts them further; some also rewrite the text.
// Pieces that are added tokens pass untouched; empty pieces vanish. Immutable, any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "regex/regex.h"
#include "regex/split_patterns.h"
#include "text/normalized_text.h"

namespace penstock::text {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Calls text->Bound for its result. Fails if that does, or if a regex takes too many steps.
  virtual Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const = 0;
  // True if Apply must know where in the original a piece begins.
  virtual bool needs_alignment() const { return false; }
  // The rule at a cut where the normalised text has `space` for the space: " " or U+2581. The steps
  // are asked in order, up to the first that splits; later ones see equal pieces.
  virtual CutRule AtCut(std::string_view space) const = 0;
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Cuts at characters of a class: WhitespaceSplit, Punctuation, Digits, CharDelimiterSplit.
class ClassSplit : public PreTokenizer {
 public:
  ClassSplit(uint32_t class_bits, SplitBehavior behavior) : bits_(class_bits), behavior_(behavior) {
    FindKept();
  }
  static std::unique_ptr<ClassSplit> OnChar(char32_t delimiter, SplitBehavior behavior);
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  CutRule AtCut(std::string_view space) const override;

 private:
  bool Matches(char32_t c) const;
  void FindKept();

  uint32_t bits_;
  SplitBehavior behavior_;
  char32_t delimiter_ = 0;
  bool on_char_ = false;
  bool keeps_alnum_ = false;  // no ASCII letter or digit matches
};

// Whitespace goes, each punctuation character stands alone.
class BertPreTokenizer : public PreTokenizer {
 public:
  BertPreTokenizer();
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  CutRule AtCut(std::string_view space) const override {
    return space == " " ? CutRule::kSplits : CutRule::kUnsafe;
  }

 private:
  unsigned char ascii_[128];
};

// Runs of word characters and runs of other characters; whitespace goes (\w+|[^\w\s]+).
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  CutRule AtCut(std::string_view space) const override {
    return space == " " ? CutRule::kSplits : CutRule::kUnsafe;
  }
};

class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(regex::Regex regex, const regex::KnownPattern* known, SplitBehavior behavior,
                    bool invert)
      : regex_(std::move(regex)), known_(known), behavior_(behavior), invert_(invert) {}
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  // In the known patterns a space is either the first character of a match or part of a run of
  // spaces; so a match begins at a space after another character. Their look-ahead is for a
  // character after spaces.
  CutRule AtCut(std::string_view space) const override {
    const bool known = known_ != nullptr && behavior_ == SplitBehavior::kIsolated;
    return known && space == " " ? CutRule::kSplits : CutRule::kUnsafe;
  }

 private:
  regex::Regex regex_;
  const regex::KnownPattern* known_;  // a hand-written matcher for the same pattern, or null
  SplitBehavior behavior_;
  bool invert_;
};

// GPT-2's: an optional space in front, an optional split by its pattern, then each byte becomes
// a character of the byte-level alphabet (unless the model takes bytes as they are).
class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  // Leaves bytes as they are.
  void set_keep_bytes(bool keep) { keep_bytes_ = keep; }
  // The right part begins with a space and gets no other.
  CutRule AtCut(std::string_view space) const override {
    return use_regex_ && space == " " ? CutRule::kSplits : CutRule::kUnsafe;
  }

 private:
  bool add_prefix_space_, use_regex_;
  bool keep_bytes_ = false;
};

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  enum class Scheme { kAlways, kFirst, kNever };
  MetaspacePreTokenizer(std::string replacement, Scheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  bool needs_alignment() const override { return scheme_ == Scheme::kFirst; }
  // The right part begins with the replacement (or a space that becomes it), and gets no other.
  CutRule AtCut(std::string_view space) const override {
    const bool own = space == " " || space == replacement_;
    return split_ && own ? CutRule::kSplits : CutRule::kUnsafe;
  }

 private:
  std::string replacement_;  // one character
  Scheme scheme_;
  bool split_;
};

class FixedLengthPreTokenizer : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t length) : length_(length) {}
  Status Apply(NormalizedText* text, std::vector<Piece>* pieces) const override;
  CutRule AtCut(std::string_view) const override { return CutRule::kUnsafe; }

 private:
  size_t length_;  // characters
};

}  // namespace penstock::text

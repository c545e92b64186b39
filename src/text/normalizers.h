// Normalizers: the "normalizer" of a tokenizer.json, applied to a text before it is split.
// Immutable; a Normalize call touches only its arguments.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "regex/regex.h"
#include "text/normalized_text.h"
#include "text/precompiled_charsmap.h"
#include "unicode/normal_form.h"

namespace penstock::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Calls text->Bound for its result. Fails if that does, or if a regex takes too many steps; the
  // text is then unusable.
  virtual Status Normalize(NormalizedText* text) const = 0;
  virtual CutRule AtCut() const { return CutRule::kUnsafe; }
};

// Cleans, splits off Chinese characters, strips accents, lowercases.
class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(bool clean_text, bool chinese, bool strip_accents, bool lowercase);
  Status Normalize(NormalizedText* text) const override;
  // Treats characters one by one, and orders neighbouring marks, which a space separates.
  CutRule AtCut() const override { return CutRule::kSafe; }
  bool splits_chinese() const { return chinese_; }

 private:
  // Rewrites the ASCII characters at the begin of `bytes` that are kept, and returns their number.
  size_t RewriteAscii(char* bytes, size_t size) const;
  // `done`: bytes at the begin that are rewritten already.
  void Untracked(NormalizedText* text, size_t done) const;
  void Tracked(NormalizedText* text) const;

  bool clean_, chinese_, strip_accents_, lowercase_;
  std::array<unsigned char, 128> ascii_;  // replacement of an ASCII character; 0xFF = dropped
};

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(unicode::NormalForm form) : form_(form) {}
  Status Normalize(NormalizedText* text) const override;
  // A space is a starter that composes with nothing before it.
  CutRule AtCut() const override { return CutRule::kSafe; }

 private:
  unicode::NormalForm form_;
};

// Replaces each match; the pattern never matches the empty string.
class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(regex::Regex regex, std::string content, CutRule at_cut)
      : regex_(std::move(regex)), content_(std::move(content)), at_cut_(at_cut) {}
  Status Normalize(NormalizedText* text) const override;
  CutRule AtCut() const override { return at_cut_; }
  // The rule for a pattern: of a literal, or of a regex by its text.
  static CutRule CutRuleOfLiteral(std::string_view literal);
  static CutRule CutRuleOfRegex(std::string_view pattern);

 private:
  regex::Regex regex_;
  std::string content_;
  CutRule at_cut_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  Status Normalize(NormalizedText* text) const override;
  CutRule AtCut() const override { return CutRule::kPrefix; }

 private:
  std::string prefix_;
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  Status Normalize(NormalizedText* text) const override;
  // The left part does not end with a space, the right one begins with one.
  CutRule AtCut() const override { return left_ ? CutRule::kPrefix : CutRule::kSafe; }

 private:
  bool left_, right_;
};

// One character to none, one or more, each by itself.
class CharNormalizer : public Normalizer {
 public:
  enum class Kind { kLowercase, kStripAccents, kNmt, kByteLevel };
  explicit CharNormalizer(Kind kind) : kind_(kind) {}
  Status Normalize(NormalizedText* text) const override;
  CutRule AtCut() const override { return CutRule::kSafe; }

 private:
  Kind kind_;
};

// SentencePiece's compiled character map, applied by graphemes, then by characters.
class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(PrecompiledCharsmap map);
  Status Normalize(NormalizedText* text) const override;
  // Treats graphemes one by one. No letter joins a space after it to its grapheme except a Prepend,
  // and those are not solid (cut_points.cc).
  CutRule AtCut() const override { return CutRule::kSafe; }

 private:
  // The end of the ASCII characters from `at` that are graphemes by themselves and stay as they are.
  size_t KeptAscii(std::string_view text, size_t at) const;

  PrecompiledCharsmap map_;
  std::array<bool, 128> kept_;  // ASCII characters that the map does not replace; not CR, LF
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  Status Normalize(NormalizedText* text) const override;
  CutRule AtCut() const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace penstock::text

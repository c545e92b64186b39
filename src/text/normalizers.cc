#include "text/normalizers.h"

#include <algorithm>

#include "text/byte_level.h"
#include "unicode/ascii_run.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

constexpr size_t kPollBytes = 64 << 10;  // between two looks at the work, in a pass over the text

// Rewrites each character by itself: rewrite(c, put) calls put(char) any number of times. New
// characters keep the alignment of the old one. If its work is stopped, the text is cut short, as
// Bound then reports.
template <typename Rewrite>
void RewriteChars(NormalizedText* text, Rewrite rewrite) {
  std::string out;
  std::vector<Align> align;
  out.reserve(text->text.size() + 16);
  const size_t size = text->text.size();
  for (size_t at = 0; at < size;) {
    const size_t begin = at, stop = std::min(size, at + kPollBytes);
    while (at < stop) {
      int length = 0;
      const char32_t c = unicode::DecodeUtf8(text->text.data() + at, &length);
      rewrite(c, [&](char32_t put) { unicode::AppendUtf8(put, &out); });
      if (text->track()) align.resize(out.size(), text->align[at]);
      at += length;
    }
    if (!text->work()->Spend(at - begin)) break;
  }
  text->text.swap(out);
  text->align.swap(align);
}

template <typename Put>
void PutLowercase(char32_t c, uint32_t props, const Put& put) {
  if (!(props & unicode::kUniHasLower)) {
    put(c);
    return;
  }
  for (uint32_t lower : unicode::LowercaseOf(c)) put(lower);
}

// The blocks that BERT's original tokenizer splits into single characters.
bool IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// Decomposes characters as they come, drops accents, puts the remaining marks in canonical
// order, lowercases and appends. (The order can be made after dropping: the sort is stable.)
class AccentStripper {
 public:
  AccentStripper(bool lowercase, std::string* out)
      : table_(unicode::UnicodePropertyTable()), lowercase_(lowercase), out_(out) {}
  ~AccentStripper() { Flush(); }

  void Push(char32_t c) {
    const uint32_t props = table_.Get(c);
    if (!(props & (unicode::kUniHasCanonical | unicode::kUniCombining | unicode::kUniNonspacing))) {
      Flush();
      Put(c, props);
    } else if (!(props & unicode::kUniHasCanonical)) {
      PushMark(c, props);
    } else if (unicode::IsHangulSyllable(c)) {
      char32_t jamo[3];
      const int count = unicode::DecomposeHangul(c, jamo);
      Flush();
      for (int i = 0; i < count; ++i) Put(jamo[i], table_.Get(jamo[i]));
    } else {
      for (uint32_t d : unicode::CanonicalDecomposition(c)) PushMark(d, table_.Get(d));
    }
  }

 private:
  void PushMark(char32_t c, uint32_t props) {
    if (props & unicode::kUniNonspacing) return;
    if (!(props & unicode::kUniCombining)) {
      Flush();
      Put(c, props);
      return;
    }
    marks_.push_back({c, unicode::CombiningClass(c)});
  }
  void Flush() {
    if (marks_.empty()) return;
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    for (const Mark& mark : marks_) Put(mark.c, table_.Get(mark.c));
    marks_.clear();
  }
  void Put(char32_t c, uint32_t props) {
    if (lowercase_) {
      PutLowercase(c, props, [&](char32_t lower) { unicode::AppendUtf8(lower, out_); });
    } else {
      unicode::AppendUtf8(c, out_);
    }
  }

  struct Mark {
    char32_t c;
    uint8_t combining;
  };
  const unicode::UnicodeTable& table_;
  bool lowercase_;
  std::string* out_;
  std::vector<Mark> marks_;
};

}  // namespace

BertNormalizer::BertNormalizer(bool clean_text, bool chinese, bool strip_accents, bool lowercase)
    : clean_(clean_text), chinese_(chinese), strip_accents_(strip_accents), lowercase_(lowercase) {
  for (int c = 0; c < 128; ++c) {
    const uint32_t props = unicode::UnicodeProps(c);
    ascii_[c] = static_cast<unsigned char>(c);
    if (clean_ && (props & unicode::kUniBertRemoved)) {
      ascii_[c] = 0xFF;
    } else if (clean_ && (props & unicode::kUniBertSpace)) {
      ascii_[c] = ' ';
    } else if (lowercase_ && c >= 'A' && c <= 'Z') {
      ascii_[c] = static_cast<unsigned char>(c + 32);
    }
  }
}

Status BertNormalizer::Normalize(NormalizedText* text) const {
  // ASCII that keeps its length is rewritten in place, tracked or not. Applying the full rules to
  // it again changes nothing.
  const size_t done = RewriteAscii(text->text.data(), text->text.size());
  if (done != text->text.size()) {
    if (text->track()) {
      Tracked(text);
    } else {
      Untracked(text, done);
    }
  }
  return text->Bound(text->text.size());
}

size_t BertNormalizer::RewriteAscii(char* bytes, size_t size) const {
  size_t at = 0;
  while (at < size) {
    if (size - at >= 16 && unicode::LowercasePrinted16(bytes + at, lowercase_)) {
      at += 16;
      continue;
    }
    for (const size_t stop = std::min(size, at + 16); at < stop; ++at) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      if (byte >= 128 || ascii_[byte] == 0xFF) return at;
      bytes[at] = static_cast<char>(ascii_[byte]);
    }
  }
  return at;
}

void BertNormalizer::Untracked(NormalizedText* text, size_t done) const {
  const unicode::UnicodeTable& table = unicode::UnicodePropertyTable();
  std::string out;
  std::string& in = text->text;
  out.reserve(in.size() + in.size() / 4);
  out.append(in, 0, done);
  for (size_t at = done; at < in.size();) {
    const size_t kept = RewriteAscii(in.data() + at, in.size() - at);
    out.append(in, at, kept);
    at += kept;
    // A stretch of anything else. Dropped ASCII belongs to it: marks on both sides of a dropped
    // character are ordered together.
    AccentStripper stripper(lowercase_, &out);
    const auto put = [&](char32_t c) {
      if (strip_accents_) {
        stripper.Push(c);
      } else if (lowercase_) {
        PutLowercase(c, table.Get(c), [&](char32_t lower) { unicode::AppendUtf8(lower, &out); });
      } else {
        unicode::AppendUtf8(c, &out);
      }
    };
    while (at < in.size()) {
      const auto byte = static_cast<unsigned char>(in[at]);
      if (byte < 128) {
        if (ascii_[byte] != 0xFF) break;
        ++at;
        continue;
      }
      int length = 0;
      char32_t c = unicode::DecodeUtf8(in.data() + at, &length);
      at += length;
      if (clean_) {
        const uint32_t props = table.Get(c);
        if (props & unicode::kUniBertRemoved) continue;
        if (props & unicode::kUniBertSpace) c = ' ';
      }
      if (chinese_ && IsChinese(c)) {
        put(' ');
        put(c);
        put(' ');
      } else {
        put(c);
      }
    }
  }
  text->text.swap(out);
}

void BertNormalizer::Tracked(NormalizedText* text) const {
  const unicode::UnicodeTable& table = unicode::UnicodePropertyTable();
  if (clean_ || chinese_) {
    RewriteChars(text, [&](char32_t c, auto put) {
      if (clean_) {
        const uint32_t props = table.Get(c);
        if (props & unicode::kUniBertRemoved) return;
        if (props & unicode::kUniBertSpace) c = ' ';
      }
      const bool chinese = chinese_ && IsChinese(c);
      if (chinese) put(' ');
      put(c);
      if (chinese) put(' ');
    });
  }
  if (strip_accents_) {
    std::vector<unicode::CharChange> changes;
    if (!unicode::IsInNormalForm(unicode::NormalForm::kNfd, text->text)) {
      unicode::ToNormalForm(unicode::NormalForm::kNfd, text->text, &changes);
      text->Transform(changes, 0);
    }
    RewriteChars(text, [&](char32_t c, auto put) {
      if (!(table.Get(c) & unicode::kUniNonspacing)) put(c);
    });
  }
  if (lowercase_) {
    RewriteChars(text, [&](char32_t c, auto put) { PutLowercase(c, table.Get(c), put); });
  }
}

Status FormNormalizer::Normalize(NormalizedText* text) const {
  if (!unicode::IsInNormalForm(form_, text->text)) {
    std::vector<unicode::CharChange> changes;
    changes.reserve(text->text.size());
    unicode::ToNormalForm(form_, text->text, &changes);
    text->Transform(changes, 0);
  }
  return text->Bound(text->text.size());
}

Status ReplaceNormalizer::Normalize(NormalizedText* text) const {
  std::vector<regex::ByteRange> matches;
  regex::RegexBudget budget(text->text.size(), text->work());
  if (!regex_.FindAll(text->text, &budget, &matches)) {
    PENSTOCK_RETURN_IF_ERROR(text->work()->status());
    return {StatusCode::kUnprocessable, "normalizer regex takes too many steps for this text"};
  }
  size_t size = text->text.size() + matches.size() * content_.size();
  for (const regex::ByteRange& match : matches) size -= match.end - match.begin;
  PENSTOCK_RETURN_IF_ERROR(text->Bound(size));
  if (matches.empty()) return {};
  std::string out;
  std::vector<Align> align;
  out.reserve(size);
  size_t last = 0;
  const auto copy = [&](size_t begin, size_t end) {
    out.append(text->text, begin, end - begin);
    if (text->track()) {
      align.insert(align.end(), text->align.begin() + begin, text->align.begin() + end);
    }
  };
  for (const regex::ByteRange& match : matches) {
    copy(last, match.begin);
    out.append(content_);
    // The new characters share the alignment of the last one replaced.
    if (text->track()) align.resize(out.size(), text->align[match.end - 1]);
    last = match.end;
  }
  copy(last, text->text.size());
  text->text.swap(out);
  text->align.swap(align);
  return {};
}

CutRule ReplaceNormalizer::CutRuleOfLiteral(std::string_view literal) {
  // A match across the cut would hold the space, or what an earlier step made of it.
  const bool any_space = literal.find(' ') != std::string_view::npos ||
                         literal.find(kMetaspace) != std::string_view::npos;
  return !any_space || literal == " " ? CutRule::kSafe : CutRule::kUnsafe;
}

CutRule ReplaceNormalizer::CutRuleOfRegex(std::string_view pattern) {
  // At a cut a single space stands between other characters.
  return pattern == " {2,}" || pattern == "\\s+" ? CutRule::kSafe : CutRule::kUnsafe;
}

Status PrependNormalizer::Normalize(NormalizedText* text) const {
  PENSTOCK_RETURN_IF_ERROR(text->Bound(text->text.size() + prefix_.size()));
  text->Prepend(prefix_);
  return {};
}

Status StripNormalizer::Normalize(NormalizedText* text) const {
  const std::string& s = text->text;
  size_t begin = 0, end = s.size();
  int length = 0;
  while (left_ && begin < end &&
         (unicode::UnicodeProps(unicode::DecodeUtf8(&s[begin], &length)) & unicode::kUniSpace)) {
    begin += length;
  }
  while (right_ && end > begin &&
         (unicode::UnicodeProps(unicode::DecodeUtf8Before(s.data() + end, &length)) &
          unicode::kUniSpace)) {
    end -= length;
  }
  text->text.erase(end);
  text->text.erase(0, begin);
  if (text->track()) {
    text->align.resize(end);
    text->align.erase(text->align.begin(), text->align.begin() + begin);
  }
  return text->Bound(end);
}

namespace {

// SentencePiece's nmt rules: controls go, spaces of all kinds become a space.
bool NmtDrops(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
         c == 0x8F || c == 0x9F;
}
bool NmtSpace(char32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

}  // namespace

Status CharNormalizer::Normalize(NormalizedText* text) const {
  const unicode::UnicodeTable& table = unicode::UnicodePropertyTable();
  switch (kind_) {
    case Kind::kLowercase:
      RewriteChars(text, [&](char32_t c, auto put) { PutLowercase(c, table.Get(c), put); });
      break;
    case Kind::kStripAccents:
      RewriteChars(text, [&](char32_t c, auto put) {
        if (!(table.Get(c) & unicode::kUniMark)) put(c);
      });
      break;
    case Kind::kNmt:
      RewriteChars(text, [&](char32_t c, auto put) {
        if (!NmtDrops(c)) put(NmtSpace(c) ? U' ' : c);
      });
      break;
    case Kind::kByteLevel:
      RewriteChars(text, [&](char32_t c, auto put) {
        std::string bytes;
        unicode::AppendUtf8(c, &bytes);
        for (char byte : bytes) put(ByteLevelChar(static_cast<unsigned char>(byte)));
      });
      break;
  }
  return text->Bound(text->text.size());
}

namespace {

// A text part by part: with alignment as changes, else as bytes.
class Rewrite {
 public:
  explicit Rewrite(const NormalizedText& text) : track_(text.track()) {
    if (track_) {
      changes_.reserve(text.text.size());
    } else {
      out_.reserve(text.text.size() + 16);
    }
  }
  void Keep(std::string_view part) {
    if (track_) {
      Push(part);
    } else {
      out_.append(part);
    }
  }
  void Replace(std::string_view part, std::string_view by) {
    modified_ = true;
    if (!track_) {
      for (size_t at = 0; at < by.size();) unicode::AppendUtf8(Next(by, &at), &out_);
      return;
    }
    const int change = Push(by) - int(unicode::Utf8Count(part));
    // More characters than before: the last ones are new. Fewer: the last one swallows the rest,
    // even where that is a character of an earlier part (the reference does so).
    for (int i = 0; i < change; ++i) changes_[changes_.size() - 1 - i].change = 1;
    if (change < 0 && !changes_.empty()) changes_.back().change += change;
  }
  void Finish(NormalizedText* text) {
    if (!modified_) return;
    if (track_) {
      text->Transform(changes_, 0);
    } else {
      text->text.swap(out_);
    }
  }

 private:
  static char32_t Next(std::string_view text, size_t* at) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + *at, &length);
    *at += static_cast<size_t>(length);
    return c;
  }
  // Returns the number of characters.
  int Push(std::string_view part) {
    const size_t before = changes_.size();
    for (size_t at = 0; at < part.size();) changes_.push_back({Next(part, &at), 0});
    return static_cast<int>(changes_.size() - before);
  }

  const bool track_;
  bool modified_ = false;
  std::vector<unicode::CharChange> changes_;
  std::string out_;
};

}  // namespace

PrecompiledNormalizer::PrecompiledNormalizer(PrecompiledCharsmap map) : map_(std::move(map)) {
  for (size_t c = 0; c < kept_.size(); ++c) {
    const char byte = static_cast<char>(c);
    kept_[c] = c != '\r' && c != '\n' && !map_.Find({&byte, 1});
  }
}

// An ASCII character is a grapheme where the next one is ASCII too, but for CR before LF (UAX #29).
size_t PrecompiledNormalizer::KeptAscii(std::string_view text, size_t at) const {
  const auto kept = [&](size_t i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    return byte < 128 && kept_[byte];
  };
  while (at < text.size() && kept(at)) ++at;
  // The last one may be the base of a mark.
  const bool alone = at == text.size() || static_cast<unsigned char>(text[at]) < 128;
  return alone || at == 0 ? at : at - 1;
}

Status PrecompiledNormalizer::Normalize(NormalizedText* text) const {
  const std::string_view all = text->text;
  if (KeptAscii(all, 0) == all.size()) return text->Bound(all.size());
  Rewrite rewrite(*text);
  size_t made = 0;  // bytes of replacements
  // False: the map has nothing for it.
  const auto replace = [&](std::string_view part) {
    const auto found = map_.Find(part);
    if (!found) return false;
    made += found->size();
    if (made <= text->max_bytes()) rewrite.Replace(part, *found);
    return true;
  };
  size_t polled = 0;
  for (size_t at = 0; at < all.size();) {
    if (made > text->max_bytes()) return text->Bound(made);
    if (at - polled >= kPollBytes) {
      if (!text->work()->Spend(at - polled)) return text->work()->status();
      polled = at;
    }
    if (const size_t kept = KeptAscii(all, at); kept > at) {
      rewrite.Keep(all.substr(at, kept - at));
      at = kept;
      continue;
    }
    const std::string_view grapheme = all.substr(at, unicode::GraphemeLength(all.substr(at)));
    at += grapheme.size();
    if (grapheme.size() < 6 && replace(grapheme)) continue;
    for (size_t i = 0; i < grapheme.size();) {
      const auto first = static_cast<unsigned char>(grapheme[i]);
      const std::string_view c = grapheme.substr(i, unicode::Utf8Length(first));
      if (!replace(c)) rewrite.Keep(c);
      if (made > text->max_bytes()) return text->Bound(made);
      i += c.size();
    }
  }
  rewrite.Finish(text);
  return text->Bound(text->text.size() + made);
}

Status SequenceNormalizer::Normalize(NormalizedText* text) const {
  for (const auto& part : parts_) PENSTOCK_RETURN_IF_ERROR(part->Normalize(text));
  return {};
}

CutRule SequenceNormalizer::AtCut() const {
  CutRule rule = CutRule::kSafe;
  for (const auto& part : parts_) rule = std::min(rule, part->AtCut());
  return rule;
}

}  // namespace penstock::text

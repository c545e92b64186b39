#include "text/cut_points.h"

#include <algorithm>

#include "text/tokenizer_parts.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

// Characters to try out: the scripts that put spaces between words.
constexpr struct {
  char32_t begin, end;
} kScripts[] = {
    {0x21, 0x600},     // Latin, Greek, Cyrillic, Armenian, Hebrew
    {0x620, 0x6D4},    // Arabic
    {0x904, 0x93A},    // Devanagari
    {0xAC00, 0xD7A4},  // Hangul syllables
};

constexpr uint32_t kWordCategories =
    1u << unicode::kCatLu | 1u << unicode::kCatLl | 1u << unicode::kCatLo | 1u << unicode::kCatNd;

bool IsWordCharacter(char32_t c) {
  const uint32_t props = unicode::UnicodeProps(c);
  return (kWordCategories >> (props & unicode::kUniCategoryMask) & 1) != 0 &&
         !(props & unicode::kUniCombining) &&
         unicode::GraphemeBreakOf(props) != unicode::GraphemeBreak::kPrepend;
}

// Unified ideographs, which BertNormalizer sets apart. All are three bytes, with leads E4 to E9.
bool IsHanAt(std::string_view text, size_t at) {
  if (at + 3 > text.size()) return false;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (byte(0) < 0xE4 || byte(0) > 0xE9 || !unicode::IsUtf8Continuation(byte(1)) ||
      !unicode::IsUtf8Continuation(byte(2))) {
    return false;
  }
  int length = 0;
  const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
  return c >= 0x4E00 && c <= 0x9FFF;
}

bool HasHan(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsHanAt(text, i)) return true;
  }
  return false;
}

bool HasSpace(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    if ((unicode::UnicodeProps(c) &
         (unicode::kUniSpace | unicode::kUniRegexSpace | unicode::kUniBertSpace)) ||
        c == 0x2581) {
      return true;
    }
    at += length;
  }
  return false;
}

// Limit of all probes together, in units of Work, and of the text one may become.
constexpr int64_t kMaxProbeWork = int64_t(1) << 26;
constexpr size_t kMaxProbeBytes = 1024;

// Tries a normalizer out on short texts.
class Probe {
 public:
  explicit Probe(const Normalizer* normalizer) : normalizer_(normalizer) {}

  // "" if it fails, too.
  std::string Normalized(std::string_view text) {
    normalized_.Assign(text, 0, uint32_t(text.size()), false, kMaxProbeBytes, &work_);
    if (normalizer_ != nullptr && !normalizer_->Normalize(&normalized_).ok()) return {};
    return normalized_.text;
  }
  // Finds the normalised forms of a word and of the space between words; false if they cannot be
  // told.
  bool FindSpace() {
    word_ = Normalized("a");
    const std::string two = Normalized("a a");
    for (const std::string_view space : {std::string_view(" "), kMetaspace}) {
      space_ = space;
      if (two == word_ + space_ + word_) return true;
    }
    return false;
  }
  const std::string& space() const { return space_; }

  // Whether `c` between spaces is normalised by itself, to a form without spaces.
  bool StaysByItself(char32_t c) {
    std::string alone;
    unicode::AppendUtf8(c, &alone);
    const std::string whole = Normalized("a " + alone + " a");
    alone = Normalized(alone);
    if (alone.empty() || whole != word_ + space_ + alone + space_ + word_) return false;
    return !HasSpace(alone);
  }
  bool spent() const { return !work_.status().ok(); }

 private:
  const Normalizer* normalizer_;
  Work work_{StopCondition(), kMaxProbeWork};
  NormalizedText normalized_;
  std::string word_, space_;
};

// Added tokens that could upset a cut; see the header.
bool UpsetsCuts(const AddedToken& token, const std::vector<bool>& solid) {
  if (token.rstrip) return true;
  for (const std::string& text : {token.content, token.pattern}) {
    int length = 0;
    const char32_t first = unicode::DecodeUtf8(text.data(), &length);
    if (first < solid.size() && solid[first] && IsWordCharacter(first)) return true;
    if (!HasSpace(text)) continue;
    // Runs of spaces are never single ones; anything else with a space could match across.
    const bool only_spaces = text.size() > 1 && text.find_first_not_of(' ') == std::string::npos;
    if (!only_spaces) return true;
  }
  return false;
}

}  // namespace

void CutPoints::Build(const TokenizerParts& parts) {
  const Normalizer* const normalizer = parts.normalizer.get();
  rule_ = CutRule::kUnsafe;
  const CutRule normalizing = normalizer == nullptr ? CutRule::kSafe : normalizer->AtCut();
  if (normalizing == CutRule::kUnsafe || parts.model->can_fail()) return;
  Probe probe(normalizer);
  if (!probe.FindSpace()) return;
  CutRule splitting = CutRule::kSafe;
  for (const auto& pre : parts.pre_tokenizers) {
    splitting = pre->AtCut(probe.space());
    if (splitting != CutRule::kSafe) break;
  }
  if (splitting != CutRule::kSplits) return;

  solid_.assign(kScripts[std::size(kScripts) - 1].end, false);
  for (const auto& script : kScripts) {
    for (char32_t c = script.begin; c < script.end; ++c) {
      if (c >= 0x80 && !IsWordCharacter(c)) continue;
      solid_[c] = c != 0x7F && probe.StaysByItself(c);
      if (probe.spent()) return solid_.clear();
    }
  }
  for (const AddedToken& token : parts.added) {
    if (UpsetsCuts(token, solid_)) return;
  }
  rule_ = normalizing;

  const auto* bert = dynamic_cast<const BertNormalizer*>(normalizer);
  const bool drops_space =
      !parts.pre_tokenizers.empty() &&
      dynamic_cast<const BertPreTokenizer*>(parts.pre_tokenizers.front().get()) != nullptr;
  han_ = bert != nullptr && bert->splits_chinese() && drops_space &&
         std::none_of(parts.added.begin(), parts.added.end(), [](const AddedToken& token) {
           return HasHan(token.content) || HasSpace(token.content) || HasHan(token.pattern) ||
                  HasSpace(token.pattern);
         });
}

bool CutPoints::SpaceCut(std::string_view text, size_t at) const {
  // The character after must be of a word, so that no mark or symbol clings to the space.
  const size_t after = at + 1;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t length = 0, bad = 0;
  unicode::ScanUtf8(text.substr(after, 4), &length, &bad);
  if (length == 0) return false;
  int read = 0;
  const char32_t next = unicode::DecodeUtf8(text.data() + after, &read);
  if (!IsSolid(next) || !IsWordCharacter(next)) return false;
  size_t before = at - 1;
  while (before > 0 && at - before < 4 && unicode::IsUtf8Continuation(bytes[before])) --before;
  if (!IsValidUtf8(text.substr(before, at - before))) return false;
  const char32_t last = unicode::DecodeUtf8(text.data() + before, &read);
  return before + size_t(read) == at && IsSolid(last);
}

size_t CutPoints::Before(std::string_view text, size_t low, size_t high, bool both) const {
  if (rule_ < (both ? CutRule::kSafe : CutRule::kPrefix)) return std::string_view::npos;
  low = std::max<size_t>(low, 1);
  if (text.size() < 2) return std::string_view::npos;
  high = std::min(high, text.size() - 2);
  for (size_t at = high; at >= low; --at) {
    if (text[at] == ' ') {
      if (SpaceCut(text, at)) return at;
    } else if (han_ && at >= 3 && IsHanAt(text, at) && IsHanAt(text, at - 3)) {
      return at;
    }
  }
  return std::string_view::npos;
}

}  // namespace penstock::text

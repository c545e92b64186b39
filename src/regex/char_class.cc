#include <algorithm>

#include "regex/regex.h"
#include "unicode/unicode.h"

namespace penstock::regex {

void CharClass::AddCategories(uint32_t mask, bool negated) {
  categories_ |= negated ? ~mask & 0x3FFFFFFF : mask;
}

void CharClass::AddProperty(uint32_t bits, bool negated) { properties_.push_back({bits, negated}); }

namespace {

constexpr uint32_t kAllCategories = 0x3FFFFFFF;
constexpr char32_t kLastCharacter = 0x10FFFF;

uint32_t CasedCategories() {
  static const uint32_t cased = unicode::UnicodeCategoryMaskByName("Lu") |
                                unicode::UnicodeCategoryMaskByName("Ll") |
                                unicode::UnicodeCategoryMaskByName("Lt");
  return cased;
}

// Whether a character past ASCII in [first, last] has a case.
bool AnyCased(char32_t first, char32_t last) {
  static const std::vector<char32_t> all = [] {
    std::vector<char32_t> found;
    for (char32_t c = 128; c <= kLastCharacter; ++c) {
      if (CasedCategories() >> unicode::UnicodeCategoryOf(c) & 1) found.push_back(c);
    }
    return found;
  }();
  const auto it = std::lower_bound(all.begin(), all.end(), first);
  return it != all.end() && *it <= last;
}

}  // namespace

bool CharClass::FoldCase() {
  const uint32_t cased = CasedCategories();
  if ((categories_ & cased) != 0 && (categories_ & cased) != cased) return false;
  MergeRanges();
  const size_t count = ranges_.size();
  for (size_t i = 0; i < count; ++i) {
    for (char32_t c = ranges_[i].first; c <= std::min<char32_t>(ranges_[i].last, 127); ++c) {
      const char lower = char(c | 0x20);
      if (lower < 'a' || lower > 'z') continue;
      AddRange(lower, lower);
      AddRange(lower ^ 0x20, lower ^ 0x20);
      for (char32_t variant : unicode::CaseVariants(lower)) AddRange(variant, variant);
    }
    const char32_t past_ascii = std::max<char32_t>(ranges_[i].first, 128);
    if (past_ascii <= ranges_[i].last && AnyCased(past_ascii, ranges_[i].last)) return false;
  }
  for (CharClass& nested : nested_) {
    if (!nested.FoldCase()) return false;
  }
  return also_.empty();
}

void CharClass::MergeRanges() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

// Takes a simplified class into this one: its parts where that is the same set.
void CharClass::Absorb(CharClass inner) {
  if (inner.also_.empty() && !inner.negated_) {
    categories_ |= inner.categories_;
    ranges_.insert(ranges_.end(), inner.ranges_.begin(), inner.ranges_.end());
    properties_.insert(properties_.end(), inner.properties_.begin(), inner.properties_.end());
    for (CharClass& nested : inner.nested_) Absorb(std::move(nested));
    return;
  }
  if (inner.also_.empty() && inner.nested_.empty()) {  // and negated
    const bool ranges = !inner.ranges_.empty(), categories = inner.categories_ != 0;
    if (!categories && inner.properties_.empty()) {
      char32_t begin = 0;
      for (const Range& range : inner.ranges_) {
        if (begin < range.first) AddRange(begin, range.first - 1);
        begin = range.last + 1;
      }
      if (begin <= kLastCharacter) AddRange(begin, kLastCharacter);
      return;
    }
    if (!ranges && inner.properties_.empty()) return AddCategories(inner.categories_, true);
    if (!ranges && !categories && inner.properties_.size() == 1) {
      return AddProperty(inner.properties_[0].bits, !inner.properties_[0].negated);
    }
  }
  if (nested_.size() > kMaxParts) return;  // Finish refuses it
  if (std::find(nested_.begin(), nested_.end(), inner) == nested_.end()) {
    nested_.push_back(std::move(inner));
  }
}

void CharClass::Simplify() {
  std::vector<CharClass> nested = std::move(nested_);
  nested_.clear();
  for (CharClass& inner : nested) {
    inner.Simplify();
    Absorb(std::move(inner));
  }
  for (CharClass& also : also_) also.Simplify();
  MergeRanges();
  const auto order = [](const Property& a, const Property& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.negated < b.negated;
  };
  std::sort(properties_.begin(), properties_.end(), order);
  properties_.erase(std::unique(properties_.begin(), properties_.end()), properties_.end());
  const bool only_one = nested_.size() == 1 && ranges_.empty() && categories_ == 0 &&
                        properties_.empty() && also_.empty();
  if (!only_one) return;
  CharClass one = std::move(nested_[0]);
  one.negated_ = one.negated_ != negated_;
  *this = std::move(one);
}

uint32_t CharClass::cost() const {
  uint32_t cost = 1;
  for (const CharClass& nested : nested_) cost += nested.cost();
  for (const CharClass& also : also_) cost += also.cost();
  return cost;
}

bool CharClass::Finish() {
  Simplify();
  if (cost() > kMaxParts) return false;
  ascii_ = {};
  for (char32_t c = 0; c < 128; ++c) {
    if (Slow(c)) ascii_[c >> 6] |= uint64_t(1) << (c & 63);
  }
  beyond_ascii_ = negated_ || categories_ != 0 || !properties_.empty() || !nested_.empty() ||
                  (!ranges_.empty() && ranges_.back().last >= 128);
  return true;
}

bool CharClass::Slow(char32_t c) const {
  const uint32_t props = unicode::UnicodeProps(c);
  bool in = categories_ >> (props & unicode::kUniCategoryMask) & 1;
  for (size_t i = 0; !in && i < properties_.size(); ++i) {
    in = ((props & properties_[i].bits) != 0) != properties_[i].negated;
  }
  if (!in && !ranges_.empty()) {
    const auto it = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                     [](char32_t v, const Range& r) { return v < r.first; });
    in = it != ranges_.begin() && c <= (it - 1)->last;
  }
  for (size_t i = 0; !in && i < nested_.size(); ++i) in = nested_[i].Slow(c);
  for (size_t i = 0; in && i < also_.size(); ++i) in = also_[i].Slow(c);
  return in != negated_;
}

}  // namespace penstock::regex

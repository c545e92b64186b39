#include <algorithm>

#include "text/regex.h"
#include "text/unicode.h"

namespace penstock {

void CharClass::AddCategories(uint32_t mask, bool negated) {
  categories_ |= negated ? ~mask & 0x3FFFFFFF : mask;
}

void CharClass::AddProperty(uint32_t bits, bool negated) { properties_.push_back({bits, negated}); }

bool CharClass::FoldCase() {
  const uint32_t cased = UnicodeCategoryMaskByName("Lu") | UnicodeCategoryMaskByName("Ll") |
                         UnicodeCategoryMaskByName("Lt");
  if ((categories_ & cased) != 0 && (categories_ & cased) != cased) return false;
  const size_t count = ranges_.size();
  for (size_t i = 0; i < count; ++i) {
    for (char32_t c = ranges_[i].first; c <= std::min<char32_t>(ranges_[i].last, 127); ++c) {
      const char lower = char(c | 0x20);
      if (lower < 'a' || lower > 'z') continue;
      AddRange(lower, lower);
      AddRange(lower ^ 0x20, lower ^ 0x20);
      for (char32_t variant : CaseVariants(lower)) AddRange(variant, variant);
    }
    for (char32_t c = std::max<char32_t>(ranges_[i].first, 128); c <= ranges_[i].last; ++c) {
      if (cased >> UnicodeCategoryOf(c) & 1) return false;
    }
  }
  for (CharClass& nested : nested_) {
    if (!nested.FoldCase()) return false;
  }
  return also_.empty();
}

void CharClass::Finish() {
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
  for (CharClass& nested : nested_) nested.Finish();
  for (CharClass& also : also_) also.Finish();
  ascii_ = {};
  for (char32_t c = 0; c < 128; ++c) {
    if (Slow(c)) ascii_[c >> 6] |= uint64_t(1) << (c & 63);
  }
  beyond_ascii_ = negated_ || categories_ != 0 || !properties_.empty() || !nested_.empty() ||
                  (!ranges_.empty() && ranges_.back().last >= 128);
}

bool CharClass::Slow(char32_t c) const {
  const uint32_t props = UnicodeProps(c);
  bool in = categories_ >> (props & kUniCategoryMask) & 1;
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

}  // namespace penstock

#include "unicode/normal_form.h"

#include <algorithm>

#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::unicode {
namespace {

struct ClassedChar {
  char32_t c;
  int32_t change;
  uint8_t combining;
};

bool IsCompatible(NormalForm form) {
  return form == NormalForm::kNfkc || form == NormalForm::kNfkd;
}

// Decomposes and puts each run of combining marks into canonical order.
void Decompose(bool compatible, std::string_view text, std::vector<ClassedChar>* out) {
  const UnicodeTable& table = UnicodePropertyTable();
  const uint32_t changes = compatible ? kUniHasCompatible : kUniHasCanonical;
  size_t run_begin = 0;  // of the marks that are not sorted yet
  bool run_sorted = true;
  const auto sort_run = [&] {
    if (run_sorted) return;
    std::stable_sort(out->begin() + run_begin, out->end(),
                     [](const auto& a, const auto& b) { return a.combining < b.combining; });
    run_sorted = true;
  };
  const auto push = [&](char32_t c, int32_t change) {
    const uint8_t combining = (table.Get(c) & kUniCombining) ? CombiningClass(c) : 0;
    if (combining == 0) {
      sort_run();
      out->push_back({c, change, 0});
      run_begin = out->size();
      return;
    }
    if (out->size() > run_begin && out->back().combining > combining) run_sorted = false;
    out->push_back({c, change, combining});
  };
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = DecodeUtf8(text.data() + at, &length);
    at += length;
    if (!(table.Get(c) & changes)) {
      push(c, 0);
    } else if (IsHangulSyllable(c)) {
      char32_t jamo[3];
      const int count = DecomposeHangul(c, jamo);
      for (int i = 0; i < count; ++i) push(jamo[i], i > 0);
    } else {
      int32_t change = 0;
      for (uint32_t d : compatible ? CompatibleDecomposition(c) : CanonicalDecomposition(c)) {
        push(d, change);
        change = 1;
      }
    }
  }
  sort_run();
}

// Canonical composition. A mark composes with the last starter unless one of the same or a
// higher class stands between them.
void Recompose(const std::vector<ClassedChar>& in, std::vector<CharChange>* out) {
  size_t starter = SIZE_MAX;  // index into *out of the character marks compose with
  int last_class = -1;        // of the last mark kept since the starter; -1: none
  for (const ClassedChar& next : in) {
    if (starter != SIZE_MAX && last_class < int(next.combining)) {
      if (const char32_t composed = ComposePair((*out)[starter].c, next.c)) {
        (*out)[starter].c = composed;
        (*out)[starter].change += next.change - 1;
        continue;
      }
    }
    if (next.combining == 0) {
      starter = out->size();
      last_class = -1;
    } else if (starter != SIZE_MAX) {
      last_class = next.combining;
    }
    out->push_back({next.c, next.change});
  }
}

}  // namespace

bool IsInNormalForm(NormalForm form, std::string_view text) {
  const uint32_t stop = form == NormalForm::kNfc    ? kUniNfcChanges | kUniComposesBack
                        : form == NormalForm::kNfkc ? kUniNfkcChanges | kUniComposesBack
                        : form == NormalForm::kNfd  ? kUniHasCanonical
                                                    : kUniHasCompatible;
  const UnicodeTable& table = UnicodePropertyTable();
  int last_class = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      last_class = 0;
      ++at;
      continue;
    }
    int length = 0;
    const char32_t c = DecodeUtf8(text.data() + at, &length);
    at += length;
    const uint32_t props = table.Get(c);
    if (props & stop) return false;
    if (!(props & kUniCombining)) {
      last_class = 0;
      continue;
    }
    // A mark right at the start of the text would be alone; composing forms treat it so too.
    const int combining = CombiningClass(c);
    if (combining < last_class) return false;
    last_class = combining;
  }
  return true;
}

void ToNormalForm(NormalForm form, std::string_view text, std::vector<CharChange>* out) {
  std::vector<ClassedChar> chars;
  chars.reserve(text.size());
  Decompose(IsCompatible(form), text, &chars);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    Recompose(chars, out);
  } else {
    for (const ClassedChar& c : chars) out->push_back({c.c, c.change});
  }
}

}  // namespace penstock::unicode

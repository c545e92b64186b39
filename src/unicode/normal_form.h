// Unicode normalisation forms (UAX #15) with the character-change counts that alignment needs. The
// counts follow the observable behaviour of Hugging Face `tokenizers`: the first character of a
// decomposition replaces, the others are new; a composed character takes the sum of the counts less
// one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock::unicode {

// One character of the new text. `change`: 0 = replaces the next old character; n > 0 = new,
// shares the alignment of the byte before; -n = replaces one and swallows n more.
struct CharChange {
  char32_t c;
  int32_t change;
};

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// True only if `text` is in the form already (may be false for texts that are).
bool IsInNormalForm(NormalForm form, std::string_view text);

// Appends the normalised characters of `text`.
void ToNormalForm(NormalForm form, std::string_view text, std::vector<CharChange>* out);

}  // namespace penstock::unicode

// Upper and title case as Python's str has them. (Lower case: unicode/lower_case.h.)
#pragma once

#include <string>

namespace penstock::chat {

// Unicode's full mapping: one character may become three.
void AppendUpperCase(char32_t c, std::string* out);
void AppendTitleCase(char32_t c, std::string* out);

// Letters that have a case.
bool IsLowerLetter(char32_t c);
bool IsUpperLetter(char32_t c);
bool IsTitleLetter(char32_t c);

}  // namespace penstock::chat

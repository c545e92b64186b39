// Splits lists of words as written in a flag, a variable or a file.
#pragma once

#include <string>
#include <vector>

namespace penstock {

// Without the blanks at both ends.
std::string Trimmed(const std::string& text);

// The items of a list in a variable: a line each where there is a line break, else separated by
// commas. Blanks around items and empty lines are dropped; items between commas may come out empty.
std::vector<std::string> SplitList(const std::string& text);

}  // namespace penstock

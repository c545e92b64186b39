// Text for a terminal that breaks between words, while it streams: a word is shown as it comes, and
// taken back to the next line where it does not fit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::cli {

class WordWrap {
 public:
  // `columns`: of the terminal; below kColumnsMin nothing is broken.
  static constexpr size_t kColumnsMin = 20;
  explicit WordWrap(size_t columns) : columns_(columns) {}

  // What to write for `text`: UTF-8, whole characters, no controls but line breaks and tabs. Lines
  // between ``` stay as they are.
  std::string Add(std::string_view text);
  // Another text begins at the left edge.
  void Restart() { *this = WordWrap(columns_); }

 private:
  void AddCharacter(std::string_view character, size_t cells, std::string* out);
  void EndLine();

  size_t columns_;
  size_t column_ = 0;  // of the cursor
  std::string word_;   // that has not ended, as far as it is on this line
  size_t word_cells_ = 0;
  bool broken_ = false;      // the word goes over lines: it is longer than one
  std::string line_begins_;  // the first characters of the text's line
  bool code_ = false;        // between ```
};

}  // namespace penstock::cli

#include "word_wrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace penstock::cli {
namespace {

constexpr std::string_view kFence = "```";
constexpr size_t kTab = 8;

// First and last of characters that take two cells; a line may be broken behind each.
constexpr std::array<std::pair<uint32_t, uint32_t>, 9> kWide = {{{0x1100, 0x115f},
                                                                 {0x2e80, 0xa4cf},
                                                                 {0xac00, 0xd7a3},
                                                                 {0xf900, 0xfaff},
                                                                 {0xfe30, 0xfe6f},
                                                                 {0xff00, 0xff60},
                                                                 {0xffe0, 0xffe6},
                                                                 {0x1f300, 0x1faff},
                                                                 {0x20000, 0x3fffd}}};

size_t BytesOf(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

size_t CellsOf(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return 1;
  uint32_t code = first & (0xffu >> (character.size() + 1));
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 63);
  if ((code >= 0x300 && code <= 0x36f) || (code >= 0xfe00 && code <= 0xfe0f) || code == 0x200d) {
    return 0;  // goes with the character before
  }
  const bool wide = std::any_of(kWide.begin(), kWide.end(), [&](const auto& range) {
    return code >= range.first && code <= range.second;
  });
  return wide ? 2 : 1;
}

}  // namespace

void WordWrap::EndLine() {
  if (line_begins_ == kFence) code_ = !code_;
  line_begins_.clear();
  column_ = word_cells_ = 0;
  word_.clear();
  broken_ = false;
}

void WordWrap::AddCharacter(std::string_view character, size_t cells, std::string* out) {
  // The last column stays free: at it terminals differ in where the cursor is.
  const size_t room = columns_ - 1;
  if (column_ + cells > room && !code_ && !broken_) {
    if (character == " ") {  // not shown at a break, and what follows goes over
      word_.clear();
      word_cells_ = 0;
      return;
    }
    if (word_cells_ == column_) {  // no other word is on the line
      broken_ = true;
    } else {
      if (word_cells_ > 0) *out += fmt::format("\x1b[{}D\x1b[K", word_cells_);
      *out += '\n' + word_;
      column_ = word_cells_;
    }
  }
  *out += character;
  column_ += cells;
  if (broken_ || code_) column_ %= columns_;  // as the terminal breaks it
  if (character == " ") {
    word_.clear();
    word_cells_ = 0;
    broken_ = false;
  } else if (cells == 2) {
    word_.clear();
    word_cells_ = 0;
  } else {
    word_ += character;
    word_cells_ += cells;
  }
}

std::string WordWrap::Add(std::string_view text) {
  if (columns_ < kColumnsMin) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t size = std::min(BytesOf(text[0]), text.size());
    const std::string_view character = text.substr(0, size);
    text.remove_prefix(size);
    if (character == "\n") {
      EndLine();
      out += '\n';
      continue;
    }
    if (line_begins_.size() < kFence.size()) line_begins_ += character;
    if (character == "\t") {
      const size_t blanks = kTab - column_ % kTab;
      for (size_t i = 0; i < blanks; ++i) AddCharacter(" ", 1, &out);
      continue;
    }
    AddCharacter(character, CellsOf(character), &out);
  }
  return out;
}

}  // namespace penstock::cli

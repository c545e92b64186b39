// Records of CSV and TSV as cells (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::corpus {

// The first line of `text`, without its end.
std::string_view FirstLine(std::string_view text);

// The delimiter of CSV whose first line is `header`: ',', or where it has none outside of quotes
// ';' or a tab.
char DelimiterOf(std::string_view header);

// Cells of one record, without its end, quotes taken off; at least one. A quote inside of a bare
// cell is literal. kInvalidArgument: text behind a closing quote, or a quote that is not closed.
Status ParseCells(std::string_view record, char delimiter, std::vector<std::string>* cells);

}  // namespace penstock::corpus

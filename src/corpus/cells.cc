#include "corpus/cells.h"

#include <fmt/format.h>

namespace penstock::corpus {

using std::string_view;

char DelimiterOf(string_view header) {
  bool quoted = false;
  char found = '\0';
  for (const char c : header) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',') return c;
    if ((c == ';' || c == '\t') && found != ';') found = c;
  }
  return found == '\0' ? ',' : found;
}

string_view FirstLine(string_view text) {
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

Status ParseCells(string_view record, char delimiter, std::vector<std::string>* cells) {
  cells->clear();
  size_t i = 0;
  while (true) {
    std::string& cell = cells->emplace_back();
    if (i < record.size() && record[i] == '"') {
      ++i;
      while (true) {
        const size_t quote = record.find('"', i);
        if (quote == string_view::npos) {
          return Status::InvalidArgument("a quote is not closed");
        }
        cell.append(record.substr(i, quote - i));
        i = quote + 1;
        if (i >= record.size() || record[i] != '"') break;
        cell.push_back('"');
        ++i;
      }
      if (i < record.size() && record[i] != delimiter) {
        return Status::InvalidArgument(fmt::format(
            "cell {}: its closing quote is followed by more text; a quote inside of a quoted cell "
            "is written twice",
            cells->size()));
      }
    } else {
      const size_t end = record.find(delimiter, i);
      cell.append(record.substr(i, end == string_view::npos ? end : end - i));
      i = end == string_view::npos ? record.size() : end;
    }
    if (i >= record.size()) return Status::Ok();
    ++i;  // the delimiter
    if (i == record.size()) {
      cells->emplace_back();
      return Status::Ok();
    }
  }
}

}  // namespace penstock::corpus

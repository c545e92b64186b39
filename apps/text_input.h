// The rows of corpus/row_reader.h under the names by which embed reads them.
#pragma once

#include <string>
#include <vector>

#include "corpus/row_reader.h"

namespace penstock {

class LineReader : public RowReader {
 public:
  using Line = Row;
  LineReader(std::vector<std::string> files, InputOptions options)
      : RowReader(std::move(files), std::move(options)) {}
  LineReader(std::vector<std::string> files, InputFormat format)
      : RowReader(std::move(files), {.format = format}) {}
};

template <typename Take>
Status ForEachLine(RowReader* reader, Take take) {
  return ForEachRow(reader, std::move(take));
}

// The text of a row, or why it has none. The reader has chosen its fields; `keys` says nothing.
inline Expected<std::string> TextOfLine(const Row& row, const std::vector<std::string>& = {}) {
  if (!row.status.ok()) return row.status;
  return row.text;
}

}  // namespace penstock

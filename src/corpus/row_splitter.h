// Cuts a text into rows, as they are written: lines, records of CSV, elements of a JSON array.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "corpus/utf8_stream.h"

namespace penstock::corpus {

struct RawRow {
  std::string text;     // without the line's end or separators of elements
  uint64_t offset = 0;  // of its first byte in the text
  uint64_t number = 0;  // of its first line, from 1; of an array's element from 0
  Status status;        // not OK: this row alone is broken; `text` is empty
};

class RowSplitter {
 public:
  virtual ~RowSplitter() = default;
  // False: there are no more. A failure ends the file; its message names no file.
  virtual Expected<bool> Next(RawRow* row) = 0;
};

// `bytes_max`: of a row. kPayloadTooLarge beyond: for a line or a record outside of quotes as the
// row's status, and the next row begins behind its end; else as a failure. Memory holds one row.
//
// Lines end with \n or \r\n.
std::unique_ptr<RowSplitter> SplitLines(Utf8Stream* stream, size_t bytes_max);
// Lines, in which quoted cells may go over several. A record that is a blank line is left out. A
// quote that is not closed ends the file.
std::unique_ptr<RowSplitter> SplitRecords(Utf8Stream* stream, size_t bytes_max, char delimiter);
// Elements are strings, numbers, objects and so on; they are not parsed but for where they end.
std::unique_ptr<RowSplitter> SplitArray(Utf8Stream* stream, size_t bytes_max);

}  // namespace penstock::corpus

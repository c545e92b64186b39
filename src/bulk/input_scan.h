// A look at the input before the work begins: how much there is, and whether it can be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "corpus/row_reader.h"

namespace penstock::bulk {

struct InputScan {
  // Time limit of a scan; longer inputs are known in part.
  static constexpr std::chrono::milliseconds kLongest{2000};

  bool known = false;      // false: an input is not a file (a pipe, standard input); the rest is 0
  bool whole = false;      // everything was read; else the counts are of the part that was
  int64_t rows = 0;        // bad ones, too
  int64_t text_bytes = 0;  // of the texts
  double part = 0;         // the share that was read, by bytes on the disk

  // Rows of the whole input: exact if `whole`; 0 = unknown.
  int64_t RowsExpected() const;
  int64_t TextBytesExpected() const;
};

// Reads the input as RowReader does, for `longest` at most. A bad row is a failure, unless
// `keeps_bad`; so is a failure of RowReader::Next.
Expected<InputScan> ScanInput(const std::vector<corpus::FileSlice>& input,
                              const corpus::InputOptions& options, bool keeps_bad,
                              std::chrono::milliseconds longest = InputScan::kLongest);

}  // namespace penstock::bulk

#include "bulk/input_scan.h"

#include <algorithm>

#include "threads/request_context.h"

namespace penstock::bulk {
namespace {

int64_t OfWhole(int64_t count, double part) {
  return part > 0 ? static_cast<int64_t>(static_cast<double>(count) / part) : 0;
}

}  // namespace

int64_t InputScan::RowsExpected() const { return whole ? rows : OfWhole(rows, part); }
int64_t InputScan::TextBytesExpected() const {
  return whole ? text_bytes : OfWhole(text_bytes, part);
}

Expected<InputScan> ScanInput(const std::vector<corpus::FileSlice>& input,
                              const corpus::InputOptions& options, bool keeps_bad,
                              std::chrono::milliseconds longest) {
  InputScan scan;
  corpus::RowReader reader(input, options);
  const auto total = reader.disk_bytes_total();
  // Rows read from standard input are gone, even where it is a file.
  const bool stdin_is_read = std::any_of(
      input.begin(), input.end(), [](const corpus::FileSlice& slice) { return slice.file == "-"; });
  if (!total || stdin_is_read) return scan;
  scan.known = true;
  const Clock::time_point end = Clock::now() + longest;
  while (scan.rows == 0 || Clock::now() < end) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto row, reader.Next());
    if (!row) {
      scan.whole = true;
      scan.part = 1;
      return scan;
    }
    if (!row->status.ok() && !keeps_bad) return row->status;
    ++scan.rows;
    scan.text_bytes += static_cast<int64_t>(row->text.size());
  }
  const auto bytes = static_cast<double>(reader.disk_bytes());
  scan.part = std::min(1.0, bytes / static_cast<double>(std::max<int64_t>(*total, 1)));
  return scan;
}

}  // namespace penstock::bulk

#include "corpus/row_reader.h"

#include <sys/stat.h>

#include <charconv>
#include <utility>

namespace penstock::corpus {

std::string Row::Reason() const {
  const std::string& message = status.message();
  return message.starts_with(where + ": ") ? message.substr(where.size() + 2) : message;
}

RowPlace PlaceOf(std::string_view where) {
  RowPlace place;
  // Digits alone follow the mark.
  const size_t mark = where.find_last_of(where.ends_with(']') ? "[" : ":@");
  PENSTOCK_CHECK(mark != std::string_view::npos);
  place.unit = where[mark] == '[' ? "element" : where[mark] == ':' ? "line" : "byte";
  place.file = where.substr(0, mark);
  std::from_chars(where.data() + mark + 1, where.data() + where.size(), place.number);
  return place;
}

std::vector<FileSlice> WholeFiles(const std::vector<std::string>& files) {
  std::vector<FileSlice> slices;
  for (const std::string& file : files) slices.push_back({.file = file});
  if (slices.empty()) slices.push_back({.file = "-"});
  return slices;
}

RowReader::RowReader(std::vector<FileSlice> slices, InputOptions options)
    : slices_(std::move(slices)), options_(std::move(options)) {}

Expected<std::optional<Row>> RowReader::Next() {
  if (!failure_.ok()) return failure_;
  auto row = NextOfFiles();
  if (!row.ok()) failure_ = row.status();
  return row;
}

Expected<std::optional<Row>> RowReader::NextOfFiles() {
  while (true) {
    if (rows_ == nullptr) {
      if (next_slice_ == slices_.size()) return std::optional<Row>();
      PENSTOCK_ASSIGN_OR_RETURN(rows_, FileRows::Open(slices_[next_slice_++], options_));
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto row, rows_->Next());
    if (row) return row;
    bytes_before_ += rows_->disk_bytes();
    rows_.reset();
  }
}

Status RowReader::Check() const {
  for (const FileSlice& slice : slices_) {
    struct stat facts {};
    if (slice.file == "-") continue;
    if (stat(slice.file.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) &&
        !S_ISDIR(facts.st_mode)) {
      continue;
    }
    if (auto opened = FileRows::Open(slice, options_); !opened.ok()) return opened.status();
  }
  return Status::Ok();
}

int64_t RowReader::disk_bytes() const {
  return bytes_before_ + (rows_ == nullptr ? 0 : rows_->disk_bytes());
}

std::optional<int64_t> RowReader::disk_bytes_total() const {
  int64_t bytes = 0;
  for (const FileSlice& slice : slices_) {
    struct stat facts {};
    const bool known =
        slice.file == "-" ? fstat(0, &facts) == 0 : stat(slice.file.c_str(), &facts) == 0;
    if (!known || !S_ISREG(facts.st_mode)) return std::nullopt;
    bytes += slice.end.value_or(facts.st_size) - slice.begin;
  }
  return bytes;
}

}  // namespace penstock::corpus

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
  place.element = where.ends_with(']');
  const size_t mark = where.rfind(place.element ? '[' : ':');
  PENSTOCK_CHECK(mark != std::string_view::npos);
  place.file = where.substr(0, mark);
  std::from_chars(where.data() + mark + 1, where.data() + where.size(), place.number);
  return place;
}

RowReader::RowReader(std::vector<std::string> files, InputOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  if (files_.empty()) files_.push_back("-");
}

Expected<std::unique_ptr<FileRows>> RowReader::OpenNamed(const std::string& file) const {
  const std::string name = file == "-" ? "stdin" : file;
  auto source = OpenFile(file, options_.stop_fd);
  if (!source.ok()) return source.status().Annotate(name);
  return FileRows::Open(*std::move(source), name, options_);
}

Expected<std::optional<Row>> RowReader::Next() {
  if (!failure_.ok()) return failure_;
  auto row = NextOfFiles();
  if (!row.ok()) failure_ = row.status();
  return row;
}

Expected<std::optional<Row>> RowReader::NextOfFiles() {
  while (true) {
    if (rows_ == nullptr) {
      if (next_file_ == files_.size()) return std::optional<Row>();
      PENSTOCK_ASSIGN_OR_RETURN(rows_, OpenNamed(files_[next_file_++]));
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto row, rows_->Next());
    if (row) return std::move(row);
    bytes_before_ += rows_->disk_bytes();
    rows_.reset();
  }
}

Status RowReader::Check() const {
  for (const std::string& file : files_) {
    struct stat facts {};
    if (file == "-") continue;
    if (stat(file.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
      continue;
    }
    if (auto opened = OpenNamed(file); !opened.ok()) return opened.status();
  }
  return Status::Ok();
}

int64_t RowReader::disk_bytes() const {
  return bytes_before_ + (rows_ == nullptr ? 0 : rows_->disk_bytes());
}

std::optional<int64_t> RowReader::disk_bytes_total() const {
  int64_t bytes = 0;
  for (const std::string& file : files_) {
    struct stat facts {};
    const bool known = file == "-" ? fstat(0, &facts) == 0 : stat(file.c_str(), &facts) == 0;
    if (!known || !S_ISREG(facts.st_mode)) return std::nullopt;
    bytes += facts.st_size;
  }
  return bytes;
}

}  // namespace penstock::corpus

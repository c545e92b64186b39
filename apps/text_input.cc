#include "text_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace penstock {

LineReader::LineReader(std::vector<std::string> files, InputFormat format)
    : files_(std::move(files)), format_(format) {
  if (files_.empty()) files_.push_back("-");
}

LineReader::~LineReader() {
  if (file_ != nullptr && file_ != stdin) std::fclose(file_);
}

Status LineReader::Open() {
  name_ = files_[next_file_++];
  line_number_ = 0;
  if (name_ == "-") {
    name_ = "stdin";
    file_ = stdin;
  } else {
    file_ = std::fopen(name_.c_str(), "re");
    if (file_ == nullptr) return Status::NotFound(fmt::format("{}: {}", name_, strerror(errno)));
  }
  json_ =
      format_ == InputFormat::kJsonl ||
      (format_ == InputFormat::kAuto && (name_.ends_with(".jsonl") || name_.ends_with(".ndjson")));
  return Status::Ok();
}

// False at the end of the file, or on failure.
bool LineReader::ReadLine(std::string* line, Status* status) {
  line->clear();
  int c = 0;
  flockfile(file_);
  while ((c = getc_unlocked(file_)) != EOF && c != '\n' && line->size() <= kLineBytesMax) {
    line->push_back(static_cast<char>(c));
  }
  funlockfile(file_);
  if (line->size() > kLineBytesMax) {
    *status = Status(
        StatusCode::kPayloadTooLarge,
        fmt::format("{}:{}: the line is over {} bytes", name_, line_number_ + 1, kLineBytesMax));
    return false;
  }
  if (c == EOF && std::ferror(file_)) {
    *status = Status(StatusCode::kUnavailable, fmt::format("{}: {}", name_, strerror(errno)));
    return false;
  }
  if (c == EOF && line->empty()) return false;
  if (line->ends_with('\r')) line->pop_back();
  ++line_number_;
  return true;
}

Expected<std::optional<LineReader::Line>> LineReader::Next() {
  Line line;
  while (true) {
    if (file_ == nullptr) {
      if (next_file_ == files_.size()) return std::optional<Line>();
      PENSTOCK_RETURN_IF_ERROR(Open());
    }
    Status status;
    if (!ReadLine(&line.text, &status)) {
      PENSTOCK_RETURN_IF_ERROR(status);
      if (file_ != stdin) std::fclose(file_);
      file_ = nullptr;
      continue;
    }
    if (line_number_ == 1) {
      if (line.text.starts_with("\xEF\xBB\xBF")) line.text.erase(0, 3);  // byte order mark
      const size_t first = line.text.find_first_not_of(" \t");
      if (format_ == InputFormat::kAuto && first != std::string::npos &&
          (line.text[first] == '{' || line.text[first] == '"')) {
        // A text may begin with a quote, too: only what is JSON is taken as JSON.
        json_ = json_ || JsonDocument::Parse(line.text).ok();
      }
    }
    if (json_ && line.text.find_first_not_of(" \t") == std::string::npos) continue;
    line.json = json_;
    line.where = fmt::format("{}:{}", name_, line_number_);
    return std::optional<Line>(std::move(line));
  }
}

Expected<std::string> TextOfLine(const LineReader::Line& line,
                                 const std::vector<std::string>& keys) {
  if (!line.json) return line.text;
  auto document = JsonDocument::Parse(line.text);
  if (!document.ok()) return document.status().Annotate(line.where);
  std::string_view text;
  if (document->root().get_string().get(text) == simdjson::SUCCESS) return std::string(text);
  auto object = document->Object();
  if (!object.ok()) return object.status().Annotate(line.where);
  for (const std::string& key : keys) {
    if (!object->Has(key)) continue;
    auto value = object->GetString(key);
    if (!value.ok()) return value.status().Annotate(line.where);
    return value;
  }
  return Status::InvalidArgument(
      fmt::format("{}: the object has no field \"{}\"", line.where, keys.front()));
}

}  // namespace penstock

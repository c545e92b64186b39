// Reads the inputs of a command, one at a time: lines of text or of JSON, from files one after the
// other or from stdin. Memory is bounded by the longest line.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/status.h"

namespace penstock {

enum class InputFormat {
  kAuto,   // kJsonl for names ending in .jsonl or .ndjson and where the first line starts with
           // '{' or '"'; else kText
  kText,   // a line is a text
  kJsonl,  // a line is a JSON string or object
};

class LineReader {
 public:
  static constexpr size_t kLineBytesMax = 64 << 20;

  // No files, or "-": stdin.
  LineReader(std::vector<std::string> files, InputFormat format);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  struct Line {
    std::string text;   // without its end (\n or \r\n)
    bool json = false;  // to be parsed
    std::string where;  // "file.txt:12", for messages
  };
  // The next line; nothing at the end. Empty lines of JSON are skipped; an empty text line is an
  // empty text.
  Expected<std::optional<Line>> Next();

 private:
  Status Open();
  bool ReadLine(std::string* line, Status* status);

  std::vector<std::string> files_;
  InputFormat format_;
  size_t next_file_ = 0;
  std::FILE* file_ = nullptr;
  std::string name_;
  size_t line_number_ = 0;
  bool json_ = false;
};

// Hands every line to `take`, Status(const LineReader::Line&), until one fails.
template <typename Take>
Status ForEachLine(LineReader* reader, Take take) {
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto line, reader->Next());
    if (!line) return Status::Ok();
    PENSTOCK_RETURN_IF_ERROR(take(*line));
  }
}

// The text of a line: itself, or of JSON the string, or the first of `keys` an object has.
Expected<std::string> TextOfLine(const LineReader::Line& line,
                                 const std::vector<std::string>& keys);

}  // namespace penstock

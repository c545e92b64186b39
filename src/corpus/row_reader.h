// The inputs of a command, one at a time: rows of text from files, one file after the other, or
// from standard input.
//
// A file holds lines of text, JSON strings or objects a line, an array of these, or a table with a
// header (corpus/input_format.h tells which it is); it may be packed by gzip or zstd
// (corpus/byte_source.h) and have another encoding than UTF-8. Nothing is guessed: a file of
// another form is refused, and so is a row that is not UTF-8, not JSON, or has not the fields asked
// for.
//
// Memory is bounded by the longest row, at most kRowBytesMax, which is held a few times over while
// it is parsed. A reader is of one thread.
//
//   FileRows    one file: unpacked, recognised, cut into raw rows, each made a Row
//   RowReader   the files one after the other
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "corpus/byte_source.h"
#include "corpus/input_format.h"
#include "corpus/text_encoding.h"

namespace penstock::corpus {

inline constexpr size_t kRowBytesMax = 64 << 20;
// The field of an object, or the column of a table, that is the text: the first that is there.
inline constexpr std::string_view kDefaultTextFields[] = {"text", "input", "content"};

struct InputOptions {
  InputFormat format = InputFormat::kAuto;
  TextEncoding encoding = TextEncoding::kUtf8;
  // Fields that make the text, put together by `join`; empty: one of kDefaultTextFields. Among
  // several, those that are absent, null or empty are left out, but one must be there; every column
  // must exist.
  std::vector<std::string> text_fields;
  std::string join = " ";
  std::string id_field;        // a string or an integer; "" = none
  bool needs_text = true;      // false: rows are objects in which no text is looked for
  bool keeps_objects = false;  // fills Row::object
  size_t row_bytes_max = kRowBytesMax;
  int stop_fd = -1;  // readable: Next gives kCancelled; -1 = none
};

struct Row {
  std::string text;
  std::optional<std::string> id;
  std::string object;  // the JSON object that the row is; of a table its columns as strings
  // "file.txt:12", of an array's element "file.json[11]", of a slice that begins inside of its file
  // the byte "file.txt@1200"; for messages.
  std::string where;
  // Not OK: this row alone is bad, and the message begins with `where`. `id` is there where it
  // could be read, the rest is empty.
  Status status;

  // The error of a bad row, without `where`.
  std::string Reason() const;
};

// The parts of Row::where.
struct RowPlace {
  std::string file;
  int64_t number = 0;     // the line, from 1; an array's element or a byte, from 0
  std::string_view unit;  // "line", "element" or "byte"
};
RowPlace PlaceOf(std::string_view where);

// A file, or the part of one that begins and ends between two lines.
struct FileSlice {
  std::string file;            // "-": standard input
  int64_t begin = 0;           // its first byte
  std::optional<int64_t> end;  // the byte behind its last; nullopt: the end of the file
  InputFormat format = InputFormat::kAuto;  // known where begin > 0: kText or kJsonl
};

// No files: standard input.
std::vector<FileSlice> WholeFiles(const std::vector<std::string>& files);

// One file.
class FileRows {
 public:
  // Opens the file, or the part of it, as below.
  static Expected<std::unique_ptr<FileRows>> Open(const FileSlice& slice,
                                                  const InputOptions& options);
  // Reads the head of the file. `name` stands in front of messages. kUnsupported: a form that is
  // not read; kInvalidArgument: packed data that are damaged, fields asked for of plain lines, a
  // table without a column asked for.
  static Expected<std::unique_ptr<FileRows>> Open(std::unique_ptr<ByteSource> source,
                                                  std::string name, const InputOptions& options);
  ~FileRows();
  FileRows(const FileRows&) = delete;
  FileRows& operator=(const FileRows&) = delete;

  // As RowReader::Next.
  Expected<std::optional<Row>> Next();
  // Never kAuto.
  InputFormat format() const;
  // Bytes read so far of the file as it is on the disk.
  int64_t disk_bytes() const;

 private:
  class Impl;
  static Expected<std::unique_ptr<FileRows>> Started(std::unique_ptr<Impl> impl);
  explicit FileRows(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class RowReader {
 public:
  // No files, or "-": standard input.
  RowReader(const std::vector<std::string>& files, InputOptions options)
      : RowReader(WholeFiles(files), std::move(options)) {}
  RowReader(std::vector<FileSlice> slices, InputOptions options);

  // The next row; nothing at the end. A row whose `status` is not OK can be left out: Next goes on
  // behind it. A failure of Next itself ends the input, and is given again if Next is called again.
  // Blank lines of JSONL and of tables are not rows; in text they are empty texts.
  Expected<std::optional<Row>> Next();

  // Opens every regular file and looks at its head, so that unreadable files are reported before
  // work begins. To be called before Next or not at all; reads nothing of standard input or pipes.
  Status Check() const;

  // Bytes of the files as they lie on the disk, read so far: some blocks more than the rows given.
  int64_t disk_bytes() const;
  // Bytes of all files; nullopt if one is not a regular file.
  std::optional<int64_t> disk_bytes_total() const;

 private:
  Expected<std::optional<Row>> NextOfFiles();

  std::vector<FileSlice> slices_;
  InputOptions options_;
  size_t next_slice_ = 0;
  std::unique_ptr<FileRows> rows_;  // of slices_[next_slice_ - 1]
  int64_t bytes_before_ = 0;        // of the files that are done
  Status failure_;
};

// Hands every row to `take`, Status(const Row&), until one fails. `take` looks at Row::status.
template <typename Take>
Status ForEachRow(RowReader* reader, Take take) {
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto row, reader->Next());
    if (!row) return Status::Ok();
    PENSTOCK_RETURN_IF_ERROR(take(*row));
  }
}

}  // namespace penstock::corpus

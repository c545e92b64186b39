// OutputFile: stdout, or a file that replaces an older one only when it is whole.
//
//   PATH.part  --Close-->  PATH
//
// PATH.part is locked while it is written, so two commands cannot mix their output. Without Close
// it is removed, unless Keep was called: then Resume goes on with it. Failures of writing are kept
// and reported by status() and Close.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock {

class OutputFile {
 public:
  // "" or "-": stdout. A path that exists and is not a regular file (a pipe, /dev/null) is written
  // in place.
  static Expected<OutputFile> Open(const std::string& path);
  // Goes on with PATH.part, which must have at least `bytes` bytes; what follows them is cut off.
  static Expected<OutputFile> Resume(const std::string& path, int64_t bytes);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void Write(std::string_view bytes);
  // Moves to a place in the file, for headers written last.
  void Seek(int64_t offset);
  // Where in the file the next bytes go.
  int64_t written() const { return written_; }
  // kUnavailable, with the file and the reason, once something could not be written.
  Status status() const;
  // Everything written so far is on the disk when it returns, where there is one.
  Status Sync();
  // Leaves PATH.part for Resume where Close is not reached.
  void Keep() { keep_ = true; }
  // After Sync puts PATH.part in the place of PATH. No more calls.
  Status Close();
  // Close where `done` is OK. Else returns `done`, adding that PATH.part holds the output so far.
  Status CloseAfter(Status done);

  // Whether it is a regular file, which Resume can go on with.
  bool HasPart() const { return !part_.empty(); }

 private:
  OutputFile(std::FILE* file, std::string path, std::string part)
      : file_(file), path_(std::move(path)), part_(std::move(part)) {}
  static Expected<OutputFile> OpenPart(const std::string& path, bool fresh);
  void Failed();

  std::FILE* file_;  // null: closed
  std::string path_;
  std::string part_;  // "": written in place
  int64_t written_ = 0;
  int error_ = 0;  // errno of the first failure
  bool keep_ = false;
};

// The file that a chain of links ends at, so that the link stays when the file is replaced.
std::string WithoutLinks(const std::string& path);
// The folder of `path`, "." for a bare name.
std::string FolderOf(const std::string& path);
// Writes a small file so that it is either the old one or the new one, whatever happens meanwhile.
Status ReplaceFile(const std::string& path, std::string_view bytes);

}  // namespace penstock

// Where a command writes: stdout or a file. Failures are kept and told at the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace penstock {

class OutputFile {
 public:
  // "" or "-": stdout.
  static Expected<OutputFile> Open(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void Write(std::string_view bytes);
  bool failed() const { return failed_; }
  // Moves to a place in the file, for headers written last.
  void Seek(int64_t offset);
  // Flushes and closes; kUnavailable if any write failed.
  Status Close();

 private:
  explicit OutputFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  std::FILE* file_;
  std::string path_;
  bool failed_ = false;
};

// A .npy file of float32 rows [rows, width] that is written as the rows come; the header, which
// holds their number, is written last. Format: numpy.lib.format, version 1.0.
class NpyWriter {
 public:
  static constexpr size_t kHeaderBytes = 128;

  explicit NpyWriter(OutputFile* file) : file_(file) {}
  void Append(std::span<const float> rows, int64_t width);
  // Writes the header; `width` counts if there was no row.
  void Finish(int64_t width);

 private:
  OutputFile* file_;
  int64_t rows_ = 0;
  int64_t width_ = 0;
};

std::string NpyHeader(int64_t rows, int64_t width);

}  // namespace penstock

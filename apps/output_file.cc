#include "output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace penstock {

Expected<OutputFile> OutputFile::Open(const std::string& path) {
  if (path.empty() || path == "-") return OutputFile(stdout, "stdout");
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    return Status::InvalidArgument(fmt::format("--output {}: {}", path, strerror(errno)), "output");
  }
  return OutputFile(file, path);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      failed_(other.failed_) {}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void OutputFile::Write(std::string_view bytes) {
  failed_ = failed_ || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size();
}

void OutputFile::Seek(int64_t offset) { failed_ = failed_ || fseeko(file_, offset, SEEK_SET) != 0; }

Status OutputFile::Close() {
  failed_ = std::fflush(file_) != 0 || failed_;
  const int error = errno;
  if (file_ != stdout) failed_ = std::fclose(file_) != 0 || failed_;
  file_ = nullptr;
  if (!failed_) return Status::Ok();
  return {StatusCode::kUnavailable, fmt::format("cannot write {}: {}", path_, strerror(error))};
}

std::string NpyHeader(int64_t rows, int64_t width) {
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, width);
  const size_t prefix = 10;  // magic, version, length
  text.resize(NpyWriter::kHeaderBytes - prefix - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void NpyWriter::Append(std::span<const float> rows, int64_t width) {
  if (rows.empty()) return;
  if (width_ == 0) file_->Write(NpyHeader(0, width));
  width_ = width;
  rows_ += static_cast<int64_t>(rows.size()) / width;
  file_->Write({reinterpret_cast<const char*>(rows.data()), rows.size_bytes()});
}

void NpyWriter::Finish(int64_t width) {
  if (width_ != 0) file_->Seek(0);
  file_->Write(NpyHeader(rows_, width_ != 0 ? width_ : width));
}

}  // namespace penstock

#include "hub/partial_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>

namespace penstock::hub {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "penstck1";
constexpr size_t kMagicBytes = 8;
constexpr size_t kHeadBytes = kMagicBytes + 2 * sizeof(uint64_t);

std::string StatePath(const std::string& path) { return path + ".state"; }

Status CannotWrite(const std::string& path) {
  return Status::Internal("cannot write " + path + ": " + std::strerror(errno));
}

bool WriteAll(int fd, const char* data, size_t size, uint64_t at) {
  while (size > 0) {
    const ssize_t now = ::pwrite(fd, data, size, static_cast<off_t>(at));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return false;
    if (now == 0) {
      errno = ENOSPC;
      return false;
    }
    data += now;
    size -= static_cast<size_t>(now);
    at += static_cast<uint64_t>(now);
  }
  return true;
}

bool ReadAll(int fd, char* data, size_t size, uint64_t at) {
  while (size > 0) {
    const ssize_t now = ::pread(fd, data, size, static_cast<off_t>(at));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    data += now;
    size -= static_cast<size_t>(now);
    at += static_cast<uint64_t>(now);
  }
  return true;
}

FileDescriptor OpenToWrite(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

}  // namespace

Expected<PartialFile> PartialFile::Open(const std::string& path, uint64_t bytes,
                                        uint64_t segment_bytes) {
  PENSTOCK_CHECK(bytes > 0 && segment_bytes > 0 && (bytes - 1) / segment_bytes < kSegmentsMax);
  PartialFile file(path, bytes);
  file.data_ = OpenToWrite(path);
  file.state_ = OpenToWrite(StatePath(path));
  if (file.data_.get() < 0) return CannotWrite(path);
  if (file.state_.get() < 0) return CannotWrite(StatePath(path));
  if (!file.ReadState()) PENSTOCK_RETURN_IF_ERROR(file.Begin(segment_bytes, 0));
  return file;
}

// Whether the note is one for this file and says nothing that the data contradict.
bool PartialFile::ReadState() {
  std::array<char, kHeadBytes> head{};
  uint64_t bytes = 0;
  if (!ReadAll(state_.get(), head.data(), head.size(), 0)) return false;
  if (std::memcmp(head.data(), kMagic, kMagicBytes) != 0) return false;
  std::memcpy(&bytes, head.data() + kMagicBytes, sizeof bytes);
  std::memcpy(&segment_bytes_, head.data() + kMagicBytes + sizeof bytes, sizeof segment_bytes_);
  if (bytes != bytes_ || segment_bytes_ == 0 || (bytes - 1) / segment_bytes_ >= kSegmentsMax) {
    return false;
  }
  done_.assign((bytes - 1) / segment_bytes_ + 1, 0);
  const size_t note_bytes = done_.size() * sizeof done_[0];
  if (SizeOf(StatePath(path_)) != kHeadBytes + note_bytes ||
      !ReadAll(state_.get(), reinterpret_cast<char*>(done_.data()), note_bytes, kHeadBytes)) {
    return false;
  }
  const uint64_t there = SizeOf(path_);
  for (size_t i = 0; i < done_.size(); ++i) {
    if (done_[i] > LengthOf(i) || (done_[i] > 0 && i * segment_bytes_ + done_[i] > there)) {
      return false;
    }
  }
  bytes_done_ = std::accumulate(done_.begin(), done_.end(), uint64_t{0});
  return true;
}

Status PartialFile::Begin(uint64_t segment_bytes, uint64_t prefix) {
  segment_bytes_ = segment_bytes;
  done_.assign((bytes_ - 1) / segment_bytes + 1, 0);
  for (size_t i = 0; i < done_.size(); ++i) {
    const uint64_t begin = i * segment_bytes_;
    done_[i] = prefix > begin ? std::min(prefix - begin, LengthOf(i)) : 0;
  }
  bytes_done_ = prefix;
  std::string note(kMagic, kMagicBytes);
  note.append(reinterpret_cast<const char*>(&bytes_), sizeof bytes_);
  note.append(reinterpret_cast<const char*>(&segment_bytes_), sizeof segment_bytes_);
  note.append(reinterpret_cast<const char*>(done_.data()), done_.size() * sizeof done_[0]);
  if (::ftruncate(state_.get(), 0) != 0 || !WriteAll(state_.get(), note.data(), note.size(), 0)) {
    return CannotWrite(StatePath(path_));
  }
  return ::ftruncate(data_.get(), static_cast<off_t>(prefix)) == 0 ? Status::Ok()
                                                                   : CannotWrite(path_);
}

uint64_t PartialFile::LengthOf(size_t segment) const {
  return std::min(segment_bytes_, bytes_ - segment * segment_bytes_);
}

std::pair<uint64_t, uint64_t> PartialFile::Rest(size_t segment) const {
  const uint64_t begin = segment * segment_bytes_;
  return {begin + done_[segment], begin + LengthOf(segment)};
}

Status PartialFile::Write(size_t segment, const char* data, size_t size) {
  const auto [at, end] = Rest(segment);
  PENSTOCK_CHECK(size <= end - at);
  if (!WriteAll(data_.get(), data, size, at)) return CannotWrite(path_);
  done_[segment] += size;
  bytes_done_ += size;
  const uint64_t place = kHeadBytes + segment * sizeof done_[0];
  return WriteAll(state_.get(), reinterpret_cast<const char*>(&done_[segment]), sizeof done_[0],
                  place)
             ? Status::Ok()
             : CannotWrite(StatePath(path_));
}

uint64_t PartialFile::Prefix() const {
  uint64_t prefix = 0;
  for (size_t i = 0; i < done_.size(); ++i) {
    prefix += done_[i];
    if (done_[i] < LengthOf(i)) break;
  }
  return prefix;
}

Status PartialFile::AdoptPrefix(const std::string& path) {
  const uint64_t prefix = SizeOf(path);
  std::error_code error;
  if (prefix <= bytes_done_ || prefix > bytes_) {
    fs::remove(path, error);
    return Status::Ok();
  }
  fs::rename(path, path_, error);
  if (error) return Status::Internal("cannot rename " + path + ": " + error.message());
  data_ = OpenToWrite(path_);
  if (data_.get() < 0) return CannotWrite(path_);
  return Begin(segment_bytes_, prefix);
}

Status PartialFile::MoveAsPrefix(const std::string& path) {
  std::error_code error;
  if (::ftruncate(data_.get(), static_cast<off_t>(Prefix())) != 0) return CannotWrite(path_);
  fs::rename(path_, path, error);
  if (error) return Status::Internal("cannot rename " + path_ + ": " + error.message());
  fs::remove(StatePath(path_), error);
  return Status::Ok();
}

Status PartialFile::Finish() {
  PENSTOCK_CHECK(bytes_done_ == bytes_);
  if (::fsync(data_.get()) != 0) return CannotWrite(path_);
  std::error_code ignored;
  fs::remove(StatePath(path_), ignored);
  return Status::Ok();
}

void PartialFile::Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
  fs::remove(StatePath(path), ignored);
}

}  // namespace penstock::hub
